# A restore point: both databases, the configuration and the version of one moment, in one directory. Sourced by svc-backup and
# svc-upgrade.
# shellcheck shell=bash disable=SC2154 # the scripts' own

point=${SVC_BACKUP_DIR-}/${SVC_RUN_ID-}
snapshot_name() { printf 'snapshot_%s_%s_%s_%s' "$SVC_NAME" "${SVC_RUN_ID:0:8}" "$SVC_RUN_ID" "$1"; }
# Nobody else uses the search database while the service is stopped: its throttle protects nobody.
no_rate_limit() { if [[ ${SVC_INDICES:-*} == '*' && -z ${SVC_SEARCH_RATE_LIMIT-} ]]; then printf '%s\n' --rate-limit none; fi; }

# begin_restore_point KIND [OPTION OF svc-confsave...]: what need not wait for the stop.
begin_restore_point() {
  local keep=()
  # Of a night's backup the half that is valid is kept: it is all that there is of that night.
  if [[ $1 == nightly ]]; then keep=(--keep-valid); fi
  undo --until finalize remove-incomplete-point -- svc-point remove "$point" --snapshot "$(snapshot_name "$1")" "${keep[@]}"
  step point -- svc-point create "$point"
  note restore_point "$point"
  step configuration -- svc-confsave save --to "$point" "${@:2}"
  step version -- svc-version current
}

# fill_restore_point KIND REASON STEP: both databases, in parallel; STEP has seen the unit just before.
fill_restore_point() {
  local rate=()
  if [[ $1 == upgrade ]]; then mapfile -t rate < <(no_rate_limit); fi
  # The dump is checked and hashed while it is written.
  start dump -- svc-pgdump --dbname "$SVC_DATABASE" --output "$point/$SVC_DATABASE.backup.sql"
  start snapshot -- svc-snap create "$(snapshot_name "$1")" --kind "$1" "--taken-because=$2" "${rate[@]}"
  if [[ $1 == nightly ]]; then finish --all dump snapshot; else finish dump snapshot; fi
  start verify-snapshot -- svc-snap show --from @snapshot
  step unit-after -- svc-unit status
  finish verify-snapshot
  step finalize -- svc-point finalize "$point" --kind "$1" --unit "@$3" --unit @unit-after \
    @configuration @version @snapshot @dump
}

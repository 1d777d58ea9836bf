# A restore point: both databases, the configuration and the version of one moment, in one directory. For svc-backup and svc-upgrade.
# shellcheck shell=bash disable=SC2154 # the scripts' own

point=${SVC_BACKUP_DIR-}/${SVC_RUN_ID-}
pgdump=(svc-pgdump --dbname "${SVC_DATABASE-}" ${SVC_DUMP_COMPRESS:+--compress "$SVC_DUMP_COMPRESS"})
snapshot_name() { printf 'snapshot_%s_%s_%s_%s' "$SVC_NAME" "${SVC_RUN_ID:0:8}" "$SVC_RUN_ID" "$1"; }
# Nobody else uses the cluster while the service is stopped: its throttle protects nobody.
no_rate_limit() { if [[ ${SVC_INDICES:-*} == '*' && -z ${SVC_SEARCH_RATE_LIMIT-} ]]; then printf '%s\n' --rate-limit none; fi; }
# backup_checks CHECK...: whether a restore point can be made; each is a `preflight`, or a `check` with these options.
backup_checks() {
  local output=(--output "$SVC_RUN_DIR/dump.sql") last=("$SVC_BACKUP_DIR"/*/"$SVC_DATABASE.backup.sql")
  # How large a dump will be, the last one says best; whether it has space, `space` says.
  if ((${#last[@]})); then output=(--output "${last[-1]}" --force); fi
  "$@" unit -- svc-unit status
  "$@" search -- svc-snap health
  "$@" repository -- svc-snap verify
  "$@" backup-folder -- svc-point create "$point" --dry-run
  "$@" database -- "${pgdump[@]}" "${output[@]}" --dry-run
  "$@" --needs backup-folder space -- svc-point space --search @search --repository @repository --database @database
  "$@" configuration-present -- svc-confsave save --to "$SVC_RUN_DIR" --dry-run "${layout[@]}"
}
begin_restore_point() { # KIND: what need not wait for the stop
  local keep=()
  # Of a night's backup the one database that is valid is kept: it is all that there is of that night.
  if [[ $1 == nightly ]]; then keep=(--keep-valid); fi
  undo --until finalize remove-incomplete-point -- svc-point remove "$point" --snapshot "$(snapshot_name "$1")" "${keep[@]}"
  step point -- svc-point create "$point"
  note restore_point "$point"
  step configuration -- svc-confsave save --to "$point" "${layout[@]}"
  step version -- svc-version current
}
warm_snapshot() { # REASON: snapshots are incremental, so what is stored now need not be stored while the service is down
  undo --always drop-warm-snapshot -- svc-snap delete "$(snapshot_name warm)" --cancel
  step warm-snapshot -- svc-snap create "$(snapshot_name warm)" --kind warm --taken-because "$1"
}
stop_service() { # until `start` or `commit`, the service is started again before anything else is undone
  # What somebody has stopped since the checks stays so.
  step unit-before -- svc-unit status
  undo --until start start-again -- svc-unit start --from @unit-before
  step stop -- svc-unit stop
}
fill_restore_point() { # KIND REASON STEP: both databases, in parallel; STEP has seen the unit just before
  local rate=() limit=()
  if [[ $3 == stop ]]; then mapfile -t rate < <(no_rate_limit); fi
  # Nobody watches: what takes for ever must not keep the service stopped.
  if [[ $3 == stop && $1 != upgrade ]]; then limit=(--timeout "${SVC_TIMEOUT:-2h}"); fi
  start dump -- "${pgdump[@]}" --output "$point/$SVC_DATABASE.backup.sql" "${limit[@]}"
  start snapshot -- svc-snap create "$(snapshot_name "$1")" --kind "$1" "--taken-because=$2" "${rate[@]}" "${limit[@]}"
  # While the service is stopped, what failed ends the other one.
  if [[ $1 == nightly && $3 != stop ]]; then finish --all dump snapshot; else finish dump snapshot; fi
  start verify-snapshot -- svc-snap show --from @snapshot
  step unit-after -- svc-unit status
  if [[ $3 == stop && $1 != upgrade ]]; then step --defer start -- svc-unit start --from @unit-before; fi
  finish verify-snapshot
  step finalize -- svc-point finalize "$point" --kind "$1" --unit "@$3" --unit @unit-after \
    @configuration @version @snapshot @dump
}

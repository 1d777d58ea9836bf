# A restore point: both databases, the configuration and the version of one moment, in one directory that can be moved
# as a whole. SHA256SUMS is written last: without it, it is no restore point. Sourced by svc-backup and svc-upgrade.
# shellcheck shell=bash disable=SC2154 # run_dir and dry_run are run.sh's

point=''
# What is to go where the run ends before the point is whole: the folder, the snapshot, and the run that began them.
half_point='' half_snapshot='' half_run=''

# make_restore_point KIND BECAUSE [ARGUMENT OF svc-confsave...]: `point` is its directory.
make_restore_point() {
  local kind=$1 because=$2 rate=() name
  shift 2
  # The service is stopped and the search database is its alone: nobody is there to be protected by the server's brake.
  if [[ $kind == upgrade && ${SVC_INDICES:-*} == '*' && -z ${SVC_SEARCH_RATE:-} ]]; then rate=(--rate unlimited); fi
  point=$SVC_BACKUP_DIR/$SVC_RUN_ID name=$(snapshot_name "$SVC_RUN_ID" "$kind")
  if ! $dry_run; then
    if ! { mkdir -p -- "$SVC_BACKUP_DIR" && mkdir -- "$point"; } 2>>"$run_dir/log"; then
      fail 3 backup_dir_unusable "The restore point $point cannot be made." 'Run the script as root, or set SVC_BACKUP_DIR.'
    fi
    half_point=$point
  fi
  fact restore_point "$(text "$point")"
  step unit-before svc-unit status
  half_snapshot=$name half_run=$run_dir
  side_by_side \
    snapshot svc-snap create "$name" --kind "$kind" --taken-because "$because" "${rate[@]}" -- \
    dump svc-pgdump --dbname "$SVC_DATABASE" --output "$point/$SVC_DATABASE.backup.sql"
  step configuration svc-confsave save --to "$point" "$@"
  step version svc-version current
  step unit-after svc-unit status
  step verify-snapshot svc-snap show --from "$(document_of snapshot)"
  step verify-dump svc-pgdump verify --from "$(document_of dump)"
  if ! $dry_run; then seal_restore_point "$kind"; fi
}

# snapshot_name RUN KIND: what the snapshot of a run is named.
snapshot_name() { printf 'snapshot_%s_%s_%s_%s' "$SVC_NAME" "${1:0:8}" "$1" "$2"; }

seal_restore_point() {
  local kind=$1 name
  for name in snapshot:snapshot dump:pgdump configuration:confsave version:version; do
    cp -- "$(document "${name%%:*}")" "$point/${name##*:}.json"
  done
  jq -n --arg id "$SVC_RUN_ID" --arg kind "$kind" --arg at "$(date -u +%FT%TZ)" --arg database "$SVC_DATABASE" \
    --arg version "$(value version .result.version)" \
    --slurpfile before "$(document unit-before)" --slurpfile after "$(document unit-after)" \
    '{schema: "svc-restore-point/1", id: $id, kind: $kind, made_at: $at, version: $version, database: $database,
      quiesced: ([$before[0], $after[0]] | all(.result.after | .job_pending == false and (.active_state | IN("inactive", "failed"))))}' \
    >"$point/restore-point.json"
  (cd -- "$point" && find . -type f ! -name 'SHA256SUMS*' -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS.partial &&
    sync -- ./* && mv -- SHA256SUMS.partial SHA256SUMS && sync -- .)
  half_point='' half_snapshot=''
  say "restore point $point"
}

# take_half_point RUN_DIR: what the run, which was cut off, has made of its restore point is to go.
take_half_point() {
  local begun=("$1"/[0-9][0-9]-snapshot.started) folder
  folder=$(jq -r .settings.SVC_BACKUP_DIR "$1/plan.json")/${1##*/}
  if [[ ! -d $folder || -e $folder/SHA256SUMS ]]; then return; fi
  half_point=$folder
  if ((${#begun[@]})); then half_snapshot=$(snapshot_name "${1##*/}" upgrade) half_run=$1; fi
}

# A point without its sums is none: what a failed run made of one goes, its snapshot too, which may still be being taken. One
# that was refused has made no snapshot.
drop_half_restore_point() {
  local snapshot=("$half_run"/[0-9][0-9]-snapshot.json)
  if [[ -n $half_snapshot ]] && { ((${#snapshot[@]} == 0)) || ! jq -e '.changed == false' "${snapshot[0]}" >/dev/null 2>&1; }; then
    check drop-snapshot svc-snap delete "$half_snapshot" --cancel || :
  fi
  if [[ -n $half_point ]]; then
    rm -rf -- "$half_point"
    fact restore_point null
  fi
  half_point='' half_snapshot=''
}

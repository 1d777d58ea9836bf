# A restore point: both databases, the configuration and the version of one moment, in one directory that can be moved
# as a whole. SHA256SUMS is written last: without it, it is no restore point. Sourced by svc-backup and svc-upgrade.
# shellcheck shell=bash disable=SC2154 # run_dir and dry_run are run.sh's

point='' point_made=false point_sealed=false

# make_restore_point KIND BECAUSE [ARGUMENT OF svc-confsave...]: `point` is its directory.
make_restore_point() {
  local kind=$1 because=$2 rate=()
  shift 2
  # The service is stopped and the search database is its alone: nobody is there to be protected by the server's brake.
  if [[ $kind == upgrade && ${SVC_INDICES:-*} == '*' && -z ${SVC_SEARCH_RATE:-} ]]; then rate=(--rate unlimited); fi
  point=$SVC_BACKUP_DIR/$SVC_RUN_ID
  if ! $dry_run; then
    if ! { mkdir -p -- "$SVC_BACKUP_DIR" && mkdir -- "$point"; } 2>>"$run_dir/log"; then
      fail 3 backup_dir_unusable "The restore point $point cannot be made." 'Run the script as root, or set SVC_BACKUP_DIR.'
    fi
    point_made=true
  fi
  fact restore_point "$(text "$point")"
  step unit-before svc-unit status
  side_by_side \
    snapshot svc-snap create "snapshot_${SVC_NAME}_$(date -u +%Y%m%d)_${SVC_RUN_ID}_$kind" --kind "$kind" --taken-because "$because" "${rate[@]}" -- \
    dump svc-pgdump --dbname "$SVC_DATABASE" --output "$point/$SVC_DATABASE.backup.sql"
  step configuration svc-confsave save --to "$point" "$@"
  step version svc-version current
  step unit-after svc-unit status
  step verify-snapshot svc-snap show --from "$(document_of snapshot)"
  step verify-dump svc-pgdump verify --from "$(document_of dump)"
  if ! $dry_run; then seal_restore_point "$kind"; fi
}

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
  point_sealed=true
  say "restore point $point"
}

# A point without its sums is none: what a failed run made of one goes, its snapshot too.
drop_half_restore_point() {
  if ! $point_made || $point_sealed; then return; fi
  if is_ok "$(document snapshot)"; then check drop-snapshot svc-snap delete --from "$(document snapshot)" || :; fi
  rm -rf -- "$point"
  fact restore_point null
}

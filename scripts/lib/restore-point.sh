# A restore point: both databases, the configuration and the version of one moment, in one directory that can be moved
# as a whole. SHA256SUMS is written last: without it, it is no restore point. Sourced by svc-backup and svc-upgrade.
# shellcheck shell=bash disable=SC2154 # run_dir and dry_run are run.sh's

point=''
# What is to go where the run ends before the point is whole: the folder, the snapshot, and the run that began them.
half_point='' half_snapshot='' half_run=''

# begin_restore_point [ARGUMENT OF svc-confsave...]: its directory, `point`, with what need not wait for the service's stop.
begin_restore_point() {
  point=$SVC_BACKUP_DIR/$SVC_RUN_ID
  if ! planned '' mkdir -p -m 0700 -- "$point"; then
    if ! { mkdir -p -- "$SVC_BACKUP_DIR" && mkdir -- "$point"; } 2>>"$run_dir/log"; then
      fail 3 backup_dir_unusable "The restore point $point cannot be made." 'Run the script as root, or set SVC_BACKUP_DIR.'
    fi
    half_point=$point half_run=$run_dir
  fi
  fact restore_point "$(text "$point")"
  step configuration svc-confsave save --to "$point" "$@"
  step version svc-version current
  if $dry_run; then return; fi
  if ! { cp -- "$(document configuration)" "$point/confsave.json" && cp -- "$(document version)" "$point/version.json"; }; then point_unfinished; fi
}

# fill_restore_point KIND BECAUSE STEP: both databases; STEP says how the unit was just before.
fill_restore_point() {
  local kind=$1 because=$2 unit=$3 rate=() name quiesced=false
  # The service is stopped and the search database is its alone: nobody is there to be protected by the server's brake.
  if [[ $kind == upgrade ]] && takes_brake_off; then rate=(--rate unlimited); fi
  name=$(snapshot_name "$SVC_RUN_ID" "$kind")
  half_snapshot=$name
  # Read back while it is written: the dump is verified when it ends.
  beside dump svc-pgdump --dbname "$SVC_DATABASE" --output "$point/$SVC_DATABASE.backup.sql" --read-back
  beside snapshot svc-snap create "$name" --kind "$kind" --taken-because "$because" "${rate[@]}"
  collect dump
  collect snapshot
  beside verify-snapshot svc-snap show --from "$(document_of snapshot)"
  step unit-after svc-unit status
  collect verify-snapshot
  if $dry_run; then return; fi
  if is_still "$(document "$unit")" && is_still "$(document unit-after)"; then quiesced=true; fi
  # What is asked while a signal comes may be answered wrong: by a process that it has ended.
  [[ -z $signal ]] || exit 1
  # What is altered behind it has this point alone to go back to.
  if [[ $kind == upgrade ]] && ! $quiesced; then
    fail 1 service_started 'The service was started while its databases were being backed up: that is no state to go back to.' \
      "Find out what starts it (systemctl list-dependencies --reverse, a timer, configuration management), keep it from that, then type the same again."
  fi
  write_seal "$kind" "$quiesced" 2>>"$run_dir/log" || point_unfinished
  # Nor is it known what was written meanwhile.
  [[ -z $signal ]] || exit 1
  seal 2>>"$run_dir/log" || point_unfinished
  half_point='' half_snapshot=''
  say "restore point $point"
}

point_unfinished() {
  # A signal for the whole group has ended what wrote it.
  [[ -z $signal ]] || exit 1
  fail 1 restore_point_unfinished "The restore point $point could not be finished: see $run_dir/log." "Is there room on its disk? df '$SVC_BACKUP_DIR'"
}

# write_seal KIND QUIESCED: what makes it a restore point, but for its last name; false where it could not be written.
write_seal() {
  local kind=$1 quiesced=$2 dump=$SVC_DATABASE.backup.sql version database json sum file files=()
  cp -- "$(document snapshot)" "$point/snapshot.json" && cp -- "$(document dump)" "$point/pgdump.json" || return
  version=$(value version .result.version) && sum=$(value dump .result.sha256) || return
  as_text "$version" && version=$json
  as_text "$SVC_DATABASE" && database=$json
  TZ=UTC printf '{\n  "schema": "svc-restore-point/1",\n  "id": "%s",\n  "kind": "%s",\n  "made_at": "%(%FT%TZ)T",\n  "version": %s,\n  "database": %s,\n  "quiesced": %s\n}\n' \
    "$SVC_RUN_ID" "$kind" -1 "$version" "$database" "$quiesced" >"$point/restore-point.json" || return
  # The dump was read back for its own sum.
  (cd -- "$point" && {
    for file in ./*; do [[ $file == "./$dump" || $file == ./SHA256SUMS* ]] || files+=("$file"); done
    { printf '%s  ./%s\n' "$sum" "$dump" && sha256sum -- "${files[@]}"; } >SHA256SUMS.partial && sync -- ./*
  })
}
seal() { mv -- "$point/SHA256SUMS.partial" "$point/SHA256SUMS" && sync -- "$point" "${point%/*}"; }

# keep_good_half: what could be backed up stays, with its documents, although it is no restore point; the other half goes. The
# next prune takes it away, behind a newer point that is good.
keep_good_half() {
  local name half=''
  if is_done dump; then half='The dump is good, and kept.'; fi
  if is_done snapshot && { is_done verify-snapshot || ! has_begun verify-snapshot; }; then
    half+="${half:+ }The snapshot is good, and kept."
    half_snapshot=''
  fi
  if [[ -z $half ]]; then return; fi
  for name in snapshot:snapshot dump:pgdump; do
    if is_done "${name%%:*}"; then cp -- "$(document "${name%%:*}")" "$half_point/${name##*:}.json"; fi
  done
  fact restore_point null
  fact half_point "$(text "$half_point")"
  failure_message+=" $half See $half_point, which is no restore point."
  half_point=''
}

# take_half_point RUN_DIR: what the run, which was cut off, has made of its restore point is to go.
take_half_point() {
  local folder
  folder=$(run_dir=$1 point_of_run)
  if [[ -e $folder/SHA256SUMS ]]; then return; fi
  # All of it was there, and is elsewhere now, or on a disk that is not mounted: its snapshot may be half of a whole point.
  if [[ ! -d $folder ]] && run_dir=$1 is_done unit-after; then return; fi
  half_point=$folder half_run=$1
  if run_dir=$1 has_begun snapshot; then half_snapshot=$(snapshot_name "${1##*/}" upgrade); fi
}

# A point without its sums is none: what a failed run made of one goes, its snapshot too, which may still be being taken. One
# that was refused has made no snapshot.
drop_half_restore_point() {
  local status=0
  if [[ -n $half_snapshot ]] && { run_dir=$half_run has_begun snapshot; } && ! run_dir=$half_run made_nothing snapshot; then
    try drop-snapshot svc-snap delete "$half_snapshot" --cancel || status=$?
    if ((status != 0 && status != 4)); then
      review snapshot_left "The snapshot of what is no restore point was not deleted: $(sentence_of "$(document drop-snapshot)" "$status") svc-snap delete $half_snapshot deletes it."
    fi
  fi
  if [[ -n $half_point ]]; then
    rm -rf -- "$half_point"
    fact restore_point null
  fi
  half_point='' half_snapshot=''
}

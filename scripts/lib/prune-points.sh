# Whole restore points go: by the rules of `svc-snap prune`, or by their names. Sourced by svc-backup.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# A run has numbers for 99 steps: so many points it removes at most, and of so many it looks at the snapshot.
most_removed=60 most_looked_at=30

# prune_points KINDS MAX_AGE MAX_COUNT MIN_COUNT: whole points go by the rules of `svc-snap prune`, each kind by itself, behind
# the newest that was just proven: all its files read, its snapshot looked at. (MAX_AGE in seconds; it and MAX_COUNT may be null.)
prune_points() {
  local kind points judged doomed folder looked_at=0
  proven=()
  points=$(survey_points "")
  for kind in $1; do
    prove_newest "$kind" "$points"
  done
  judged=$(jq -c -f "$lib/prune.jq" --arg kinds "$1" --argjson max_age "$2" --argjson max_count "$3" --argjson min_count "$4" \
    --argjson now "$EPOCHSECONDS" --argjson proven "$(json_array "${proven[@]}")" <<<"$points")
  fact points "$judged"
  fact removed '[]'
  mapfile -t doomed < <(jq -r '.[] | select(.fate == "goes") | .path' <<<"$judged")
  # The next one goes on.
  if ((${#doomed[@]} > most_removed)); then
    warn more_to_prune "${#doomed[@]} restore points are to go; $most_removed of them go now, the others next time."
    doomed=("${doomed[@]:0:most_removed}")
  fi
  for folder in "${doomed[@]}"; do remove_point "$folder"; done
}

# prove_newest KIND POINTS: adds to `proven` the newest point of a kind that is whole and whose snapshot is there and good.
prove_newest() {
  local path id status step
  while IFS= read -r path; do
    id=${path##*/} status=0
    if ! altered_files "$path" >/dev/null; then
      say "$id is damaged"
      continue
    fi
    if ((looked_at == most_looked_at)); then
      warn snapshots_gone "The snapshots of the newest $most_looked_at restore points are not there, or no good; older points are not looked at, and stay."
      return
    fi
    looked_at=$((looked_at + 1))
    step=show-${id//./-}
    check "$step" svc-snap show --from "$path/snapshot.json" || status=$?
    if ((status == 0)); then
      proven+=("$id")
      return
    fi
    # No such snapshot, or no good one. Anything else says nothing of it.
    ((status == 4 || status == 7)) || stop_at "$status" "$step"
  done < <(jq -r --arg kind "$1" 'reverse | .[] | select(.state == "good" and .kind == $kind) | .path' <<<"$2")
}

# remove_point FOLDER: first what makes it a restore point, then its snapshot, then the folder: one that was cut is half, and
# the same again goes on. A snapshot of a search database that is not this one any more, or that may not be written to, stays.
remove_point() {
  local point=$1 id=${1##*/} delete=() status=0 name
  # The version in the id of an upgrade's has dots, a step's name has none.
  name=delete-${id//./-}
  if is_ok "$point/snapshot.json"; then
    delete=(svc-snap delete --from "$point/snapshot.json" --cancel)
  else
    # The name that the run gave it.
    delete=(svc-snap delete "$(snapshot_name "$id" "$(survey_point "$point" | jq -r '.kind // "manual"')")" --cancel)
  fi
  if ! $dry_run; then
    if [[ -e $point/SHA256SUMS ]]; then fact half_removed "$(text "$id")"; fi
    rm -f -- "$point/SHA256SUMS"
  fi
  try "$name" "${delete[@]}" || status=$?
  if ((status)); then
    case $(value "$name" .error.code) in
      snapshot_not_found) ;;
      other_server | repository_readonly | repository_not_found)
        warn snapshot_stays "The snapshot of the restore point $id stays where it is: $(sentence_of "$(document "$name")" "$status")"
        ;;
      *) stop_at "$status" "$name" ;;
    esac
  fi
  if planned "remove-$id" rm -r -- "$point"; then return; fi
  rm -rf -- "$point"
  fact half_removed null
  log "removed $point"
  one_more removed "$id"
}

# forget_points ID...: those that are named, of whatever kind; the newest good one of all never.
forget_points() {
  local id points newest
  if (($# > most_removed)); then fail 2 too_many_points "$# restore points are named; $most_removed go at a time." 'Name some of them now, and the others then.'; fi
  points=$(survey_points "")
  fact points "$points"
  fact removed '[]'
  newest=$(jq -r 'map(select(.state == "good")) | last.id // ""' <<<"$points")
  for id; do
    jq -e --arg id "$id" 'any(.id == $id)' <<<"$points" >/dev/null ||
      fail 4 point_not_found "There is no restore point $id in $SVC_BACKUP_DIR." 'svc-backup --list shows them.'
    if [[ $id == "$newest" ]]; then
      fail 3 newest_point "$id is the newest good restore point, and stays." 'Make another one first: svc-backup.'
    fi
  done
  for id; do remove_point "$SVC_BACKUP_DIR/$id"; done
}

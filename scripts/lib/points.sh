# Restore points: which there are, whether they are whole, and which go. Sourced by the scripts that
# make, take or list them.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, dry_run and the like are run.sh's

# read_point: what `point` says of itself; false where it is no whole restore point of a kind that these scripts know.
read_point() {
  [[ -e $point/SHA256SUMS ]] || return 1
  IFS=$'\t' read -r point_version point_quiesced point_database < <(
    jq -ers 'if length==1 and .[0].schema=="svc-restore-point/1" then .[0] else empty end | [.version, .quiesced, .database] | @tsv' \
      "$point/restore-point.json" 2>/dev/null)
}
point_version='' point_quiesced='' point_database=''

list_points() {
  local found=("$SVC_BACKUP_DIR"/*/SHA256SUMS)
  ((${#found[@]})) || { printf 'none in %s' "$SVC_BACKUP_DIR"; return; }
  found=("${found[@]%/SHA256SUMS}")
  found=("${found[@]##*/}")
  printf '%s' "${found[*]}"
}

# altered_files POINT [UNREAD]: the files of a point that are not what its sums say, or are not there; the file UNREAD, whose
# reading would take too long, is left out. False where there are any, or the sums themselves are none.
altered_files() {
  local report names status=0
  report=$(cd -- "$1" && UNREAD="  ./${2-}" awk 'substr($0, 65) != ENVIRON["UNREAD"]' SHA256SUMS | sha256sum --quiet --strict -c 2>/dev/null) || status=$?
  if ((status == 0)); then return; fi
  names=$(sed -n 's|^\(\./\)\{0,1\}\(.*\): FAILED.*|\2|p' <<<"$report" | paste -sd ' ')
  printf '%s' "${names:-SHA256SUMS}"
  return 1
}

# point_of_run: where the restore point of the run in run_dir is, or was to be.
point_of_run() { printf '%s/%s' "$(jq -r '.settings.SVC_BACKUP_DIR // "/nowhere"' "$run_dir/plan.json")" "${run_dir##*/}"; }

# folder_of_point POINT: the directory of a point that was named by its id or its directory.
folder_of_point() {
  if [[ $1 == */* ]]; then printf '%s' "$1"; else printf '%s/%s' "$SVC_BACKUP_DIR" "$1"; fi
}

# check_point: whether `point` is a whole restore point; the run ends where it is not. All its files are read, but the dump, which
# is read by whoever restores it (svc-pgrestore stage --dry-run, of the preflight), and not at all where standing copies are.
check_point() {
  local damaged
  read_point ||
    fail 4 point_not_found "$point is no restore point: it has no SHA256SUMS, or no restore-point.json of schema svc-restore-point/1." "Name one of: $(list_points)."
  if ! damaged=$(altered_files "$point" "$point_database.backup.sql"); then
    fail 7 point_damaged "The restore point $point is damaged: $damaged is not what its SHA256SUMS say." \
      "Bring that file back from wherever the point was copied to, or name another point."
  fi
}

# is_quiesced: whether the service was stopped while `point` was made, and what is to be said where it was not.
is_quiesced() { [[ $point_quiesced == true ]]; }
unquiesced='The restore point was made while the service ran, so its two databases are not of one moment.'

# newest_good [VERSION MAX_AGE]: the directory of the newest good point; of that version, and not older than so many seconds.
newest_good() {
  survey_points | jq -r --arg version "${1-}" --argjson since "$((EPOCHSECONDS - ${2:-EPOCHSECONDS}))" '
    map(select(.state == "good" and .made_epoch >= $since and ($version == "" or .version == $version))) | last.path // ""'
}

# survey_points [--read-all]: the restore points in SVC_BACKUP_DIR, the oldest first, as a JSON array. Without --read-all the
# dump is judged by its size alone. Folders that no run has made, and that hold no point, are none of ours.
survey_points() {
  local folder
  for folder in "$SVC_BACKUP_DIR"/*/; do
    folder=${folder%/}
    if [[ -L $folder ]]; then continue; fi
    if [[ ${folder##*/} =~ ^[0-9]{8}t[0-9]{6}z- || -e $folder/restore-point.json ]]; then survey_point "$folder" "$@"; fi
  done | jq -cs 'sort_by(.made_epoch, .id)'
}

# survey_point FOLDER [--read-all]: what one is: good, half (without its sums), damaged, or at_work.
survey_point() {
  local folder=$1 state=good altered='' said=null dump size
  if said=$(jq -ces 'if length == 1 and .[0].schema == "svc-restore-point/1" then .[0] else empty end' "$folder/restore-point.json" 2>/dev/null); then
    dump=$(jq -r '.database + ".backup.sql"' <<<"$said")
  else
    said=null dump=''
  fi
  if [[ ! -e $folder/SHA256SUMS ]]; then
    state=half
    if { run_dir=$SVC_STATE_DIR/runs/${folder##*/} is_at_work; }; then state=at_work; fi
  elif [[ $said == null ]]; then
    state=damaged altered=restore-point.json
  elif [[ ${2-} == --read-all ]]; then
    altered=$(altered_files "$folder") || state=damaged
  else
    altered=$(altered_files "$folder" "$dump") || state=damaged
    size=$(stat -c %s -- "$folder/$dump" 2>/dev/null) || size=-1
    if [[ $state == good ]] && ! jq -es --argjson size "$size" 'length==1 and .[0].result.size_bytes==$size' "$folder/pgdump.json" >/dev/null 2>&1; then
      state=damaged altered=$dump
    fi
  fi
  if [[ $state != damaged ]]; then altered=''; fi
  jq -nc --arg path "$folder" --arg state "$state" --arg altered "$altered" --argjson said "$said" \
    --argjson size "$(du -sb -- "$folder" | cut -f 1)" --argjson read_all "$([[ ${2-} == --read-all ]] && echo true || echo false)" '
    ($path | split("/") | last) as $id
    | {id: $id, path: $path, state: $state,
      kind: ($said.kind // ($id | (capture("^[0-9]{8}t[0-9]{6}z-(backup-)?(?<kind>manual|nightly|upgrade)") // {kind: null}) | .kind)),
      version: $said.version, quiesced: $said.quiesced,
      made_at: ($said.made_at // ($id | try (.[0:16] | strptime("%Y%m%dt%H%M%Sz") | todate) catch null)),
      size_bytes: $size, read_all: ($read_all and $state == "good"), altered: (if $altered == "" then [] else ($altered | split(" ")) end)}
    | .made_epoch = (.made_at // "1970-01-01T00:00:00Z" | fromdateiso8601)'
}

# show_points JSON: the same as lines for people.
show_points() {
  jq -r -L "$lib" -f "$lib/points.jq" <<<"$1"
}

# seconds_of TEXT: a length of time (36h, 30d, 4w) in seconds; `none` is null. False for what is none.
seconds_of() {
  local unit
  if [[ $1 == none ]]; then
    printf null
  elif [[ $1 =~ ^([0-9]{1,9})(s|m|h|d|w)$ ]]; then
    case ${BASH_REMATCH[2]} in
      s) unit=1 ;; m) unit=60 ;; h) unit=3600 ;; d) unit=86400 ;; *) unit=604800 ;;
    esac
    printf '%s' "$((10#${BASH_REMATCH[1]} * unit))"
  else
    return 1
  fi
}

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
  local path id status
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
    check "show-$id" svc-snap show --from "$path/snapshot.json" || status=$?
    if ((status == 0)); then
      proven+=("$id")
      return
    fi
    # No such snapshot, or no good one. Anything else says nothing of it.
    ((status == 4 || status == 7)) || stop_at "$status" "show-$id"
  done < <(jq -r --arg kind "$1" 'reverse | .[] | select(.state == "good" and .kind == $kind) | .path' <<<"$2")
}

# remove_point FOLDER: first what makes it a restore point, then its snapshot, then the folder: one that was cut is half, and
# the same again goes on.
remove_point() {
  local point=$1 id=${1##*/} delete=()
  if is_ok "$point/snapshot.json"; then
    delete=(svc-snap delete --from "$point/snapshot.json" --cancel)
  else
    # The name that the run gave it.
    delete=(svc-snap delete "$(snapshot_name "$id" "$(survey_point "$point" | jq -r '.kind // "manual"')")" --cancel)
  fi
  if ! $dry_run; then rm -f -- "$point/SHA256SUMS"; fi
  local status=0
  try "delete-$id" "${delete[@]}" || status=$?
  if ((status != 0)) && ! { ((status == 4)) && [[ $(value "delete-$id" .error.code) == snapshot_not_found ]]; }; then
    stop_at "$status" "delete-$id"
  fi
  if planned "remove-$id" rm -r -- "$point"; then return; fi
  rm -rf -- "$point"
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

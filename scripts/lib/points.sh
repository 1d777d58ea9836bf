# Restore points: which there are, and whether they are whole. Sourced by the scripts that make, take or list them.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, dry_run and the like are run.sh's

# read_point: what `point` says of itself; false where it is no whole restore point of a kind that these scripts know. (Whether that is
# damaged, its sums say.)
read_point() {
  local said=$point/restore-point.json
  [[ -e $point/SHA256SUMS && $(told "$said" .schema 2>/dev/null) == svc-restore-point/1 ]] || return
  point_version=$(told "$said" '.version // "-"') && point_quiesced=$(told "$said" .quiesced) && point_database=$(told "$said" .database)
} 2>/dev/null
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
point_of_run() { printf '%s/%s' "$(told "$run_dir/plan.json" '.settings.SVC_BACKUP_DIR // "/nowhere"')" "${run_dir##*/}"; }

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
  survey_points "" | jq -r --arg version "${1-}" --argjson since "$((EPOCHSECONDS - ${2:-EPOCHSECONDS}))" '
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

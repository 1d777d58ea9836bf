# What a rollback has replaced and kept: what it is, how it is swapped back, and how it goes. Sourced by svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, keep and the like are run.sh's and svc-rollback's

# note_kept RUN: before anything is altered. What is kept goes by the name of the run whose copies are swapped in: this one, or the
# upgrade that had set them aside. Which it is the swaps say, for the last document (status.jq).
note_kept() {
  if $dry_run || ((${#keep[@]})); then return; fi
  facts[kept]="{\"run\":\"$1\",\"indices\":[],\"databases\":[]}"
  facts[swap_back]=$(swap_back_lines "$1")
  fact remove_kept "$(json_array "svc-snap unstage --run $1" "svc-pgrestore unstage --run $1")"
}

# The commands that bring back what was replaced: the content, and after an upgrade the version that it belongs to, by the
# installer that the upgrade had run.
swap_back_lines() {
  local lines=('svc-unit stop' "svc-snap swap --run $1 --back" "svc-pgrestore swap --run $1 --back") newer=''
  if [[ -n $upgrade_run ]]; then newer=$(run_dir=$upgrade_run value new .result.path 2>/dev/null) || newer=''; fi
  if [[ -n $newer ]]; then lines+=('svc-version forget' "$(quoted "$newer")" 'svc-unit start'); fi
  json_array "${lines[@]}"
}

# forget_kept [RUN]: removes what a rollback that has ended well has kept; the last one that has swapped, unless one is named.
forget_kept() {
  local rollback run
  rollback=$(rollback_to_forget "$1")
  [[ -n $rollback ]] ||
    fail 4 nothing_kept "No rollback${1:+ $1} that has replaced anything is noted in $SVC_STATE_DIR/runs." 'svc-snap health names the copies that there are.'
  is_ok "$(times_file document "$rollback")" ||
    fail 3 rollback_unfinished "The rollback ${rollback##*/} is not finished, and may need what it has kept." "Go on with it: svc-rollback --resume ${rollback##*/}"
  run=$(jq -r '.facts.kept.run // ""' "$rollback/notes.json")
  [[ -n $run ]] || fail 4 nothing_kept "The rollback ${rollback##*/} has kept nothing." 'There is nothing to remove.'
  forget_by forget-search svc-snap "$run" "$(run_dir=$rollback document swap-search)"
  forget_by forget-database svc-pgrestore "$run" "$(run_dir=$rollback document swap-database)"
}

rollback_to_forget() {
  if [[ -z $1 ]]; then
    newest_with swap-search svc-rollback
  elif find_run "$1" && [[ $(script_of "$run_dir") == svc-rollback ]] && has_begun swap-search; then
    printf '%s' "$run_dir"
  fi
}

# forget_by STEP TOOL RUN DOCUMENT: by what is noted of the run, which knows of a swap back too. Where nothing is noted any more,
# the document of the swap says what may be left.
forget_by() {
  local status=0
  try "$1" "$2" unstage --run "$3" || status=$?
  if ((status == 4)); then step "$1-by-document" "$2" unstage --from "$4"; return; fi
  ((status == 0)) || stop_at "$status" "$1"
}

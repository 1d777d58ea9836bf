# The checks before anything is altered: all of them are made and shown, then comes the verdict. Sourced by svc-upgrade,
# svc-rollback and svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # facts and the like are run.sh's

preflight_failed=() preflight_status=0 shown_checks=0
# The checks that were made, in their order, and of each the verdict and what it says, or where that is still being written.
checks=() total=''
declare -A verdicts=() sayings=() saying=()
# Of a check of the script's own that failed: its code and its hint.
declare -A check_codes=() check_hints=()

# preflight STEP COMMAND...: a check whose verdict is noted: pass, warn or fail.
preflight() {
  local status=0 verdict=pass file fd
  check "$@" || status=$?
  file=$(document "$1") || file=''
  if ((status)); then
    fail_check "$1" "$status" "$(sentence_of "$file" "$status")"
    return
  fi
  if has_warnings "$file"; then verdict=warn; fi
  note_check "$1" "$verdict"
  # The next check need not wait for that.
  exec {fd}< <(jq -r -L "$lib" -f "$lib/preflight.jq" "$file")
  saying[$1]=$fd
}

# note_check CHECK VERDICT [SENTENCE]; fail_check CHECK STATUS SENTENCE [CODE HINT]: where no tool has said them.
note_check() {
  if [[ -z ${verdicts[$1]-} ]]; then checks+=("$1"); fi
  verdicts[$1]=$2 sayings[$1]=${3-}
}
fail_check() {
  if ((${#preflight_failed[@]} == 0)); then preflight_status=$2; fi
  preflight_failed+=("$1")
  note_check "$1" fail "$3"
  check_codes[$1]=${4-} check_hints[$1]=${5-}
}

# note_preflight: what all checks say, for the last document.
note_preflight() {
  local name json fd lines=()
  local -A count=([pass]=0 [warn]=0 [fail]=0)
  for name in "${checks[@]}"; do
    fd=${saying[$name]-}
    if [[ -n $fd ]]; then
      IFS= read -r "sayings[$name]" <&"$fd" || :
      exec {fd}<&-
      unset "saying[$name]"
    fi
    count[${verdicts[$name]}]=$((count[${verdicts[$name]}] + 1))
    as_text "${sayings[$name]}"
    lines+=("{\"check\":\"$name\",\"verdict\":\"${verdicts[$name]}\",\"says\":$json}")
  done
  facts[preflight_total]="{\"pass\":${count[pass]},\"warn\":${count[warn]},\"fail\":${count[fail]}}"
  total="${#checks[@]} checks: ${count[pass]} pass, ${count[warn]} warn, ${count[fail]} fail"
  fact preflight "$(joined "${lines[@]}")"
}

# preflight_room FOLDER: what is free for a restore point in the folder of such points, and for its snapshot where the repository's
# folder is this host's. Whether the search database has room for itself is judged by its watermarks (svc-snap health).
preflight_room() {
  local free_there=null one_disk=false repository judged device
  repository=$(value search '.result.repository.location? // ""' 2>/dev/null) || repository=''
  if [[ -d $repository ]]; then
    free_there=$(free_bytes "$repository")
    device=$(stat -c %d -- "$repository")
    if [[ $(stat -c %d -- "$1") == "$device" ]]; then one_disk=true; fi
  fi
  mapfile -t judged < <(jq -nr -L "$lib" -f "$lib/room.jq" --arg folder "$1" --argjson free "$(free_bytes "$1")" --arg repository "$repository" \
    --argjson free_there "$free_there" --argjson one_disk "$one_disk" --slurpfile search "$(document search)" \
    --slurpfile verified "$(document repository)" --slurpfile database "$(document database)" 2>/dev/null)
  # A check that left no document has failed, and says so.
  if ((${#judged[@]} == 0)); then return; fi
  if [[ ${judged[0]} == fail ]]; then
    fail_check room 3 "there is too little room: ${judged[1]}." no_room 'Make room there, or set SVC_BACKUP_DIR to a folder on another disk.'
  else
    note_check room "${judged[0]}" "${judged[1]}"
  fi
}

# preflight_search PREFIX DOCUMENT: what a rollback asks before it stages that snapshot: whether it can be staged, and whether what is live
# can be replaced, and kept.
preflight_search() {
  preflight "$1snapshot" svc-snap stage --from "$2" "${other_server[@]}" --dry-run
  preflight "$1exchange" svc-snap restore --from "$2" "${other_server[@]}" --exact "${keep[@]}" --dry-run
}

# free_bytes FOLDER: what is free on its disk.
free_bytes() { df --output=avail -B1 -- "$1" | tail -n 1; }

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  local first=${preflight_failed[0]-} name line width=0
  note_preflight
  for name in "${checks[@]}"; do if ((${#name} > width)); then width=${#name}; fi; done
  for name in "${checks[@]:shown_checks}"; do
    printf -v line 'preflight  %-*s  %s  %s' "$width" "$name" "${verdicts[$name]}" "${sayings[$name]}"
    say "$line"
  done
  if ((${#checks[@]})); then say "preflight: $total"; fi
  shown_checks=${#checks[@]}
  if ((${#preflight_failed[@]} > 1)); then
    failed_step=$first failure_code=${check_codes[$first]-} failure_hint=${check_hints[$first]:-$(stop_hint "$first")}
    failure_message="Nothing was altered: ${#preflight_failed[@]} checks of the preflight failed (${preflight_failed[*]}); the first says: ${sayings[$first]}"
    exit "$preflight_status"
  elif [[ -n $first && -n ${check_codes[$first]} ]]; then
    fail "$preflight_status" "${check_codes[$first]}" "Nothing was altered: ${sayings[$first]}" "${check_hints[$first]}"
  elif [[ -n $first ]]; then
    stop_at "$preflight_status" "$first"
  fi
  judge_hooks
}

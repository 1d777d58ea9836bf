# The checks before anything is altered: all of them are made and shown, then comes the verdict. Sourced by svc-upgrade,
# svc-rollback and svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # facts and the like are run.sh's

preflight_failed=() preflight_status=0
# The checks that were made, in their order, and of each the verdict and what it says.
declare -A verdicts=() sayings=() check_lines=()
checks=() total=''

# preflight STEP COMMAND...: a check whose verdict is noted: pass, warn or fail.
preflight() {
  local status=0 verdict=pass says file
  check "$@" || status=$?
  if ((status)); then
    verdict=fail
    if ((${#preflight_failed[@]} == 0)); then preflight_status=$status; fi
    preflight_failed+=("$1")
    file=$(document "$1") || file=''
    says=$(sentence_of "$file" "$status")
  else
    if has_warnings "$(document "$1")"; then verdict=warn; fi
    says=$(jq -r -L "$lib" -f "$lib/preflight.jq" "$(document "$1")")
  fi
  note_check "$1" "$verdict" "$says"
}

# note_check CHECK VERDICT SENTENCE: a line of the preflight. (One that is made again says only what it says last.)
note_check() {
  local name lines=()
  local -A count=([pass]=0 [warn]=0 [fail]=0)
  if [[ -z ${verdicts[$1]-} ]]; then checks+=("$1"); fi
  verdicts[$1]=$2 sayings[$1]=$3
  check_lines[$1]="{\"check\":\"$1\",\"verdict\":\"$2\",\"says\":$(text "$3")}"
  for name in "${checks[@]}"; do
    count[${verdicts[$name]}]=$((count[${verdicts[$name]}] + 1))
    lines+=("${check_lines[$name]}")
  done
  facts[preflight_total]="{\"pass\":${count[pass]},\"warn\":${count[warn]},\"fail\":${count[fail]}}"
  total="${#checks[@]} checks: ${count[pass]} pass, ${count[warn]} warn, ${count[fail]} fail"
  fact preflight "$(joined "${lines[@]}")"
}

# preflight_room FOLDER: what is free for a restore point in the folder of such points, and for its snapshot where the repository's
# folder is this host's. Whether the search database has room for itself is judged by its watermarks (svc-snap health).
preflight_room() {
  local free_there=null one_disk=false repository judged
  repository=$(value search '.result.repository.location? // ""' 2>/dev/null) || repository=''
  if [[ -d $repository ]]; then
    free_there=$(free_bytes "$repository")
    if [[ $(stat -c %d -- "$repository") == "$(stat -c %d -- "$1")" ]]; then one_disk=true; fi
  fi
  mapfile -t judged < <(jq -nr -L "$lib" -f "$lib/room.jq" --arg folder "$1" --argjson free "$(free_bytes "$1")" --arg repository "$repository" \
    --argjson free_there "$free_there" --argjson one_disk "$one_disk" --slurpfile search "$(document search)" \
    --slurpfile verified "$(document repository)" --slurpfile database "$(document database)" 2>/dev/null)
  # A check that left no document has failed, and says so.
  if ((${#judged[@]} == 0)); then return; fi
  note_check room "${judged[0]}" "${judged[1]}"
  if [[ ${judged[0]} == fail ]]; then
    if ((${#preflight_failed[@]} == 0)); then preflight_status=3; fi
    preflight_failed+=(room)
  fi
}

# free_bytes FOLDER: what is free on its disk.
free_bytes() { df --output=avail -B1 -- "$1" | tail -n 1; }

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  local worst=${preflight_failed[0]-} name line width=0
  for name in "${checks[@]}"; do if ((${#name} > width)); then width=${#name}; fi; done
  for name in "${checks[@]}"; do
    printf -v line 'preflight  %-*s  %s  %s' "$width" "$name" "${verdicts[$name]}" "${sayings[$name]}"
    say "$line"
  done
  if ((${#checks[@]})); then say "preflight: $total"; fi
  if ((${#preflight_failed[@]} > 1)); then
    failed_step=$worst failure_hint=$(stop_hint "$worst")
    failure_message="Nothing was altered: ${#preflight_failed[@]} checks of the preflight failed (${preflight_failed[*]}); the first says: ${sayings[$worst]}"
    exit "$preflight_status"
  elif [[ $worst == room ]]; then
    fail "$preflight_status" no_room "Nothing was altered: there is too little room: ${sayings[room]}." \
      "Make room there, or set SVC_BACKUP_DIR to a folder on another disk."
  elif [[ -n $worst ]]; then
    stop_at "$preflight_status" "$worst"
  fi
  judge_hooks
}

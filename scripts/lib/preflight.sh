# The checks before anything is altered: all of them are made and shown, then comes the verdict. Sourced by svc-upgrade,
# svc-rollback and svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # facts and the like are run.sh's

preflight_failed=() preflight_status=0

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
    if jq -e '.warnings | length > 0' "$(document "$1")" >/dev/null; then verdict=warn; fi
    says=$(jq -r -L "$lib" -f "$lib/preflight.jq" "$(document "$1")")
  fi
  note_check "$1" "$verdict" "$says"
}

# note_check CHECK VERDICT SENTENCE: a line of the preflight.
note_check() {
  facts=$(jq -c --arg check "$1" --arg verdict "$2" --arg says "$3" \
    '.preflight = [.preflight[]? | select(.check != $check)] + [{check: $check, verdict: $verdict, says: $says}]
    | .preflight_total = (.preflight | {pass: map(select(.verdict == "pass")) | length,
      warn: map(select(.verdict == "warn")) | length, fail: map(select(.verdict == "fail")) | length})' <<<"$facts")
  keep_notes
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
  if ((${#judged[@]})); then note_check room "${judged[0]}" "${judged[1]}"; fi
}

# free_bytes FOLDER: what is free on its disk.
free_bytes() { df --output=avail -B1 -- "$1" | tail -n 1; }

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  local worst=${preflight_failed[0]-} line
  while IFS= read -r line; do say "$line"; done < <(jq -r '(.preflight // []) as $checks | ($checks | map(.check | length) | max) as $width
    | ($checks[] | "preflight  \(.check + " " * ($width - (.check | length)))  \(.verdict)  \(.says)"),
      (.preflight_total // empty | "preflight: \(.pass + .warn + .fail) checks: \(.pass) pass, \(.warn) warn, \(.fail) fail")' <<<"$facts")
  if ((${#preflight_failed[@]} > 1)); then
    failed_step=$worst failure_hint=$(stop_hint "$worst")
    failure_message="Nothing was altered: ${#preflight_failed[@]} checks of the preflight failed (${preflight_failed[*]}); the first says: $(sentence_of "$(document "$worst")" "$preflight_status")"
    exit "$preflight_status"
  elif [[ -n $worst ]]; then
    stop_at "$preflight_status" "$worst"
  fi
  judge_hooks
}

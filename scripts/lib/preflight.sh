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
    says=$(jq -r -f "$lib/preflight.jq" "$(document "$1")")
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

# preflight_room: what is free for a restore point, beside what the last one took. Whether a dump has room is judged by
# svc-pgdump, and whether the search database has by its watermarks (svc-snap health).
preflight_room() {
  local folder=$1 free last=("$SVC_BACKUP_DIR"/*/SHA256SUMS) took=0 verdict=pass says repository=''
  free=$(df --output=avail -B1 -- "$folder" | tail -n 1)
  if ((${#last[@]})); then took=$(du -sb -- "${last[-1]%/*}" | cut -f 1); fi
  says="$(size "$free") free in $folder"
  if ((took)); then says+="; the last restore point takes $(size "$took")"; fi
  if ((free < took)); then verdict=warn; fi
  # Where the repository's folder is this host's.
  if is_done search; then repository=$(value search '.result.repository.location // ""'); fi
  if [[ -d $repository ]]; then says+="; $(size "$(df --output=avail -B1 -- "$repository" | tail -n 1)") free in $repository"; fi
  note_check room "$verdict" "$says"
}

# size BYTES: for people.
size() {
  local text
  text=$(numfmt --to=iec -- "$1")
  printf '%s %sB' "${text%[KMGTPE]}" "${text##*[0-9.]}"
}

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

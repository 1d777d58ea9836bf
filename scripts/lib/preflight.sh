# The checks before anything is altered: all of them are made and shown, then comes the verdict. Sourced by svc-upgrade
# and svc-rollback.
# shellcheck shell=bash

preflight_failed=() preflight_status=0

# preflight STEP COMMAND...: a check whose verdict is noted: pass, warn or fail.
preflight() {
  local status=0 verdict=pass
  check "$@" || status=$?
  if ((status)); then
    verdict=fail
    if ((${#preflight_failed[@]} == 0)); then preflight_status=$status; fi
    preflight_failed+=("$1")
  elif jq -e '.warnings | length > 0' "$(document "$1")" >/dev/null; then
    verdict=warn
  fi
  facts=$(jq -c --arg check "$1" --arg verdict "$verdict" \
    '.preflight = [.preflight[]? | select(.check != $check)] + [{check: $check, verdict: $verdict}]' <<<"$facts")
  keep_notes
}

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  local worst=${preflight_failed[0]-}
  if ((${#preflight_failed[@]} > 1)); then
    failed_step=$worst failure_hint=$(stop_hint "$worst")
    failure_message="Nothing was altered: ${#preflight_failed[@]} checks of the preflight failed (${preflight_failed[*]}); the first says: $(sentence_of "$(document "$worst")" "$preflight_status")"
    exit "$preflight_status"
  elif [[ -n $worst ]]; then
    stop_at "$preflight_status" "$worst"
  fi
  judge_hooks
  say 'preflight: passed'
}

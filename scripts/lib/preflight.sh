# The checks before anything is altered: all of them are made and shown, then comes the verdict. Sourced by svc-upgrade
# and svc-rollback.
# shellcheck shell=bash

preflight_failed='' preflight_status=0

# preflight STEP COMMAND...: a check whose verdict is noted: pass, warn or fail.
preflight() {
  local status=0 verdict=pass
  check "$@" || status=$?
  if ((status)); then
    verdict=fail
    if [[ -z $preflight_failed ]]; then preflight_failed=$1 preflight_status=$status; fi
  elif jq -e '.warnings | length > 0' "$(document "$1")" >/dev/null; then
    verdict=warn
  fi
  facts=$(jq -c --arg check "$1" --arg verdict "$verdict" '.preflight += [{check: $check, verdict: $verdict}]' <<<"$facts")
}

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  if [[ -n $preflight_failed ]]; then stop_at "$preflight_status" "$preflight_failed"; fi
  judge_hooks
  say 'preflight: passed'
}

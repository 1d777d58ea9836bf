# What an upgrade and a rollback do alike around an installer: the checks before, the hooks after. Sourced by both.
# shellcheck shell=bash

preflight_failed='' preflight_status=0

# preflight STEP COMMAND...: a check whose verdict is noted; all of them are made before the run stops for one.
preflight() {
  local status=0 verdict=pass
  check "$@" || status=$?
  if ((status)); then
    verdict=fail
    if [[ -z $preflight_failed ]]; then preflight_failed=$1 preflight_status=$status; fi
  elif jq -e '.warnings | length > 0' "$(document "$1")" >/dev/null; then
    verdict=warn
  fi
  note_preflight "$1" "$verdict"
}

note_preflight() {
  facts=$(jq -c --arg check "$1" --arg verdict "$2" '.preflight += [{check: $check, verdict: $verdict}]' <<<"$facts")
}

# The verdict over all checks: nothing has been altered yet.
preflight_verdict() {
  if [[ -n $preflight_failed ]]; then stop_at "$preflight_status" "$preflight_failed"; fi
  say 'preflight: passed'
}

# The installer of VERSION: in SVC_INSTALLER_DIR, or beside the installer that is to be run.
installer_of() {
  local folder
  for folder in "${SVC_INSTALLER_DIR:-}" "${2:-}"; do
    if [[ -n $folder && -e $folder/$SVC_NAME-$1.run ]]; then
      printf '%s' "$folder/$SVC_NAME-$1.run"
      return
    fi
  done
  printf '%s' "${SVC_INSTALLER_DIR:-${2:-.}}/$SVC_NAME-$1.run"
}

# run_hooks VERSION: the executable files of post-install, in order; each is owned by root and writable by nobody else.
run_hooks() {
  local hook
  for hook in "$SVC_HOOKS_DIR"/post-install/*; do
    [[ -f $hook && -x $hook ]] || continue
    if [[ $(stat -Lc %u -- "$hook") != "$EUID" || -n $(find -L "$hook" -perm /022) ]]; then
      fail 3 hook_unsafe "The hook $hook is not yours alone to write." "chown root '$hook'; chmod go-w '$hook'"
    fi
    SVC_VERSION=$1 foreign "hook-${hook##*/}" "$hook" || stop_at $? "hook-${hook##*/}"
  done
}

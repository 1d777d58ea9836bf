# Commands that are not ours: installers, uninstallers, hooks. Sourced by run.sh; foreign.sh is what runs them.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, signal and the like are run.sh's

# foreign STEP COMMAND...: a command without a document, in a session of its own, under the lock of foreign commands, with
# the caller's umask and locale. 0 where it ended with 0, else 1: its own status is none of the contract's, and stands in
# its document. A signal ends the waiting, not the command, and its document says so.
foreign() {
  local name=$1 status=null begun begun_ms locale=()
  if planned "$@"; then return; fi
  start_files foreign "$@"
  shift
  begun=$(date -u +%FT%TZ) begun_ms=$(date +%s%3N)
  if [[ -n $caller_locale ]]; then locale=("LC_ALL=$caller_locale"); else locale=(-u LC_ALL); fi
  (
    umask "$caller_umask"
    exec env -u SVC_LOCK_FD "${locale[@]}" setsid -w flock -n -o -E 8 "$SVC_STATE_DIR/foreign.lock" \
      bash "$lib/foreign.sh" "$files.rc" "$files.out" "$@" {SVC_LOCK_FD}>&-
  ) </dev/null >>"$run_dir/log" 2>&1 &
  pid=$!
  wait "$pid" && status=0 || status=$?
  if [[ -r $files.rc ]]; then status=$(<"$files.rc"); elif [[ -n $signal ]]; then status=null; fi
  tail -c 4096 -- "$files.out" >"$run_dir/tail" 2>/dev/null || :
  jq -n -f "$lib/command.jq" --arg version "$version_of_tools" --arg step "$name" --arg run_id "$SVC_RUN_ID" --arg host "$(hostname)" \
    --arg started "$begun" --arg finished "$(date -u +%FT%TZ)" --argjson duration_ms "$(($(date +%s%3N) - begun_ms))" \
    --argjson exit_status "$status" --arg output "$files.out" --arg rc "$files.rc" --argjson argv "$(shown_array "$@")" \
    --rawfile tail "$run_dir/tail" >"$files.json"
  rm -f -- "$run_dir/tail"
  if [[ $status == null ]]; then
    failed_step=$name failure_message="The command of the step $name is still at work."
    failure_hint=$(hint_of "$name")
    exit 1
  fi
  say "$name: ended with status $status"
  ((status == 0))
}

# Commands that are not ours: installers, uninstallers, hooks. Sourced by run.sh; foreign.sh is what runs them.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, signal and the like are run.sh's

# In a run that is gone on with: whether such a command is run again although it failed, or nobody saw how it ended.
rerun_installer=false

# foreign STEP COMMAND...: a command without a document, in a session of its own, under the lock of foreign commands, with
# the caller's umask and locale. 0 where it ended with 0, else 1: its own status is none of the contract's, and stands in
# its document. A signal ends the waiting, not the command: that has no document then, and leaves its status when it ends.
foreign() {
  local name=$1 status locale=() session=(setsid -w) input=/dev/null
  if planned "$@" || passed_over "$1"; then return; fi
  shift
  if $resuming && has_begun "$name"; then
    judge_earlier "$name" "$@" || return 1
    if is_done "$name"; then return; fi
  fi
  if [[ $name == installer ]]; then before_installer; fi
  # Only here is it known that it is to be run (again).
  if $resuming && $args_lost; then ask_for_arguments "$name"; fi
  need_room "$name"
  start_files foreign "$name" "$@"
  # That may have taken a while.
  if [[ -n $signal ]]; then
    rm -f -- "$files.started"
    exit 1
  fi
  if [[ -n $caller_locale ]]; then locale=("LC_ALL=$caller_locale"); else locale=(-u LC_ALL); fi
  # One that asks has the terminal.
  if $attached && : 2>/dev/null </dev/tty; then session=() input=/dev/tty; fi
  (
    umask "$caller_umask"
    exec env -u SVC_LOCK_FD "${locale[@]}" "${session[@]}" bash "$lib/foreign.sh" "$SVC_STATE_DIR/foreign.lock" \
      "$files.rc" "$files.out" "$input" "$(private_count "$name")" "$@" {SVC_LOCK_FD}>&-
  ) </dev/null >>"$run_dir/log" 2>&1 &
  pid=$!
  wait "$pid" && status=0 || status=$?
  if [[ -s $files.rc ]]; then
    status=$(<"$files.rc")
  elif [[ -n $signal ]]; then
    failed_step=$name failure_message="The command of the step $name is still at work."
    failure_hint="Wait until $files.rc is there and says how it ended; its output is $files.out. $(next_hint)"
    exit 1
  elif [[ ! -e $files.out ]]; then
    failed_step=$name
    rm -f -- "$files.started"
    fail 1 command_not_begun "The command of the step $name was not begun: see $run_dir/log." "$(next_hint)"
  fi
  command_document "$name" "$status" "$@"
  say "$name: ended with status $status"
  ((status == 0))
}

# private_count STEP: how many of the command's last words are not to be written anywhere.
private_count() { if [[ $1 == installer ]]; then printf '%s' "${#installer_args[@]}"; else printf 0; fi; }

# command_document STEP STATUS COMMAND...: writes the document of a command that has ended (schema svc-run.command/1), with the path of
# the step's files in `files`.
command_document() {
  local name=$1 status=$2 times begun ended ok=true changed=true error=null lines=() json on argv output
  shift 2
  # Without the file of its status, it ended just now.
  mapfile -t times < <(stat -c %.3Y -- "$files.started" "$files.rc" 2>/dev/null)
  begun=${times[0]/./} ended=${times[1]:-$EPOCHREALTIME}
  ended=${ended/./} ended=${ended:0:${#begun}}
  if ((status)); then
    # An installer may repeat what it was handed in words of its own.
    if (($(private_count "$name") == 0)) && [[ -s $files.out ]]; then
      mapfile -d '' -t lines < <(tail -c 4096 -- "$files.out" | grep -av '^$' | tail -n 5 | tr '\n' '\0' |
        env --ignore-signal=HUP,INT,TERM svc-run redact)
    fi
    # One that failed may have altered anything.
    ok=false changed=null
    as_text "Read $files.out."
    error="{\"code\":\"command_failed\",\"message\":\"The command of the step $name ended with status $status.\",\"hint\":$json,"
    as_array "${lines[@]}"
    error+="\"retryable\":false,\"causes\":$json}"
  fi
  show "$@"
  as_array "${shown[@]}" && argv=$json
  as_text "$host" && on=$json
  as_text "$files.out" && output=$json
  # Where there is no room, the next step finds that too; the command's status is kept.
  if ! {
    printf '{"schema":"svc-run.command/1","tool":"svc-run %s","step":"command","ok":%s,"changed":%s,"dry_run":false,"run_id":"%s","host":%s,' \
      "$version_of_tools" "$ok" "$changed" "$SVC_RUN_ID" "$on" &&
    TZ=UTC printf '"started_at":"%(%FT%TZ)T","finished_at":"%(%FT%TZ)T","duration_ms":%s,"result":' \
      "$((begun / 1000))" "$((ended / 1000))" "$((ended > begun ? ended - begun : 0))" &&
    printf '{"name":"%s","argv":%s,"exit_status":%s,"output":%s},"warnings":[],"error":%s}\n' \
      "$name" "$argv" "$status" "$output" "$error"
  } 2>/dev/null >"$files.json.partial" || ! mv -- "$files.json.partial" "$files.json"; then
    rm -f -- "$files.json.partial"
  fi
}

# Just before an installer is run; a script may redefine it.
before_installer() { :; }

# judge_earlier STEP COMMAND...: what became of a command that an earlier time of this run has started. One that has ended
# meanwhile gets its document. It is not run again by itself where nobody saw how it ended, nor where it is the installer or what
# uninstalls and failed; a hook that failed is. False where it is what uninstalls, which may have left the unit down all the same,
# or a hook of a rollback, which starts the service all the same.
judge_earlier() {
  local name=$1 found=("$run_dir"/[0-9][0-9]-"$1"{,.[0-9],.[0-9][0-9]}.started) files
  files=${found[-1]%.started}
  shift
  if never_began; then return; fi
  # It began while this run was being gone on with.
  if [[ ! -s $files.rc ]] && foreign_at_work; then
    fail 8 foreign_at_work "The command of the step $name is still at work." "Wait until it has ended; its output is $files.out. $(next_hint)"
  fi
  if [[ -s $files.rc ]] && ! is_whole "$files.json"; then command_document "$name" "$(<"$files.rc")" "$@"; fi
  if $rerun_installer || is_done "$name"; then return; fi
  if ! is_whole "$files.json" && [[ $name == hook-* && $script == svc-rollback ]]; then
    say "$name: nobody saw how it ended"
    return 1
  elif ! is_whole "$files.json"; then
    end_unknown "$name" "$(rerun_hint)"
  elif [[ $name == uninstall ]]; then
    return 1
  elif [[ $name == installer ]]; then
    local ended
    ended=$(value "$name" .result.exit_status)
    fail_at "$name" 3 installer_failed "The installer ended with status $ended, and is not run again by itself: see $files.out." "$(rerun_hint)"
  fi
}

# end_unknown STEP HINT: the run ends because of a command of which that is all that is known.
end_unknown() { fail_at "$1" 3 end_unknown "Nobody saw how the command of the step $1 ended: it has left no exit status in $run_dir." "$2"; }

# never_began: whether the script was killed before the command itself had begun, which makes the file of its output first. One
# that is still on its way finds under the lock that it is not wanted any more.
never_began() {
  # shellcheck disable=SC2016 # the inner shell's
  if [[ ! -e $files.rc && ! -e $files.out && ! -e $files.json ]]; then
    flock -w 1 "$SVC_STATE_DIR/foreign.lock" bash -c '[[ -e $1 ]] || : >"$2"' _ "$files.out" "$files.unwanted" || :
  fi
  [[ -e $files.unwanted ]]
}

# The terminal: a run that alters things must not hang on a login session. Sourced by the scripts that do.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, script and the like are run.sh's

can_follow=true

# leave_terminal: on a terminal that is no multiplexer's the script goes on in a session of its own, without a terminal, and
# this process only follows it: what becomes of the terminal is nothing to the run.
leave_terminal() {
  local folder self child watcher status=0 shelter=()
  if $attached || $dry_run || $followed || holds_lock; then return; fi
  if ! [[ -t 0 || -t 1 || -t 2 ]]; then return; fi
  if $resuming && was_attached; then return; fi
  if logind_kills; then
    shelter=(systemd-run --scope --quiet --collect)
  elif [[ -n ${TMUX:-}${STY:-} ]]; then
    return
  fi
  folder=$(mktemp -d "${TMPDIR:-/tmp}/$script.XXXXXX") self=$(readlink -f -- "$0")
  : >"$folder/err"
  # Bash lets what it starts beside itself ignore INT, and a script cannot undo that.
  SVC_FOLLOWED=$folder "${shelter[@]}" setsid env --default-signal=INT "$self" "${arguments[@]}" </dev/null >"$folder/out" 2>"$folder/err" &
  child=$!
  trap 'unfollow INT' INT
  trap 'unfollow TERM' TERM
  trap 'unfollow HUP' HUP
  printf '%s: goes on in a session of its own (process %s): ^C and the end of this terminal only end the watching.\n' "$script" "$child" >&2 || :
  tail -n +1 -s 0.2 -f --pid="$child" -- "$folder/err" >&2 2>/dev/null &
  watcher=$!
  wait "$child" || status=$?
  wait || :
  if [[ -t 1 ]]; then jq --tab . "$folder/out" 2>/dev/null || cat -- "$folder/out"; else cat -- "$folder/out"; fi
  rm -rf -- "$folder"
  exit "$status"
}

# was_attached: whether the run that is to be gone on with stayed on its terminal: its installer may ask again.
was_attached() {
  local run_dir=''
  find_run "$run_asked" && jq -e '.arguments | index("--attached")' "$run_dir/plan.json" >/dev/null 2>&1
}

# logind_kills: whether the end of the login session ends whatever was started in it (KillUserProcesses=yes): a session of its
# own is no shelter then, and a multiplexer neither, but a scope of the system's is, which inherits the environment and so needs
# no secret on a command line. Root alone may make one.
logind_kills() {
  [[ $EUID -eq 0 && $(</proc/self/cgroup) == */user.slice/* ]] &&
    [[ $(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses 2>/dev/null) == 'b true' ]] &&
    systemd-run --scope --quiet --collect true 2>/dev/null
}

# The end of the watching. The run removes what it wrote for it.
unfollow() {
  trap '' PIPE
  # It ignores INT, and would go on showing the run.
  kill "$watcher" 2>/dev/null || :
  printf '\n%s: the run goes on. Look at it: %s --status. End it: kill %s\n' "$script" "$script" "$child" >&2 || :
  trap - "$1"
  kill -s "$1" $$
}

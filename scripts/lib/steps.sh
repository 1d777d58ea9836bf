# The steps of a run: each is noted, started, awaited, and its document kept. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, signal and the like are run.sh's

# start_files KIND STEP COMMAND...: `files` is the path of the step's files, without their endings; the journal says that
# the step was started. A signal that came while no step ran, or while one ended well, ends the run here.
start_files() {
  local kind=$1 name=$2
  shift 2
  $ending || [[ -z $signal ]] || exit 1
  name_files "$name"
  show "$@"
  log "$kind $name: $(quoted "${shown[@]}")"
  if [[ -n $elsewhere ]] || ! printf '%s\n' "$kind" 2>/dev/null >"$files.started" || { $ending && no_room; }; then
    rm -f -- "$files.started"
    $ending || journal_full "The step $name"
    # What a run does at its end is done all the same, and how it went is read where there is room.
    if elsewhere=${elsewhere:-$(mktemp -d -p /dev/shm "$script.XXXXXX")}; then files=$elsewhere/${files##*/}; fi
  fi
  # What only looks at something is asked again.
  if [[ $kind != check && -z $elsewhere ]] && ! keep_journal && ! $ending; then
    rm -f -- "$files.started"
    journal_full "The step $name"
  fi
}

# How much room on the disk of the journal a command must have that is not ours, for its output.
foreign_room=8388608

# need_room STEP: a command of which nothing could be noted is not begun.
need_room() {
  local left
  left=$(df --output=avail -B1 -- "$run_dir" | tail -n 1)
  if ((left < foreign_room)); then journal_full "The step $1"; fi
}

# journal_full WHAT: what cannot be noted, for want of room or since the disk does not take it, is not begun.
journal_full() {
  fail 1 journal_full "$1 was not begun: the journal in $run_dir cannot be written." "Make room on the disk of $SVC_STATE_DIR, or mend it. $(next_hint)"
}

# A step that an earlier time of the run has started keeps its number, and nothing of it is overwritten.
name_files() {
  local before=("$run_dir"/[0-9][0-9]-"$1".started) times=2
  if $resuming && ((${#before[@]})); then
    files=${before[0]%.started}
    while [[ -e $files.$times.started ]]; do times=$((times + 1)); done
    files+=.$times
  else
    step_number=$((step_number + 1))
    printf -v files '%s/%02d-%s' "$run_dir" "$step_number" "$1"
  fi
}

# passed_over STEP: in a run that is gone on with, a step that is ok already is not made again.
passed_over() {
  if ! $resuming || $ending || ! is_done "$1"; then return 1; fi
  log "$1: ok already"
}

# begin KIND STEP COMMAND...: starts a tool in the background; its process is `pid`.
begin() {
  local as=()
  start_files "$@"
  shift 2
  # Bash lets what it starts beside itself ignore INT, which the tools undo and a script cannot.
  if [[ $1 == /* && $(trap -p INT) == *on_signal* ]]; then as=(env --default-signal=INT); fi
  # A script of ours gives its own account where this one does.
  if [[ $1 == /* ]] && $verbose; then set -- "$1" -v "${@:2}"; fi
  if [[ -t 2 ]] || { [[ $1 == /* ]] && $verbose; }; then
    "${as[@]}" "$@" >"$files.json.partial" </dev/null &
  else
    "${as[@]}" "$@" >"$files.json.partial" 2>>"$run_dir/log" </dev/null &
  fi
  pid=$!
  children+=("$pid")
  # One that came in between has not reached it.
  if [[ -n $signal ]] && ! $ending; then kill -s "$signal" "$pid" 2>/dev/null || :; fi
}

# await NAME FILES PID: waits for a step, keeps its document, and gives its exit status (0 or 9 as 0). One that a signal has broken
# off ends the run.
await() {
  local name=$1 files=$2 pid=$3 status=0 said
  wait_for "$pid" || status=$?
  # Seen once, on a busy machine: an INT for the whole group ended the steps, and bash had not noticed it.
  if [[ -z $signal ]] && ((status == 129 || status == 130 || status == 143)); then signal=$(kill -l "$status"); fi
  forget_child "$pid"
  mv -- "$files.json.partial" "$files.json"
  # What wait says when a signal came need not be about the step: bash 5.2 loses the status of a child that ends at that moment
  # (255). Its document says how it ended.
  if ((status > 128)) && is_ok "$files.json"; then status=0; fi
  # Asked once more where a signal for the whole group has ended the asking, which says nothing about the document.
  if ((status == 0 || status == 9)) && { say_of "$files.json" || say_of "$files.json"; }; then
    if ((status == 9)) && ! $review; then
      review=true
      keep_notes
    fi
    say "$name: $said"
    return 0
  fi
  local how="failed with status $status"
  if ((status == 4)); then how='not there'; fi
  say "$name: $how: $(sentence_of "$files.json" "$status")"
  # What a signal has broken off says nothing of what it was at: nobody goes on from it, and on_exit says what to type.
  if [[ -n $signal ]] && ! $ending; then
    failed_step=$name failure_message="The step $name was at work: $(sentence_of "$files.json" "$status")"
    exit 1
  fi
  # A tool that was killed, or is none, has no status of the contract.
  if ((status == 0 || status > 9)); then status=1; fi
  return "$status"
}

# wait_for PID: waits until it has ended, and gives its status. `wait` comes back early when a signal was caught.
wait_for() {
  local status
  while :; do
    wait "$1" && status=0 || status=$?
    if ((status <= 128)) || ! is_child_at_work "$1"; then return "$status"; fi
  done
}

# is_child_at_work PID: whether it is at work still. One that has ended is nobody of ours any more, and somebody else may have its number.
is_child_at_work() {
  local pids
  pids=$(jobs -pr)
  [[ $'\n'$pids$'\n' == *$'\n'$1$'\n'* ]]
}

forget_child() {
  local left=() child
  for child in "${children[@]}"; do [[ $child == "$1" ]] || left+=("$child"); done
  children=("${left[@]}")
}

# check STEP COMMAND...: a step that reads only; it is run by --dry-run too. Gives its status, and stops nothing.
check() {
  if passed_over "$1"; then return; fi
  begin check "$@"
  await "$1" "$files" "$pid"
}

# must STEP COMMAND...: a check that must hold. must_or_absent: what is not there (4) is no failure.
must() { check "$@" || stop_at $? "$1"; }
must_or_absent() {
  local status=0
  check "$@" || status=$?
  ((status == 0 || status == 4)) || stop_at "$status" "$1"
}

# must_now STEP COMMAND...: likewise, and asked anew in a run that is gone on with.
must_now() {
  local status=0
  begin check "$@"
  await "$1" "$files" "$pid" || status=$?
  ((status == 0 || status == 4)) || stop_at "$status" "$1"
}

# try STEP COMMAND...: a step with an effect; step STEP COMMAND...: the same, and the run stops where it is not ok.
try() {
  if planned "$@" || passed_over "$1"; then return; fi
  begin step "$@"
  await "$1" "$files" "$pid"
}
step() { try "$@" || stop_at $? "$1"; }

# again STEP COMMAND...: the same, also where it was ok at an earlier time of the run: since then anything may have happened.
again() {
  if planned "$@"; then return; fi
  begin step "$@"
  await "$1" "$files" "$pid" || stop_at $? "$1"
}

# planned STEP COMMAND...: true, and only noted, in a dry run. The lines can be typed in any folder: documents go to
# <step>.json there, as the run directory has them.
planned() {
  $dry_run || return 1
  local line name=$1
  shift
  show "$@"
  line=$(quoted "${shown[@]}")
  line=${line//"$run_dir"/.}
  if [[ $1 == svc-* ]]; then line+=" > $name.json"; fi
  plan+=("$line")
  printf '%s\n' "$line" >&2 || :
}

# beside STEP COMMAND...: a step that goes on while others are made; collect STEP waits for it, and the run stops where it is not ok.
# One that fails lets those beside it end: on_exit waits for them, and keeps their documents.
declare -A going_on=()
beside() {
  if planned "$@" || passed_over "$1"; then return; fi
  begin step "$@"
  going_on[$1]="$pid $files"
}
collect() {
  local at_work=${going_on[$1]-}
  if [[ -z $at_work ]]; then return; fi
  unset "going_on[$1]"
  await "$1" "${at_work#* }" "${at_work%% *}" || stop_at $? "$1"
}

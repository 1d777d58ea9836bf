# A run: its directory, which is its journal; its lock; its steps; its end. Sourced by the scripts, which set `script`
# (their name) and call run_begin, check, step, side_by_side, foreign, and run_end. See README.md of this folder.
# shellcheck shell=bash

set -Eeuo pipefail
shopt -s inherit_errexit nullglob

lib=${BASH_SOURCE[0]%/*}
script=${0##*/}
# shellcheck source-path=SCRIPTDIR
. "$lib/settings.sh"
# shellcheck source-path=SCRIPTDIR
. "$lib/people.sh"

dry_run=false
run_dir='' run_shown='' step_number=0 started='' started_ms=0
failed_step='' failure_code='' failure_message='' failure_hint=''
review=false
children=() arguments=()
signal=''
facts='{}' warnings='[]' plan='[]'

# run_begin KIND: takes the service's lock, makes the run directory, notes the settings.
run_begin() {
  started=$(date -u +%FT%TZ) started_ms=$(date +%s%3N)
  export SVC_RUN_ID=${SVC_RUN_ID:-$(new_run_id "$1")}
  trap 'on_signal HUP' HUP
  trap 'on_signal INT' INT
  trap 'on_signal TERM' TERM
  trap 'on_exit' EXIT
  run_shown=$SVC_STATE_DIR/runs/$SVC_RUN_ID
  if $dry_run; then
    run_dir=$(mktemp -d "${TMPDIR:-/tmp}/svc-dry-run.XXXXXX")
    return
  fi
  # The umask makes them 0700.
  if ! { mkdir -p -- "$SVC_STATE_DIR/runs" 2>/dev/null && [[ -w $SVC_STATE_DIR/runs ]]; }; then
    fail 3 state_dir_unusable "The state folder $SVC_STATE_DIR cannot be used." \
      'Run the script as root, or set SVC_STATE_DIR to a folder of your own.'
  fi
  lock_service
  run_dir=$run_shown
  mkdir -- "$run_dir" ||
    fail 3 run_exists "There is a run $SVC_RUN_ID already." 'Unset SVC_RUN_ID, so that the run gets an id of its own.'
  write_plan >"$run_dir/plan.json"
  say "run $SVC_RUN_ID in $run_dir"
}

# An id of this second, and a number behind it where another run of this second has that id.
new_run_id() {
  local id number=1
  id=$(date -u +%Y%m%dt%H%M%Sz)-$1
  while [[ -e $SVC_STATE_DIR/runs/$id ]]; do
    number=$((number + 1))
    id=${id%%-*}-$1-$number
  done
  printf '%s' "$id"
}

# One lock for the service. A script that was called by a script inherits the open lock and does not take it again.
lock_service() {
  if [[ -n ${SVC_LOCK_FD:-} && -e /proc/self/fd/$SVC_LOCK_FD ]]; then return; fi
  exec {SVC_LOCK_FD}>"$SVC_STATE_DIR/lock"
  export SVC_LOCK_FD
  flock -n "$SVC_LOCK_FD" ||
    fail 8 locked 'Another run is at work on the service.' "Wait until it has ended: ls -t $SVC_STATE_DIR/runs shows it first."
  flock -n "$SVC_STATE_DIR/foreign.lock" true ||
    fail 8 foreign_at_work 'An installer or another command of an earlier run is still at work.' \
      "Wait until it has ended: its output is the newest .out file under $SVC_STATE_DIR/runs."
}

# The settings of this run, without secrets (files that hold some are named, their content is not), and the tools.
write_plan() {
  jq -n --arg script "$script" --arg run_id "$SVC_RUN_ID" --arg started "$started" --argjson arguments "$(json_array "${arguments[@]}")" \
    --arg tools "$(svc-version --version)" \
    '{script: $script, run_id: $run_id, started_at: $started, arguments: $arguments, tools: $tools,
      settings: ($ENV | with_entries(select(.key | test("^(SVC_|PG(HOST|PORT|USER|DATABASE|PASSFILE)$)"))
                       | select(.key | test("PASSWORD$|TOKEN|SECRET|API_KEY$|_FD$") | not)))}'
}

# A JSON array of strings.
json_array() { jq -nc '$ARGS.positional' --args -- "$@"; }

# fact KEY JSON: something that the last document says in its result.
fact() { facts=$(jq -c --arg key "$1" --argjson value "$2" '.[$key] = $value' <<<"$facts"); }

# text VALUE: a JSON string.
text() { jq -n --arg text "$1" '$text'; }

# warn CODE SENTENCE; review CODE SENTENCE also makes the exit status 9.
warn() {
  warnings=$(jq -c --arg code "$1" --arg message "$2" '. + [{code: $code, message: $message}]' <<<"$warnings")
  say "warning: $2"
}
review() { warn "$@"; review=true; }

# document STEP: the file of the newest document of a step; value STEP FILTER: something in it.
document() {
  local found=("$run_dir"/[0-9][0-9]-"$1".json "$run_dir"/[0-9][0-9]-"$1".[0-9].json)
  ((${#found[@]})) && printf '%s' "${found[-1]}"
}
value() { jq -r "$2" "$(document "$1")"; }

# The path of the next step's files, without their endings.
next_files() {
  step_number=$((step_number + 1))
  printf -v files '%s/%02d-%s' "$run_dir" "$step_number" "$1"
}

# begin STEP COMMAND...: starts a step in the background; its files are `files`, its process is `pid`.
begin() {
  local name=$1
  shift
  next_files "$name"
  log "step $name: $(quoted "$@")"
  : >"$files.started"
  if [[ -t 2 ]]; then
    "$@" >"$files.json.partial" </dev/null &
  else
    "$@" >"$files.json.partial" 2>>"$run_dir/log" </dev/null &
  fi
  pid=$!
  children+=("$pid")
}

# await NAME FILES PID: waits for a step, keeps its document, and gives the step's own exit status.
await() {
  local name=$1 files=$2 pid=$3 status
  while :; do
    wait "$pid" && status=0 || status=$?
    # `wait` comes back early when a signal was caught; the step itself is still to be waited for.
    kill -0 "$pid" 2>/dev/null || break
  done
  forget_child "$pid"
  mv -- "$files.json.partial" "$files.json"
  if jq -es 'length==1 and .[0].ok==true' "$files.json" >/dev/null 2>&1; then
    if ((status == 9)); then review=true; fi
    say "$name: $(jq -r '(.warnings[] | "warning: \(.message) "), "ok, \(.duration_ms) ms"' "$files.json")"
    return 0
  fi
  ((status)) || status=1
  local how="failed with status $status"
  if ((status == 4)); then how='not there'; fi
  say "$name: $how$(jq -r '": \(.error.message)"' "$files.json" 2>/dev/null || true)"
  return "$status"
}

forget_child() {
  local left=() child
  for child in "${children[@]}"; do [[ $child == "$1" ]] || left+=("$child"); done
  children=("${left[@]}")
}

# check STEP COMMAND...: a step that reads only; it is run by --dry-run too. Gives its status, and stops nothing.
check() {
  begin "$@"
  await "$1" "$files" "$pid"
}

# step STEP COMMAND...: a step with an effect; the run stops where it is not ok.
step() {
  local status
  if planned "$@"; then return; fi
  begin "$@"
  await "$1" "$files" "$pid" || { status=$?; stop_at "$status" "$1"; }
}

# planned STEP COMMAND...: true, and only noted, in a dry run.
planned() {
  $dry_run || return 1
  shift
  local line
  line=$(quoted "$@")
  line=${line//"$run_dir"/"$run_shown"}
  plan=$(jq -c --arg line "$line" '. + [$line]' <<<"$plan")
  printf '%s\n' "$line" >&2
}

# side_by_side STEP COMMAND... -- STEP COMMAND...: both at once, both awaited, both documents kept. One that fails lets
# the other end, and the run stops with the status of the first that failed.
side_by_side() {
  local first=() name_a files_a pid_a status_a=0 status_b=0
  while [[ $1 != -- ]]; do first+=("$1"); shift; done
  shift
  if planned "${first[@]}"; then planned "$@"; return; fi
  name_a=${first[0]}
  begin "${first[@]}"
  files_a=$files pid_a=$pid
  begin "$@"
  await "$name_a" "$files_a" "$pid_a" || status_a=$?
  await "$1" "$files" "$pid" || status_b=$?
  ((status_a == 0)) || stop_at "$status_a" "$name_a"
  ((status_b == 0)) || stop_at "$status_b" "$1"
}

# foreign STEP COMMAND...: a command without a document, in a session of its own, under the lock of foreign commands.
# Gives its status; 128+n of a signal that ended the script's waiting leaves the command at work.
foreign() {
  local name=$1 status begun begun_ms
  shift
  if planned "$name" "$@"; then return; fi
  next_files "$name"
  begun=$(date -u +%FT%TZ) begun_ms=$(date +%s%3N)
  log "foreign $name: $(quoted "$@")"
  : >"$files.started"
  setsid -w flock -n -o -E 8 "$SVC_STATE_DIR/foreign.lock" bash "$lib/foreign.sh" "$files.rc" "$files.out" "$@" \
    {SVC_LOCK_FD}>&- </dev/null >>"$run_dir/log" 2>&1 &
  pid=$!
  wait "$pid" && status=0 || status=$?
  if [[ -n $signal ]]; then return "$status"; fi
  [[ -r $files.rc ]] && status=$(<"$files.rc")
  jq -n -f "$lib/command.jq" --arg step "$name" --arg run_id "$SVC_RUN_ID" --arg host "$(hostname)" \
    --arg started "$begun" --arg finished "$(date -u +%FT%TZ)" --argjson duration_ms "$(($(date +%s%3N) - begun_ms))" \
    --argjson exit_status "$status" --arg output "$files.out" --argjson argv "$(json_array "$@")" \
    --arg tail "$(tail -n 20 -- "$files.out" 2>/dev/null || true)" >"$files.json"
  say "$name: ended with status $status"
  return "$status"
}

# stop_at STATUS STEP: the run ends because of a step; stop_hint says what to type next (a script may redefine it).
stop_at() {
  failed_step=$2
  failure_message="The step $2 failed, and the run stopped there: $(jq -r '.error.message // "it left no document"' "$(document "$2")" 2>/dev/null || echo 'it left no document')"
  failure_hint=$(stop_hint "$2")
  exit "$1"
}
stop_hint() { jq -r '.error.hint // "Run the same command again."' "$(document "$1")" 2>/dev/null || printf 'Run the same command again.'; }

# fail STATUS CODE SENTENCE HINT: the run ends because of a rule of the script's own.
fail() {
  failure_code=$2 failure_message=$3 failure_hint=$4
  exit "$1"
}

on_signal() {
  signal=$1
  local child
  for child in "${children[@]}"; do kill -s "$1" "$child" 2>/dev/null || true; done
  if ((${#children[@]} == 0)); then exit $((128 + $(kill -l "$1"))); fi
}

# What a script does before it ends, whatever way (start the service again); a script may redefine it.
before_end() { :; }

on_exit() {
  local status=$?
  trap '' HUP INT TERM
  trap - EXIT
  set +e
  if [[ -n $signal ]]; then
    status=$((128 + $(kill -l "$signal")))
    failure_code=interrupted
    failure_message="The run was ended by $signal. $failure_message"
    [[ -n $failure_hint ]] || failure_hint=$(stop_hint "$failed_step")
  elif ((status == 0)) && $review; then
    status=9
  fi
  before_end "$status"
  print_document "$status"
  if ((status != 0 && status != 9)); then
    printf '%s: %s\nhint: %s\n' "$script" "${failure_message:-The run stopped.}" "${failure_hint:-Read $run_dir/log.}" >&2
  fi
  if $dry_run && [[ -n $run_dir ]]; then rm -rf -- "$run_dir"; fi
  if [[ -n $signal ]]; then
    trap - "$signal"
    kill -s "$signal" $$
  fi
  exit "$status"
}

# The last document: kept in the run directory, and printed.
print_document() {
  local documents=() pretty=-c text
  [[ -n $run_dir ]] && documents=("$run_dir"/[0-9][0-9]-*.json)
  [[ -t 1 ]] && pretty=--tab
  text=$(
    if ((${#documents[@]})); then jq -c '{file: input_filename, document: .}' "${documents[@]}"; fi |
      jq -s "$pretty" -f "$lib/status.jq" --arg script "$script" --arg run_id "${SVC_RUN_ID:-}" --arg host "$(hostname)" \
        --arg started "$started" --arg finished "$(date -u +%FT%TZ)" --argjson duration_ms "$(($(date +%s%3N) - started_ms))" \
        --argjson exit_status "$1" --argjson dry_run "$dry_run" --arg run_dir "$run_dir" --arg failed "$failed_step" \
        --arg message "$failure_message" --arg hint "$failure_hint" --arg code "$failure_code" \
        --argjson facts "$facts" --argjson warnings "$warnings" --argjson plan "$plan"
  )
  if [[ -n $run_dir && -d $run_dir ]] && ! $dry_run; then printf '%s\n' "$text" >"$run_dir/document.json"; fi
  printf '%s\n' "$text"
}

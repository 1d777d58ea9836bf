# A run: its directory, which is its journal; its lock; its steps; its end. Sourced first by every script, which then
# calls run_begin, check, step, side_by_side and foreign, and says run_finished as its last act.
# ../README.md describes the run directory.
# shellcheck shell=bash

set -Eeuo pipefail
shopt -s inherit_errexit nullglob

lib=${BASH_SOURCE[0]%/*}
script=$(readlink -f -- "$0")
script=${script##*/}
# shellcheck source-path=SCRIPTDIR
. "$lib/settings.sh"
# shellcheck source-path=SCRIPTDIR
. "$lib/people.sh"

dry_run=false
run_dir='' step_number=0 started='' started_ms=0 version_of_tools=''
failed_step='' failure_code='' failure_message='' failure_hint=''
review=false finished=false ending=false
# What helps after a signal; a script changes it as it goes.
interrupted_hint='Type the same again.'
children=() arguments=() private_args=()
signal=''
facts='{}' warnings='[]' plan='[]'

# run_begin KIND: takes the service's lock, makes the run directory, notes the settings.
run_begin() {
  started=$(date -u +%FT%TZ) started_ms=$(date +%s%3N)
  trap 'on_signal HUP' HUP
  trap 'on_signal INT' INT
  trap 'on_signal TERM' TERM
  # A handler and not an ignored signal, which the tools and installers would inherit.
  trap : PIPE
  trap on_exit EXIT
  need_programs
  local inherited=false
  if holds_lock; then inherited=true; fi
  # A script that was called by a script is a run of its own.
  if $inherited || [[ -z ${SVC_RUN_ID:-} ]]; then SVC_RUN_ID=$(new_run_id "$1"); fi
  export SVC_RUN_ID
  [[ $SVC_RUN_ID =~ ^[0-9]{8}t[0-9]{6}z-[a-z0-9.-]+$ ]] ||
    fail 2 run_id_invalid "SVC_RUN_ID is \`$SVC_RUN_ID\`, which is no run id." 'Unset it, or write it as 20261120t020003z-NAME.'
  if $dry_run; then
    run_dir=$(mktemp -d "${TMPDIR:-/tmp}/svc-dry-run.XXXXXX")
    return
  fi
  # The umask makes them 0700.
  if ! { mkdir -p -- "$SVC_STATE_DIR/runs" 2>/dev/null && [[ -w $SVC_STATE_DIR/runs ]]; }; then
    fail 3 state_dir_unusable "The state folder $SVC_STATE_DIR cannot be used." \
      'Run the script as root, or set SVC_STATE_DIR to a folder of your own.'
  fi
  $inherited || lock_service
  mkdir -- "$SVC_STATE_DIR/runs/$SVC_RUN_ID" 2>/dev/null ||
    fail 3 run_exists "There is a run $SVC_RUN_ID already." 'Unset SVC_RUN_ID, so that the run gets an id of its own.'
  run_dir=$SVC_STATE_DIR/runs/$SVC_RUN_ID
  write_plan >"$run_dir/plan.json"
  say "run $SVC_RUN_ID in $run_dir"
}

need_programs() {
  local program
  for program in jq flock setsid sha256sum svc-version svc-unit svc-snap svc-pgdump svc-pgrestore svc-confsave; do
    command -v "$program" >/dev/null ||
      fail 4 program_not_found "The program $program is not installed or not on the PATH." "Install it; the PATH is $PATH."
  done
  version_of_tools=$(svc-version --version)
  version_of_tools=${version_of_tools##* }
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

# Whether the lock is held already, by the script that called this one.
holds_lock() { [[ ${SVC_LOCK_FD:-} =~ ^[0-9]+$ && /proc/self/fd/$SVC_LOCK_FD -ef $SVC_STATE_DIR/lock ]]; }

# One lock for the service, which the tools inherit: an orphan keeps it until it has ended.
lock_service() {
  exec {SVC_LOCK_FD}>"$SVC_STATE_DIR/lock"
  export SVC_LOCK_FD
  flock -n "$SVC_LOCK_FD" ||
    fail 8 locked 'Another run is at work on the service.' "Wait until it has ended: ls -t $SVC_STATE_DIR/runs shows it first."
  flock -n "$SVC_STATE_DIR/foreign.lock" true ||
    fail 8 foreign_at_work 'An installer or another command of an earlier run is still at work.' \
      "Wait until it has ended: its output is the newest .out file under $SVC_STATE_DIR/runs."
}

# The settings of this run, without secrets: files that hold some are named, their content is not.
write_plan() {
  jq -n --arg script "$script" --arg run_id "$SVC_RUN_ID" --arg started "$started" --argjson arguments "$(shown_array "${arguments[@]}")" \
    --arg version "$version_of_tools" \
    '{script: $script, run_id: $run_id, started_at: $started, arguments: $arguments, tools: $version,
      settings: ($ENV | with_entries(select(.key | test("^(SVC_|PG(HOST|PORT|USER|DATABASE|PASSFILE)$)"))
                       | select(.key | test("PASSWORD$|TOKEN|SECRET|API_KEY$|_FD$") | not)
                       | .value |= sub("//[^/@]*@"; "//")))}'
}

# A JSON array of strings.
json_array() { jq -nc '$ARGS.positional' --args -- "$@"; }

# The same of a command, without the arguments that are not for documents and logs (what is handed on to an installer).
shown_array() { mapfile -d '' -t shown < <(shown_args "$@"); json_array "${shown[@]}"; }
shown_args() {
  local word private
  for word; do
    for private in "${private_args[@]}"; do
      if [[ -n $private ]]; then word=${word//"$private"/<redacted>}; fi
    done
    printf '%s\0' "$word"
  done
}

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
  local found=("$run_dir"/[0-9][0-9]-"$1".json)
  ((${#found[@]})) && printf '%s' "${found[-1]}"
}
value() { jq -r "$2" "$(document "$1")"; }

# document_of STEP: the same, with the name that a dry run prints where it has made none.
document_of() { document "$1" || printf '%s.json' "$1"; }

# is_whole FILE: whether it holds one document; is_ok FILE: whether that document is ok as well.
whole='length==1 and (.[0] | type == "object" and has("ok"))'
is_whole() { jq -es "$whole" "$1" >/dev/null 2>&1; }
is_ok() { jq -es 'length==1 and .[0].ok==true' "$1" >/dev/null 2>&1; }

# start_files KIND STEP COMMAND...: `files` is the path of the step's files, without their endings; the journal says that
# the step was started. A signal that came while no step ran, or while one ended well, ends the run here.
start_files() {
  local kind=$1 name=$2
  shift 2
  $ending || [[ -z $signal ]] || exit 1
  step_number=$((step_number + 1))
  printf -v files '%s/%02d-%s' "$run_dir" "$step_number" "$name"
  mapfile -d '' -t shown < <(shown_args "$@")
  log "$kind $name: $(quoted "${shown[@]}")"
  printf '%s\n' "$kind" >"$files.started"
}

# begin KIND STEP COMMAND...: starts a tool in the background; its process is `pid`.
begin() {
  start_files "$@"
  shift 2
  if [[ -t 2 ]]; then
    "$@" >"$files.json.partial" </dev/null &
  else
    "$@" >"$files.json.partial" 2>>"$run_dir/log" </dev/null &
  fi
  pid=$!
  children+=("$pid")
}

# await NAME FILES PID: waits for a step, keeps its document, and gives its exit status (0 or 9 as 0).
await() {
  local name=$1 files=$2 pid=$3 status said
  while :; do
    wait "$pid" && status=0 || status=$?
    # `wait` comes back early when a signal was caught; the step itself is still to be waited for.
    kill -0 "$pid" 2>/dev/null || break
  done
  # Seen once, on a busy machine: an INT for the whole group ended the steps, and bash had not noticed it.
  if [[ -z $signal ]] && ((status == 129 || status == 130 || status == 143)); then signal=$(kill -l "$status"); fi
  forget_child "$pid"
  mv -- "$files.json.partial" "$files.json"
  if ((status == 0 || status == 9)) && said=$(said_of "$files.json"); then
    if ((status == 9)); then review=true; fi
    say "$name: $said"
    return 0
  fi
  local how="failed with status $status"
  if ((status == 4)); then how='not there'; fi
  say "$name: $how: $(sentence_of "$files.json" "$status")"
  # A tool that was killed, or is none, has no status of the contract.
  if ((status == 0 || status > 9)); then status=1; fi
  return "$status"
}

# said_of FILE: what a step says whose one document is ok; nothing, and a failure, where it is not.
said_of() {
  jq -rse 'if length==1 and .[0].ok==true then .[0] else empty end
    | [.warnings[] | "warning: \(.message) "] + ["ok, \(.duration_ms) ms"] | join("")' "$1" 2>/dev/null
}

# sentence_of FILE STATUS: what a step that failed says.
sentence_of() {
  if is_whole "$1"; then
    jq -r '.error.message // "it is not ok"' "$1"
  else
    printf 'it ended with status %s and left no document; see %s/log.' "$2" "$run_dir"
  fi
}

# hint_of STEP: what a step that failed says that helps.
hint_of() {
  local file
  if file=$(document "$1") && is_whole "$file"; then
    jq -r '.error.hint // "Run the same command again."' "$file"
  else
    printf 'Read %s/log, then run the same command again.' "$run_dir"
  fi
}

forget_child() {
  local left=() child
  for child in "${children[@]}"; do [[ $child == "$1" ]] || left+=("$child"); done
  children=("${left[@]}")
}

# check STEP COMMAND...: a step that reads only; it is run by --dry-run too. Gives its status, and stops nothing.
check() {
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

# try STEP COMMAND...: a step with an effect; step STEP COMMAND...: the same, and the run stops where it is not ok.
try() {
  if planned "$@"; then return; fi
  begin step "$@"
  await "$1" "$files" "$pid"
}
step() { try "$@" || stop_at $? "$1"; }

# planned STEP COMMAND...: true, and only noted, in a dry run. The lines can be typed in any folder: documents go to
# <step>.json there, as the run directory has them.
planned() {
  $dry_run || return 1
  local line name=$1
  shift
  mapfile -d '' -t shown < <(shown_args "$@")
  line=$(quoted "${shown[@]}")
  line=${line//"$run_dir"/.}
  if [[ $1 == svc-* ]]; then line+=" > $name.json"; fi
  plan=$(jq -c --arg line "$line" '. + [$line]' <<<"$plan")
  printf '%s\n' "$line" >&2 || :
}

# side_by_side STEP COMMAND... -- STEP COMMAND...: both at once, both awaited, both documents kept. One that fails lets
# the other end, and the run stops with the status of the first that failed.
side_by_side() {
  local first=() files_a pid_a status_a=0 status_b=0
  while [[ $1 != -- ]]; do first+=("$1"); shift; done
  shift
  if planned "${first[@]}"; then planned "$@"; return; fi
  begin step "${first[@]}"
  files_a=$files pid_a=$pid
  begin step "$@"
  await "${first[0]}" "$files_a" "$pid_a" || status_a=$?
  await "$1" "$files" "$pid" || status_b=$?
  ((status_a == 0)) || stop_at "$status_a" "${first[0]}"
  ((status_b == 0)) || stop_at "$status_b" "$1"
}

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

# stop_at STATUS STEP: the run ends because of a step; stop_hint says what to type next (a script may redefine it).
stop_at() {
  local file
  file=$(document "$2") || file=''
  failed_step=$2
  failure_message="The step $2 failed, and the run stopped there: $(sentence_of "$file" "$1")"
  failure_hint=$(stop_hint "$2")
  exit "$1"
}
stop_hint() { hint_of "$1"; }

# fail STATUS CODE SENTENCE HINT: the run ends because of a rule of the script's own.
fail() {
  failure_code=$2 failure_message=$3 failure_hint=$4
  exit "$1"
}

# run_finished: the last act of a script. A run that ends without it has not done what it was asked.
run_finished() {
  [[ -z $signal ]] || exit 1
  finished=true
}

on_signal() {
  signal=$1
  local child
  for child in "${children[@]}"; do kill -s "$1" "$child" 2>/dev/null || :; done
}

# What a script does before it ends, whatever way (start the service again); a script may redefine it.
before_end() { :; }

on_exit() {
  local status=$?
  ending=true
  trap '' HUP INT TERM
  trap - EXIT
  set +e
  if [[ -n $signal ]]; then
    status=$((128 + $(kill -l "$signal")))
    failure_code=interrupted
    failure_message="The run was ended by $signal.${failure_message:+ $failure_message}"
    failure_hint=${failure_hint:-$interrupted_hint}
  elif ((status == 0)) && ! $finished; then
    status=1
  elif ((status > 9)) || { ((status != 0)) && [[ -z $failure_message ]]; }; then
    # A command of the script itself failed; its status is none of the contract's.
    status=1
  elif ((status == 0)) && $review; then
    status=9
  fi
  failure_message=${failure_message:-The script itself failed.}
  failure_hint=${failure_hint:-Read ${run_dir:-what stands above}${run_dir:+/log}; it says which command was the last.}
  before_end "$status"
  if ! print_document "$status" 2>/dev/null; then
    status=1 failure_message='The last document could not be written.' failure_hint="It is in ${run_dir:-no run directory}, if there was room."
  fi
  if ((status != 0 && status != 9)); then
    printf '%s: %s\nhint: %s\n' "$script" "$failure_message" "$failure_hint" >&2
  fi
  if $dry_run && [[ -n $run_dir ]]; then rm -rf -- "$run_dir"; fi
  if [[ -n $signal ]]; then
    trap - "$signal"
    kill -s "$signal" $$
  fi
  exit "$status"
}

# The documents of the steps, in their order. A step that was started and left no whole document is unknown, unless it
# only looked at something.
step_documents() {
  local begun name
  for begun in "$run_dir"/[0-9][0-9]-*.started; do
    name=${begun##*/} name=${name#*-} name=${name%.started}
    jq -cse --arg step "$name" "if $whole then {step: \$step, document: .[0]} else empty end" "${begun%.started}.json" 2>/dev/null ||
      jq -nc --arg step "$name" --arg kind "$(<"$begun")" '{step: $step, document: {
        schema: null, ok: false, changed: (if $kind == "check" then false else null end), duration_ms: 0,
        error: {code: "no_document", retryable: false, causes: []}}}'
  done
}

# The last document: kept in the run directory, and printed.
print_document() {
  local pretty=-c document
  [[ -t 1 ]] && pretty=--tab
  document=$(
    if [[ -n $run_dir ]]; then step_documents; fi |
      jq -s "$pretty" -f "$lib/status.jq" --arg version "$version_of_tools" --arg script "$script" --arg run_id "${SVC_RUN_ID:-}" \
        --arg host "$(hostname)" --arg started "$started" --arg finished "$(date -u +%FT%TZ)" \
        --argjson duration_ms "$(($(date +%s%3N) - started_ms))" --argjson exit_status "$1" --argjson dry_run "$dry_run" \
        --arg run_dir "$run_dir" --arg failed "$failed_step" --arg message "$failure_message" --arg hint "$failure_hint" \
        --arg code "$failure_code" --argjson facts "$facts" --argjson warnings "$warnings" --argjson plan "$plan"
  )
  if [[ -n $run_dir ]] && ! $dry_run; then printf '%s\n' "$document" >"$run_dir/document.json" || return; fi
  printf '%s\n' "$document"
}

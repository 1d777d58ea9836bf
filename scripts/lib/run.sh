# A run: its directory, which is its journal; its lock; its steps; its end. Sourced first by every script, which then
# calls run_begin, check, step, beside and foreign, and says run_finished as its last act.
# ../README.md describes the run directory.
# shellcheck shell=bash

set -Eeuo pipefail
shopt -s inherit_errexit nullglob

lib=${BASH_SOURCE[0]%/*}
script=$(readlink -f -- "$0")
script=${script##*/}
. "$lib/settings.sh"
. "$lib/people.sh"
. "$lib/words.sh"
. "$lib/json.sh"
. "$lib/notes.sh"
. "$lib/journal.sh"
. "$lib/documents.sh"
. "$lib/steps.sh"
. "$lib/commands.sh"
. "$lib/runs.sh"
. "$lib/end.sh"

dry_run=false resuming=false can_resume=false can_follow=false attached=false
# The folder of what a followed script writes for the terminal that follows it (terminal.sh).
followed_in=${SVC_FOLLOWED:-} followed=false
if [[ -n $followed_in ]]; then followed=true; fi
unset SVC_FOLLOWED
run_dir='' elsewhere='' parent='' step_number=0 started='' started_ms=0 version_of_tools='' host='' user='' call_id=''
failed_step='' failure_code='' failure_message='' failure_hint=''
finished=false ending=false
children=() arguments=() private_args=()
# Steps of which nothing is left: what one has done, another has undone.
undone=()
signal=''

# A signal for the whole process group is the script's to answer, and no answer to what it was just asking about a document.
jq() { env --ignore-signal=HUP,INT,TERM jq "$@"; }
# Nor is it the end of what is being made durable.
sync() { env --ignore-signal=HUP,INT,TERM sync "$@"; }

# Milliseconds since 1970.
now_ms() { printf '%s' "$((${EPOCHREALTIME/./} / 1000))"; }

# run_begin KIND: takes the service's lock, makes the run directory, notes the settings.
run_begin() {
  prepare_run
  # A script that was called by a script is a run of its own.
  if holds_lock; then
    parent=${SVC_RUN_ID:-}
    unset SVC_RUN_ID
  fi
  [[ ${SVC_RUN_ID:-$call_id} =~ ^[0-9]{8}t[0-9]{6}z-[a-z0-9.-]+$ ]] ||
    fail 2 run_id_invalid "SVC_RUN_ID is \`$SVC_RUN_ID\`, which is no run id." 'Unset it, or write it as 20261120t020003z-NAME.'
  if $dry_run; then
    export SVC_RUN_ID=${SVC_RUN_ID:-$(new_run_id "$1")}
    run_dir=$(mktemp -d "${TMPDIR:-/tmp}/svc-dry-run.XXXXXX")
    return
  fi
  # The umask makes them 0700.
  if ! { { [[ -d $SVC_STATE_DIR/runs ]] || mkdir -p -- "$SVC_STATE_DIR/runs" 2>/dev/null; } && [[ -w $SVC_STATE_DIR/runs ]]; }; then
    fail 3 state_dir_unusable "The state folder $SVC_STATE_DIR cannot be used." \
      'Run the script as root, or set SVC_STATE_DIR to a folder of your own.'
  fi
  lock_service
  export SVC_RUN_ID=${SVC_RUN_ID:-$(new_run_id "$1")}
  name_holder
  local made=$SVC_STATE_DIR/runs/$SVC_RUN_ID
  if [[ -e $made ]]; then
    fail 3 run_exists "There is a run $SVC_RUN_ID already." 'Unset SVC_RUN_ID, so that the run gets an id of its own.'
  fi
  if mkdir -- "$made" 2>/dev/null && write_plan "$made/plan.json" 2>/dev/null; then
    run_dir=$made
    keep_journal || journal_full 'What was asked for'
  else
    rm -rf -- "$made"
    fail 1 journal_full "There is no room for the journal of the run in $SVC_STATE_DIR." "Make room on its disk."
  fi
  say "run $SVC_RUN_ID in $run_dir"
  log_call
}

# What holds from here on, whatever the run is: signals, the last document, the programs.
prepare_run() {
  TZ=UTC printf -v started '%(%FT%TZ)T' -1
  started_ms=$(now_ms)
  # Of one that ends before it has a run: of no other call.
  local now=$EPOCHREALTIME
  TZ=UTC printf -v call_id '%(%Y%m%dt%H%M%Sz)T-%s-%s.%s' "${now%.*}" "${script#svc-}" "${now#*.}" "$$"
  catch_signals
  # A handler and not an ignored signal, which the tools and installers would inherit.
  trap : PIPE
  trap on_exit EXIT
  need_programs
}

# A signal that comes while bash 5.2 waits for the first `$(` of a command, or is about to read one, is handled when that is being read:
# bash takes the text of the trap for a part of it then, and wants the `)`, or the signal is lost. So there is one, where otherwise
# it is the text of a here-document.
catch_signals() {
  local name
  for name in HUP INT TERM; do
    # shellcheck disable=SC2064 # the name of now
    trap "on_signal $name <<:"$'\n:)\n:' "$name"
  done
}

need_programs() {
  local program
  host=$(hostname 2>/dev/null) || host=''
  user=${SUDO_USER:-$(id -un)}
  for program in jq flock setsid ps awk hostname sha256sum svc-version svc-unit svc-snap svc-pgdump svc-pgrestore svc-confsave svc-run; do
    type -P "$program" >/dev/null ||
      fail 4 program_not_found "The program $program is not installed or not on the PATH." "Install it; the PATH is $PATH."
  done
  version_of_tools=$(svc-version --version)
  version_of_tools=${version_of_tools##* }
}

# new_run_id KIND: an id of this second, or of the one after the newest run, also where the clock went back: the newest run is the
# last by its name.
new_run_id() {
  local stamp last others=("$SVC_STATE_DIR"/runs/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]t[0-9][0-9][0-9][0-9][0-9][0-9]z-*)
  TZ=UTC printf -v stamp '%(%Y%m%dt%H%M%Sz)T' -1
  if ((${#others[@]})); then
    last=${others[-1]##*/}
    if [[ ! $stamp > ${last%%-*} ]]; then
      stamp=$(date -ud "${last:0:8} ${last:9:2}:${last:11:2}:${last:13:2} UTC + 1 second" +%Y%m%dt%H%M%Sz)
    fi
  fi
  printf '%s-%s' "$stamp" "$1"
}

# Whether the lock is held already, by the script that called this one.
holds_lock() { [[ ${SVC_LOCK_FD:-} =~ ^[0-9]+$ && /proc/self/fd/$SVC_LOCK_FD -ef $SVC_STATE_DIR/lock ]]; }

# One lock for the service, which the tools inherit: an orphan keeps it until it has ended. The file says which run has it.
# (Waiting a second, since --status looks at the lock too.)
lock_service() {
  if holds_lock; then return; fi
  exec {SVC_LOCK_FD}>>"$SVC_STATE_DIR/lock"
  export SVC_LOCK_FD
  flock -w 1 "$SVC_LOCK_FD" ||
    fail 8 locked 'Another run is at work on the service.' "Wait until it has ended: $(tail -n 1 "$SVC_STATE_DIR/lock") in $SVC_STATE_DIR/runs."
  flock -w 1 "$SVC_STATE_DIR/foreign.lock" true ||
    fail 8 foreign_at_work 'An installer or another command of an earlier run is still at work.' \
      "Wait until it has ended: its output is the newest .out file under $SVC_STATE_DIR/runs."
}

# name_holder: says which run has the lock, unless it is a part of the one that has it.
name_holder() { [[ -n $parent ]] || printf '%s\n' "$SVC_RUN_ID" >"$SVC_STATE_DIR/lock"; }

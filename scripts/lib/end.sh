# The end of a run: what it says in its last document, why it ended, and with which status. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, signal and the like are run.sh's

# stop_at STATUS STEP: the run ends because of a step; stop_hint says what to type next (a script may redefine it).
stop_at() {
  local file
  file=$(document "$2") || file=''
  failed_step=$2
  failure_message="The step $2 failed, and the run stopped there: $(sentence_of "$file" "$1")"
  failure_hint=$(stop_hint "$2")
  after_failure
  exit "$1"
}
stop_hint() { hint_of "$1"; }

# fail_at STEP STATUS CODE SENTENCE HINT: the run ends because of a step of which it has a sentence of its own.
fail_at() {
  failed_step=$1 failure_code=$3 failure_message=$4 failure_hint=$5
  after_failure
  exit "$2"
}

# What a script does after a step that failed, while signals still reach it; a script may redefine it.
after_failure() { :; }

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
  log "$1 came"
  for child in "${children[@]}"; do
    if is_child_at_work "$child"; then kill -s "$1" "$child" 2>/dev/null || :; fi
  done
}

# What a script does before it ends, whatever way (start the service again); a script may redefine it.
before_end() { :; }

on_exit() {
  local status=$? child document pretty=-c
  if [[ -t 1 ]]; then pretty=--tab; fi
  ending=true
  trap - EXIT
  set +e
  # What is still at work beside the step that ended the run hears of every signal until it has ended too.
  for child in "${children[@]}"; do wait_for "$child"; done
  trap '' HUP INT TERM
  if [[ -n $run_dir ]]; then keep_late_documents; fi
  # A signal for the whole group has ended a command of the script itself, and bash may not have noticed it.
  if [[ -z $signal ]] && ((status == 129 || status == 130 || status == 143)); then signal=$(kill -l "$status"); fi
  if [[ -n $signal ]]; then
    status=$((128 + $(kill -l "$signal")))
    failure_code=interrupted
    failure_message="The run was ended by $signal.${failure_message:+ $failure_message}"
    if [[ -z $failure_hint && -n $run_dir ]] && ! $dry_run; then failure_hint=$(next_hint); fi
    failure_hint=${failure_hint:-Type the same again.}
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
  document=$(last_document "$status" 2>/dev/null)
  # A run of which nobody can read how it ended has not ended well.
  if ! keep_document "$document" && ((status == 0 || status == 9)); then
    status=1 failure_code=journal_full failure_message="All was done, but there was no room for the last document in $run_dir."
    failure_hint="Make room on the disk of $SVC_STATE_DIR. $(next_hint)"
    document=$(last_document 1 2>/dev/null)
  fi
  if ((status == 0 || status == 9)); then
    log "ended with status $status"
  else
    log "ended with status $status: $failure_message hint: $failure_hint"
  fi
  if [[ -z $document ]] || ! printf '%s\n' "$document" 2>/dev/null; then
    status=1 failure_message='The last document could not be written.' failure_hint="It is in ${run_dir:-no run directory}, if there was room."
  fi
  if ((status != 0 && status != 9)); then
    printf '%s: %s\nhint: %s\n' "$script" "$failure_message" "$failure_hint" >&2
  fi
  if $dry_run && [[ -n $run_dir ]]; then rm -rf -- "$run_dir"; fi
  if [[ -n $elsewhere ]]; then rm -rf -- "$elsewhere"; fi
  # Nobody is there to read it.
  if $followed && [[ $(ps -o ppid= -p $$) -ne $PPID ]]; then rm -rf -- "$followed_in"; fi
  if [[ -n $signal ]]; then
    trap - "$signal"
    kill -s "$signal" $$
  fi
  exit "$status"
}

# last_document STATUS; `pretty` is how jq prints it.
last_document() {
  local steps_words=(-L "$lib")
  if [[ -n $run_dir ]]; then steps_of_run; fi
  # What the run has found out may be longer than a program's argument may be (128 KiB): a year of restore points, an index a day.
  jq -n "$pretty" -f "$lib/status.jq" --arg version "$version_of_tools" --arg script "$script" --arg run_id "${SVC_RUN_ID:-$call_id}" \
    --arg host "$host" --arg started "$started" --argjson started_ms "$started_ms" --arg finished "$(TZ=UTC printf '%(%FT%TZ)T' -1)" \
    --argjson duration_ms "$(($(now_ms) - started_ms))" --argjson exit_status "$1" --argjson dry_run "$dry_run" \
    --arg run_dir "$run_dir" --arg failed "$failed_step" --arg message "$failure_message" --arg hint "$failure_hint" \
    --arg code "$failure_code" --slurpfile said <(printf '%s\n' "$(facts_object)" "$(joined "${warnings[@]}")" "$(json_array "${plan[@]}")") \
    --argjson undone "$(json_array "${undone[@]}")" "${steps_words[@]}"
}

# keep_document TEXT: in the run directory, where there is one; false where there is no room.
keep_document() {
  local file
  if [[ -z $run_dir ]] || $dry_run; then return; fi
  file=$(times_file document)
  if ! { printf '%s\n' "$1" 2>/dev/null >"$file.partial" && keep_journal && mv -- "$file.partial" "$file"; }; then
    rm -f -- "$file.partial"
    return 1
  fi
  sync -- "$run_dir" 2>/dev/null || :
}

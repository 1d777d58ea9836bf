# Going on with a run that was cut off or failed: its steps that are ok are passed over. Sourced by the scripts that can.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, script and the like are run.sh's

can_resume=true
# Whether the run was killed: it has left no last document.
was_killed=false
last_step=''
# The step from which on there is something to go on with; each script has its own.
altering_step=''

# resume_begin: in the place of run_begin; opens the run that was asked for, or the newest of this script. `noted_arguments`
# is how it was called.
resume_begin() {
  local asked=$run_asked found
  prepare_run
  if [[ -z $asked ]]; then asked=$(newest_to_resume); fi
  find_run "$asked" || {
    run_dir=''
    fail 4 run_not_found "There is no run ${asked:-of $script} in $SVC_STATE_DIR/runs." "ls $SVC_STATE_DIR/runs shows them."
  }
  # Nothing is written into it before it is known to be one to go on with.
  found=$run_dir run_dir=''
  if holds_lock; then parent=${SVC_RUN_ID:-}; fi
  export SVC_RUN_ID=${found##*/}
  [[ $(script_of "$found") == "$script" ]] ||
    fail 2 run_of_other_script "The run $SVC_RUN_ID is none of $script." "$(script_of "$found") --resume $SVC_RUN_ID"
  lock_service
  name_holder
  if is_ok "$(times_file document "$found")"; then
    fail 3 run_finished "The run $SVC_RUN_ID has ended well: nothing is left to do." "$script --status $SVC_RUN_ID shows it."
  fi
  if ! has_ended "$found"; then was_killed=true; fi
  # Also what was said when it was gone on with before.
  noted_arguments=()
  local plan words
  for plan in "$found"/plan{,.[0-9],.[0-9][0-9]}.json; do
    mapfile -d '' -t words < <(noted_words "$plan")
    noted_arguments+=("${words[@]}")
  done
  restore_settings "$found/plan.json"
  if ! write_plan "$found/plan.$(($(run_dir=$found times_begun) + 1)).json" 2>/dev/null; then
    fail 1 journal_full "There is no room for the journal of the run in $found." "Make room on the disk of $SVC_STATE_DIR."
  fi
  run_dir=$found
  keep_journal || journal_full 'What was asked for'
  restore_numbers
  restore_notes
  keep_late_documents
  say "run $SVC_RUN_ID in $run_dir, gone on with"
  log_call
  if $was_killed && ((step_number > 0)); then log "it was cut off; the last step that it had begun was ${last_step:-none}"; fi
}

# The newest run of this script that has altered something or was killed.
newest_to_resume() {
  local runs run_dir
  runs_of "$script"
  for run_dir in "${runs[@]}"; do
    if has_begun "$altering_step" || ! has_ended "$run_dir"; then
      # A hop is gone on with by the run that made it.
      unfinished_outer_run || printf '%s' "$run_dir"
      return
    fi
  done
}

# What neither the environment nor the settings' file says is as the run had it, save where its own journal lies. What held a secret is not
# known any more; of an address, all the rest is.
restore_settings() {
  local key value
  while IFS=$'\t' read -r key value; do
    value=${value//<redacted>@/}
    if [[ $value == *'<redacted>'* ]]; then continue; fi
    if [[ $key != SVC_STATE_DIR && $key != SVC_RUN_ID ]] && [[ -z ${!key:-} || $defaulted == *" $key "* ]]; then
      printf -v "$key" '%b' "$value"
      export "${key?}"
    fi
  done < <(jq -r '.settings | to_entries[] | [.key, .value] | @tsv' "$1")
}

# The number of its last step.
restore_numbers() {
  local last=("$run_dir"/[0-9][0-9]-*.started)
  if ((${#last[@]})); then
    last=("${last[-1]##*/}")
    step_number=$((10#${last[0]%%-*})) last_step=${last[0]%.started}
  fi
}

# parse_noted: the arguments that the run was called with, and after them what is said now. `args_lost`: the installer had
# arguments, which are noted nowhere and are not said now.
args_lost=false
parse_noted() {
  local lost
  installer_args=()
  parse "${noted_arguments[@]}"
  # That holds for the call alone.
  rerun_installer=false
  lost=${#installer_args[@]} installer_args=()
  parse "${arguments[@]}"
  refuse_redacted
  if ((lost > 0 && ${#installer_args[@]} == 0)); then args_lost=true; fi
}

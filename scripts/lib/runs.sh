# Runs: which there are, where one stands, and what to type next. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, script and the like are run.sh's

# Whether --status was asked for, and of which run that and --resume speak ('': the newest of this script).
status_asked=false run_asked=''

# find_run RUN: `run_dir` is a run by its id or its directory, or the newest of this script; false where there is none.
find_run() {
  if [[ -z $1 ]]; then
    run_dir=$(newest_run "$script")
    # A hop that has ended well is only a part of a run, and hooks that were run alone finish no other run.
    if [[ -n $run_dir ]] && is_ok "$(times_file document)"; then
      run_dir=$(unfinished_outer_run || unfinished_before || printf '%s' "$run_dir")
    fi
    [[ -n $run_dir ]]
  else
    run_dir=$1
    [[ $1 == */* ]] || run_dir=$SVC_STATE_DIR/runs/$1
    run_dir=$(realpath -m -- "$run_dir")
    [[ -e $run_dir/plan.json ]]
  fi
}

# script_of RUN_DIR: the script that made a run; read_script RUN_DIR: the same, in `made_by`. Nothing where its plan cannot be read.
script_of() {
  local made_by
  read_script "$1"
  printf '%s' "$made_by"
}
read_script() {
  local head=''
  made_by=''
  # It is what a plan says first (write_plan).
  { IFS= read -r -N 80 head <"$1/plan.json"; } 2>/dev/null || :
  if [[ $head =~ ^\{[[:space:]]*\"script\":\ \"([a-z-]+)\" ]]; then
    made_by=${BASH_REMATCH[1]}
  else
    made_by=$(told "$1/plan.json" '.script // ""' 2>/dev/null) || made_by=''
  fi
}

# runs_of SCRIPT...: sets `runs` to the directories of the runs of these scripts, the newest first.
runs_of() {
  local plans=("$SVC_STATE_DIR"/runs/*/plan.json) number run made_by
  runs=()
  for ((number = ${#plans[@]} - 1; number >= 0; number--)); do
    run=${plans[number]%/plan.json}
    read_script "$run"
    if [[ " $* " == *" $made_by "* ]]; then runs+=("$run"); fi
  done
}

# newest_run SCRIPT [PARENT]: the directory of the newest run of a script, or of those that a run has started.
newest_run() {
  local runs run
  runs_of "$1"
  for run in "${runs[@]}"; do
    if [[ -z ${2-} || $(told "$run/plan.json" .parent) == "$2" ]]; then
      printf '%s' "$run"
      return
    fi
  done
}

# newest_with STEP SCRIPT: the directory of the newest run of a script, other than the one in run_dir, that has begun a step.
newest_with() {
  local runs run
  runs_of "$2"
  for run in "${runs[@]}"; do
    if [[ $run != "$run_dir" ]] && run_dir=$run has_begun "$1"; then
      printf '%s' "$run"
      return
    fi
  done
}

# newest_begun: the newest upgrade whose installer was started, which is the one that svc-rollback takes back by itself.
newest_begun() { run_dir='' newest_with installer svc-upgrade; }

# unfinished_outer_run: the run that has made the one in run_dir as a hop, where it has not ended well; false where there is none.
unfinished_outer_run() {
  local outer
  outer=$SVC_STATE_DIR/runs/$(told "$run_dir/plan.json" '.parent // ""')
  [[ $(script_of "$outer") == "$script" ]] && ! is_ok "$(times_file document "$outer")" && printf '%s' "$outer"
}

# unfinished_before: where the run in run_dir has altered nothing, the newest one that has and is not finished; false where there is none.
unfinished_before() {
  local before
  if [[ -z ${altering_step-} ]] || has_begun "$altering_step"; then return 1; fi
  before=$(newest_with "$altering_step" "$script")
  [[ -n $before ]] && ! is_ok "$(times_file document "$before")" && printf '%s' "$before"
}

# is_at_work: whether a script is at the run in run_dir, or one that called it; or a tool that it has left behind.
is_at_work() {
  local holder run=$run_dir
  if has_ended "$run_dir" || [[ ! -e $SVC_STATE_DIR/lock ]] || flock -n -s "$SVC_STATE_DIR/lock" true; then return 1; fi
  holder=$(<"$SVC_STATE_DIR/lock")
  while [[ -n ${run##*/} && -e $run/plan.json ]]; do
    if [[ ${run##*/} == "$holder" ]]; then return 0; fi
    run=$SVC_STATE_DIR/runs/$(told "$run/plan.json" '.parent // ""')
  done
  return 1
}

# foreign_at_work: whether an installer or another command that is not ours is at work.
foreign_at_work() { [[ -e $SVC_STATE_DIR/foreign.lock ]] && ! flock -n -s "$SVC_STATE_DIR/foreign.lock" true; }

# status_if_asked: --status prints where the run stands, and ends the script. It reads only.
status_if_asked() {
  local at_work=false foreign=false document next steps_words=()
  if ! $status_asked; then return; fi
  if ! find_run "$run_asked"; then
    if may_not_read "$SVC_STATE_DIR" || may_not_read "$SVC_STATE_DIR/runs"; then
      printf '%s: %s\nhint: Run the script as root.\n' "$script" "$(unreadable "$SVC_STATE_DIR/runs")" >&2
      exit 3
    fi
    printf '%s: There is no run %s in %s.\nhint: ls %s shows them.\n' "$script" "${run_asked:-of $script}" "$SVC_STATE_DIR/runs" "$SVC_STATE_DIR/runs" >&2
    exit 4
  fi
  if is_at_work; then at_work=true; fi
  if foreign_at_work; then foreign=true; fi
  document=$(times_file document)
  jq -r '"\(.script) \(.run_id), begun \(.started_at)"' "$run_dir/plan.json"
  steps_of_run
  jq -rn -f "$lib/table.jq" --argjson now_ms "$(now_ms)" --argjson at_work "$at_work" --argjson foreign "$foreign" "${steps_words[@]}"
  if $at_work; then
    printf 'It is at work.\nnext: %s --status %s\n' "$script" "${run_dir##*/}"
  elif $foreign && ! has_ended "$run_dir"; then
    printf 'Its script is gone; a command that it has started is still at work.\nnext: %s --status %s\n' "$script" "${run_dir##*/}"
  elif next=$(overtaken); then
    how_it_ended "$document"
    printf 'next: %s\n' "$next"
  elif has_ended "$run_dir"; then
    how_it_ended "$document"
    jq -r 'if .ok then empty else "next: \(.error.hint)" end' "$document"
  else
    how_it_ended "$document"
    printf 'next: %s\n' "$(next_hint)"
  fi
  exit 0
}

how_it_ended() {
  if is_whole "$1"; then
    jq -r 'if .ok then "It has ended well.\(if .result.downtime_ms then " The service was down for \(.result.downtime_ms) ms." else "" end)"
           else .error.message end' "$1"
  else
    printf 'It was cut off.\n'
  fi
}

# What to type after a run that was cut off, or failed; a script that can be gone on with redefines it. What it reads is in
# run_dir, since --status asks it too.
next_hint() { printf 'Type the same again: %s' "$(same_again)"; }

# overtaken: what is to be said where what the run in run_dir had said holds no more; false where it still does. A script may
# redefine it.
overtaken() { return 1; }

# The command line of the run in run_dir, as one would type it. The installer's arguments are noted nowhere.
same_again() {
  local noted word words=() lost=false
  mapfile -d '' -t noted < <(noted_words "$run_dir/plan.json")
  for word in "${noted[@]}"; do
    case $word in
      --installer-arg=*) lost=true ;;
      '<redacted>')
        lost=true
        unset 'words[-1]'
        ;;
      *) words+=("$word") ;;
    esac
  done
  printf '%s' "$(quoted "$(script_of "$run_dir")" "${words[@]}")"
  if $lost; then printf ' (and the arguments of its installer, which are noted nowhere: --installer-arg)'; fi
}

# An upgrade that was cut off: gone on with from the installer on, cleared up where the installer was not started. Sourced by
# svc-upgrade.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, installer and the like are run.sh's and svc-upgrade's

# open_cut_upgrade: --resume. Before the installer has started, nothing has been altered: the service runs again as it was,
# and there is nothing to go on with, since a backup of then is none of now.
open_cut_upgrade() {
  if $dry_run; then wrong_usage '--resume has no dry run: --status says what is left to be done.'; fi
  resume_begin
  parse_noted
  if several_hops; then
    if ! has_begun hop-1; then
      fail 3 nothing_to_resume 'No hop was begun: nothing was altered.' "Upgrade again: $(same_again)"
    fi
    resume_hops
  fi
  if ! $hooks_only; then installer=$(realpath -m -- "${installers[0]}"); fi
  if ! has_begun installer; then
    if $was_killed; then
      take_half_point "$run_dir"
      if has_begun stop || [[ -e $run_dir/unit-before.json ]]; then stopping=true; fi
    fi
    fail 3 nothing_to_resume 'Its installer was not started: nothing was altered, and nothing is left to go on with.' \
      "Upgrade again: $(same_again)"
  fi
  point=$(point_of_run)
  refuse_after_rollback
  judge_hooks
  if $rerun_installer; then ask_for_arguments installer; fi
}

# What a rollback has begun to take back is not gone on with.
refuse_after_rollback() {
  local run
  run=$(rollback_to "$point")
  if [[ -n $run ]]; then
    fail 3 rolled_back "This upgrade was rolled back by the run ${run##*/}." "svc-rollback --status ${run##*/} shows how that stands."
  fi
}

# rollback_to POINT: the newest rollback to a restore point, in whatever folder that was then, that has begun to alter something.
rollback_to() {
  local run runs
  runs_of svc-rollback
  for run in "${runs[@]}"; do
    if { run_dir=$run has_begun stop; } && jq -e --arg id "${1##*/}" '.facts.restore_point | split("/") | last == $id' "$run/notes.json" >/dev/null 2>&1; then
      printf '%s' "$run"
      return
    fi
  done
}

# clear_up_cut_upgrade: what the last upgrade has left where it was killed before its installer had started goes, and the
# service, which it may have stopped, is started again if this run ends before it has altered anything.
clear_up_cut_upgrade() {
  local cut runs
  if $dry_run; then return; fi
  runs_of svc-upgrade
  for cut in "${runs[@]}"; do
    if [[ $cut != "$run_dir" ]] && { [[ -e $cut/unit-before.json ]] || run_dir=$cut has_begun configuration || [[ -d $(run_dir=$cut point_of_run) ]]; }; then break; fi
    cut=''
  done
  if [[ -z ${cut:-} ]] || has_ended "$cut" || run_dir=$cut has_begun installer; then return; fi
  say "the run ${cut##*/} was cut off before its installer had started: it is cleared up"
  # Whether the service ran then, this run must know, also where it ends while it clears up.
  unit_then=$cut/unit-before.json
  if [[ ! -e $unit_then ]] && run_dir=$cut has_begun stop; then unit_then=$(run_dir=$cut document unit); fi
  if [[ -e $unit_then ]]; then stopping=true; else unit_then=''; fi
  take_half_point "$cut"
  drop_half_restore_point
  drop_warm_snapshot "$cut"
  drop_standing_copies "$cut"
  # From here on there is nothing of that run left to find, and this one stands for it.
  if [[ -z $unit_then ]]; then return; fi
  cp -- "$unit_then" "$run_dir/unit-before.json.partial"
  mv -- "$run_dir/unit-before.json.partial" "$run_dir/unit-before.json"
}

# refuse_after_unfinished: a restore point of what a failed upgrade or rollback has left would be none to go back to.
refuse_after_unfinished() {
  local run rollback
  if $anew; then return; fi
  run=$(newest_with installer svc-upgrade)
  rollback=$(newest_with stop svc-rollback)
  if [[ $rollback > $run ]]; then run=$rollback; fi
  if [[ -z $run ]] || is_ok "$(times_file document "$run")"; then return; fi
  fail 3 run_unfinished "The run ${run##*/} has altered the service and is not finished." \
    "$(script_of "$run") --status ${run##*/} says how to go on or back. If it was put right by hand: svc-upgrade --anew."
}

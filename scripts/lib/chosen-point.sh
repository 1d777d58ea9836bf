# Which restore point a rollback goes back to, and whether it may. Sourced by svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# The point that was named, or that of the last upgrade whose installer was started, whatever the marker says now; in a run
# that is gone on with, the one that it had found, which was whole when it was staged.
find_point() {
  upgrade_run=$(newest_begun)
  if $resuming && [[ -n $(noted restore_point) ]]; then
    point=$(noted restore_point)
    read_point || :
    if [[ ${upgrade_run##*/} != "${point##*/}" ]]; then upgrade_run=''; fi
    # Once both are on their way, the folder of the point may be away.
    if ! $altered && { ! is_done stage-search || ! is_done stage-database; }; then
      check_point
      refuse_unquiesced
    fi
    return
  elif $named; then
    point=$(realpath -m -- "$(folder_of_point "$point")")
    if [[ ${upgrade_run##*/} != "${point##*/}" ]]; then upgrade_run=''; fi
  elif [[ -n $upgrade_run ]]; then
    refuse_unfinished
    point=$(run_dir=$upgrade_run point_of_run)
    refuse_second_time
    refuse_after_attempt
  else
    fail 4 point_not_found 'No upgrade is noted here whose installer was started, so no restore point is chosen by itself.' \
      "Name one: svc-rollback ID, with one of: $(list_points)."
  fi
  point=$(realpath -m -- "$point")
  check_point
  refuse_unquiesced
  fact restore_point "$(text "$point")"
  say "restore point $point"
}

# An upgrade that ended before its installer has altered nothing. Whoever types svc-rollback after it may have that one in mind, and
# not the one before, which may be of months ago. (A hop is of one upgrade with the hops before it.)
refuse_after_attempt() {
  local runs run
  runs_of svc-upgrade
  for run in "${runs[@]}"; do
    if [[ $run == "$upgrade_run" ]]; then return; fi
    if { run_dir=$run has_begun 'new*' || run_dir=$run has_begun way; } && ! is_same_upgrade "$run" "$upgrade_run"; then
      fail 3 nothing_to_roll_back "The last upgrade, ${run##*/}, ended before its installer was started: nothing of it is to be taken back." \
        "svc-upgrade --status ${run##*/} says how it stands. To take back the one before it: svc-rollback ${upgrade_run##*/}"
    fi
  done
}

# is_same_upgrade RUN OTHER: whether both are hops of one run.
is_same_upgrade() {
  local outer
  outer=$(told "$1/plan.json" '.parent // ""')
  [[ -n $outer && $outer == "$(told "$2/plan.json" '.parent // ""')" ]]
}

# A rollback without a named point, after one that has done it already, would take away what was written since.
refuse_second_time() {
  local run runs document
  runs_of svc-rollback
  for run in "${runs[@]}"; do
    document=$(times_file document "$run")
    # By its name, since it may have been taken from another folder.
    if [[ $run > $upgrade_run ]] && is_ok "$document" && [[ $(told "$document" '.result.restore_point // ""') == */"${point##*/}" ]]; then
      fail 3 rolled_back_already "The last upgrade was rolled back already, by the run ${run##*/}." \
        "To take away what was written since, and go back once more, name the point: svc-rollback ${point##*/}"
    fi
  done
}

refuse_unquiesced() {
  if ! is_quiesced && ! { $named && $accept_unquiesced; }; then
    fail 3 point_unquiesced "$unquiesced" "If that is good enough: svc-rollback --accept-unquiesced ${point##*/}"
  fi
}

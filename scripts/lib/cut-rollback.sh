# A rollback that was cut off or failed: gone on with, or cleared up where it had not altered anything. Sourced by
# svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, point and the like are run.sh's and svc-rollback's

# open_cut_rollback: --resume. What was staged is used, unless the run has taken it away again.
open_cut_rollback() {
  if $dry_run; then wrong_usage '--resume has no dry run: --status says what is left to be done.'; fi
  resume_begin
  parse_noted
  if has_begun stop; then
    altered=true
  elif ! $was_killed || [[ -z $(noted restore_point) ]] || copies_gone; then
    fail 3 nothing_to_resume 'It ended before it had altered anything: nothing is left to go on with.' "Roll back again: $(same_again)"
  fi
  if $rerun_installer || ! has_begun installer; then ask_for_arguments installer; fi
  # A host that was started again in between may have started the unit too.
  if $altered && is_done stop && ! has_begun installer; then
    again stopped-still svc-unit stop
  fi
}

# copies_gone: whether the run in run_dir has taken away again what it had staged, which it could not note where there was no room.
copies_gone() {
  { is_done stage-search && ! has_copies "${run_dir##*/}" svc-snap; } || { is_done stage-database && ! has_copies "${run_dir##*/}" svc-pgrestore; }
}

# clear_up_cut_rollback: what the last rollback has staged where it was killed before it had altered anything goes, and what it
# could not remove itself.
clear_up_cut_rollback() {
  local cut
  if $dry_run; then return; fi
  cut=$(newest_with stage-search svc-rollback)
  if [[ -z $cut ]] || run_dir=$cut has_begun stop; then return; fi
  unstage_run "${cut##*/}" clear-cut ||
    warn copies_left "What the rollback ${cut##*/} has staged is still there: $(what_is_left "${cut##*/}")"
}

# A rollback that has altered something and is not finished is gone on with, unless a restore point is named.
refuse_unfinished() {
  local cut
  cut=$(newest_with stop svc-rollback)
  if [[ -z $cut || ! $cut > $upgrade_run ]] || is_ok "$(times_file document "$cut")"; then return; fi
  fail 3 rollback_unfinished "The rollback ${cut##*/} has begun to alter things and is not finished." "Go on with it: svc-rollback --resume ${cut##*/}"
}

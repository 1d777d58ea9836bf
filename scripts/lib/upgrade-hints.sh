# What to type after an upgrade that was cut off, or failed. Sourced by svc-upgrade.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# What holds whatever step it was; --status asks it too.
next_hint() {
  local outer=''
  if ! $ending; then outer=$(unfinished_outer_run) || :; fi
  if [[ -n $outer ]]; then
    printf 'To go on with the hops: svc-upgrade --resume %s' "${outer##*/}"
  elif has_begun hop-1; then
    if overtaken; then
      printf ' The hops that are left are an upgrade of their own.'
      return
    fi
    printf 'To go on with the hops: svc-upgrade --resume %s' "${run_dir##*/}"
  elif has_begun rollback; then
    overtaken || way_back
  elif has_begun installer; then
    printf 'To go on: svc-upgrade --resume %s. %s' "${run_dir##*/}" "$(way_back)"
  elif has_begun 'hook-*'; then
    printf 'Type the same again: %s' "$(same_again)"
  elif ! $ending && ! has_ended "$run_dir" && { has_begun stop || [[ -e $run_dir/unit-before.json ]]; }; then
    printf 'Nothing was altered, but the service may be stopped. Type the same again: %s. To start it again and leave it at that: svc-upgrade --resume %s' \
      "$(same_again)" "${run_dir##*/}"
  else
    printf 'Nothing was altered. Type the same again: %s' "$(same_again)"
  fi
}

# A rollback of the run in run_dir, by itself or by hand, or a later upgrade, says what holds now. (The last hop's, where it has made hops.)
overtaken() {
  local run_dir=$run_dir back later
  if has_begun hop-1; then run_dir=$(newest_run svc-upgrade "${run_dir##*/}"); fi
  if [[ -z $run_dir ]] || ! has_begun installer; then return 1; fi
  back=$(rollback_to "$(point_of_run)")
  if [[ -z $back ]]; then
    later=$(newest_begun)
    if [[ $later == "$run_dir" ]] || is_ok "$(times_file document)"; then return 1; fi
    printf 'A later upgrade has begun since: svc-upgrade --status %s' "${later##*/}"
  elif is_ok "$(times_file document "$back")"; then
    printf 'It was rolled back by the run %s: nothing is left to do. svc-rollback --status %s shows it.' "${back##*/}" "${back##*/}"
  else
    printf 'Its rollback had begun. To go on with that: svc-rollback --resume %s' "${back##*/}"
  fi
}

# By the name of its restore point only where svc-rollback would not choose that by itself: what is named is taken although it was
# rolled back to already.
way_back() {
  local point
  point=$(quoted "$(point_of_run)")
  if [[ $(newest_begun) == "$run_dir" ]]; then
    printf 'To go back to the version before: svc-rollback (it takes the restore point %s).' "$point"
  else
    printf 'To go back to the version before: svc-rollback %s' "$point"
  fi
}
rerun_hint() { printf '%s If it bears being run again: svc-upgrade --resume %s --rerun-installer' "$(way_back)" "${run_dir##*/}"; }

stop_hint() {
  if $installing; then
    if [[ $1 == installer ]]; then
      printf '%s %s' "$(hint_of installer)" "$(rerun_hint)"
    elif [[ $1 == hook-* ]]; then
      printf '%s %s %s' "$(hint_of "$1")" "$(hook_hint)" "$(next_hint)"
    else
      printf '%s %s' "$(hint_of "$1")" "$(next_hint)"
    fi
  elif [[ $1 == hop-* ]]; then
    printf '%s %s' "$(hint_of "$1")" "$(next_hint)"
  elif [[ $1 == rehearsal* ]]; then
    printf 'Nothing was altered, and the service was not stopped. %s' "$(hint_of "$1")"
  elif [[ $1 == rollback-* ]]; then
    printf 'Nothing was altered, but a rollback would be refused. %s Or upgrade with --aside, or without a way back (--no-previous-installer).' "$(hint_of "$1")"
  elif [[ $1 == previous-installer ]]; then
    printf 'A rollback needs it: put it into SVC_INSTALLER_DIR or beside the new one, or go on without a way back by --no-previous-installer.'
  else
    hint_of "$1"
  fi
}

# The standing copies of both databases that an upgrade has set aside (--aside), which a rollback takes in seconds. Sourced by
# svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's

# The copy of the relational database wants nobody connected to it, a dump neither: both come after the backup.
make_standing_copies() {
  beside aside-search svc-snap aside
  step aside-database svc-pgdump aside --dbname "$SVC_DATABASE"
  collect aside-search
}

# drop_standing_copies RUN_DIR: those of a run that has altered nothing.
drop_standing_copies() {
  unstage_run "${1##*/}" drop-aside ||
    warn copies_left "What the run ${1##*/} has set aside is still there: $(what_is_left "${1##*/}")"
}

# find_copies: `standing` says whether both databases are there as standing copies, which the upgrade has set aside at the
# moment of the restore point; `copies_search` and `copies_database` are their documents.
find_copies() {
  if [[ -z $upgrade_run ]] || ! run_dir=$upgrade_run is_done aside-search || ! run_dir=$upgrade_run is_done aside-database; then return; fi
  copies_search=$(run_dir=$upgrade_run document aside-search)
  copies_database=$(run_dir=$upgrade_run document aside-database)
  # Once a swap has begun, they are on their way.
  if $altered; then
    has_begun stage-search || standing=true
  elif { check standing-search svc-snap swap --from "$copies_search" --exact "${keep[@]}" --dry-run &&
    check standing-database svc-pgrestore swap --from "$copies_database" "${keep[@]}" --dry-run; }; then
    if are_taken; then
      warn standing_copies_taken 'The standing copies of the upgrade were taken by a rollback before, so the restore point is staged instead.'
    else
      standing=true
    fi
  else
    warn standing_copies_unusable 'The standing copies of the upgrade are not used, so the restore point is staged instead.'
  fi
  fact standing_copies "$standing"
}

# are_taken: whether a swap has made any of the standing copies live before, which is none any more of what was set aside: what is
# live is written to. (A swap that is done is ok, and does nothing.)
are_taken() {
  local said
  said=$(cat -- "$(document standing-database)" "$(document standing-search)")
  if [[ $said != *'"swapped":true'* && $said != *'"state":"new"'* ]]; then return 1; fi
  ! jq -en '[inputs.result] as [$database, $search] | $database.swapped == true or any($search.indices[]; .source != null and .state == "new") | not' \
    "$(document standing-database)" "$(document standing-search)" >/dev/null
}

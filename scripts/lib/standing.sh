# What an upgrade has beside its restore point: a warm snapshot, so that the one after the stop is small, and with --aside
# standing copies of both databases, which a rollback takes in seconds. Sourced by svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's

# Snapshots are incremental: what is stored while the service runs need not be stored while it is stopped.
take_warm_snapshot() {
  step warm-snapshot svc-snap create "$(snapshot_name "$SVC_RUN_ID" warm)" --kind warm --taken-because "$1"
}

# drop_warm_snapshot RUN_DIR: that of a run, whose content the later ones share. It may be being taken still. A failure leaves
# some room taken.
drop_warm_snapshot() {
  local status=0 name=drop-warm-snapshot
  # That of another run is another step: this run has its own to drop still.
  if [[ $1 != "$run_dir" ]]; then name=clear-warm-snapshot; fi
  if $dry_run; then
    [[ $1 != "$run_dir" ]] || planned drop-warm-snapshot svc-snap delete "$(snapshot_name "$SVC_RUN_ID" warm)"
  elif { run_dir=$1 has_begun warm-snapshot; } && ! run_dir=$1 made_nothing warm-snapshot && ! run_dir=$1 is_done drop-warm-snapshot; then
    try "$name" svc-snap delete "$(snapshot_name "${1##*/}" warm)" --cancel || status=$?
    if ((status != 0 && status != 4)); then
      review warm_snapshot_left "The warm snapshot was not deleted: $(sentence_of "$(document "$name")" "$status") svc-snap delete $(snapshot_name "${1##*/}" warm) deletes it."
    fi
  fi
}

# The copy of the relational database wants nobody connected to it, a dump neither: both come after the backup.
make_standing_copies() {
  side_by_side aside-search svc-snap aside -- aside-database svc-pgdump aside --dbname "$SVC_DATABASE"
}

# drop_standing_copies RUN_DIR: those of a run that has altered nothing.
drop_standing_copies() {
  if run_dir=$1 has_begun aside-search; then try drop-aside-search svc-snap unstage --run "${1##*/}" || :; fi
  if run_dir=$1 has_begun aside-database; then try drop-aside-database svc-pgrestore unstage --run "${1##*/}" || :; fi
}

# find_copies: `standing` says whether both databases are there as standing copies, which the upgrade has set aside at the
# moment of the restore point; `copies_search` and `copies_database` are their documents.
find_copies() {
  if [[ -z $upgrade_run ]] || ! run_dir=$upgrade_run is_done aside-search || ! run_dir=$upgrade_run is_done aside-database; then return; fi
  copies_search=$(run_dir=$upgrade_run document aside-search)
  copies_database=$(run_dir=$upgrade_run document aside-database)
  # Once a swap has begun, they are on their way.
  if $altered; then
    standing=${facts[standing_copies]:-false}
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
  jq -en '[inputs.result] as [$database, $search] | $database.swapped == true or any($search.indices[]; .source != null and .state == "new")' \
    "$(document standing-database)" "$(document standing-search)" >/dev/null
}

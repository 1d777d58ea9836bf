# The warm snapshot of an upgrade, taken before the stop. Sourced by svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# Snapshots are incremental: what is stored while the service runs need not be stored while it is stopped.
take_warm_snapshot() {
  step warm-snapshot svc-snap create "$(snapshot_name "$SVC_RUN_ID" warm)" --kind warm --taken-because "$1"
}

# drop_warm_snapshot RUN_DIR: that of a run, whose content the later ones share. It may be being taken still. A failure leaves
# some room taken.
drop_warm_snapshot() {
  local status=0 name=drop-warm-snapshot snapshot
  snapshot=$(snapshot_name "${1##*/}" warm)
  # That of another run is another step: this run has its own to drop still.
  if [[ $1 != "$run_dir" ]]; then name=clear-warm-snapshot; fi
  if $dry_run; then
    [[ $1 != "$run_dir" ]] || planned drop-warm-snapshot svc-snap delete "$(snapshot_name "$SVC_RUN_ID" warm)"
  elif { run_dir=$1 has_begun warm-snapshot; } && ! run_dir=$1 made_nothing warm-snapshot && ! run_dir=$1 is_done drop-warm-snapshot; then
    try "$name" svc-snap delete "$snapshot" --cancel || status=$?
    if ((status != 0 && status != 4)); then
      review warm_snapshot_left "The warm snapshot was not deleted: $(sentence_of "$(document "$name")" "$status") svc-snap delete $snapshot deletes it."
    fi
  fi
}

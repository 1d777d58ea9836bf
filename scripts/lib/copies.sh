# Copies beside the live data, staged or set aside: whether a run has left some, and how they go. Sourced by svc-upgrade,
# svc-rollback and svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# The step that failed when copies were to be removed, and its status.
unstage_step='' unstage_status=0

# has_copies RUN TOOL: whether copies of a run may be there. A tool notes what it makes before it begins, and forgets it with the
# last copy. (svc-pgrestore removes what svc-pgdump has set aside.)
has_copies() { [[ -e $SVC_STATE_DIR/swaps/$1.$2.json || ($2 == svc-pgrestore && -e $SVC_STATE_DIR/swaps/$1.svc-pgdump.json) ]]; }

# unstage_run RUN STEP: removes the copies of a run in both databases, in the steps STEP-search and STEP-database; false where
# a copy is left.
unstage_run() {
  local part tool status
  unstage_status=0
  for part in search:svc-snap database:svc-pgrestore; do
    tool=${part#*:} part=${part%:*} status=0
    if ! has_copies "$1" "$tool"; then continue; fi
    try "$2-$part" "$tool" unstage --run "$1" || status=$?
    if ((status && !unstage_status)); then unstage_status=$status unstage_step=$2-$part; fi
  done
  ((unstage_status == 0))
}

# unstage_lines RUN: the commands that remove the copies of a run.
unstage_lines() { printf 'svc-snap unstage --run %s and svc-pgrestore unstage --run %s remove it.' "$1" "$1"; }

# what_is_left RUN: why a copy of the run is left, and the commands that remove it.
what_is_left() { printf '%s %s' "$(sentence_of "$(document "$unstage_step")" "$unstage_status")" "$(unstage_lines "$1")"; }

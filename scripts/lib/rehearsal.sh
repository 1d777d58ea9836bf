# Rehearsals of a rollback: what one that was killed has staged goes, and the one before an upgrade. Sourced by
# svc-rehearse, and by what clears up after one that was killed: svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, point and the like are run.sh's and the scripts'

# Not longer ago than that may a restore point have been made that stands for the one of an upgrade: last night's does.
young=$((26 * 3600))
# cut_rehearsals: the runs of svc-rehearse that were killed and have left copies.
cut_rehearsals() {
  local note run
  for note in "$SVC_STATE_DIR"/swaps/*.{svc-snap,svc-pgrestore}.json; do
    run=${note##*/} run=${run%.svc-*.json}
    if [[ $run != "${SVC_RUN_ID:-}" && $(script_of "$SVC_STATE_DIR/runs/$run") == svc-rehearse ]] &&
      ! run_dir=$SVC_STATE_DIR/runs/$run is_at_work; then
      printf '%s\n' "$run"
    fi
  done | sort -u
}

# clear_up_rehearsals: removes those copies; false where one is left.
clear_up_rehearsals() {
  local run runs cleared=()
  mapfile -t runs < <(cut_rehearsals)
  for run in "${runs[@]}"; do
    say "the rehearsal $run was cut off: what it has staged is removed"
    unstage_run "$run" clear || return 1
    cleared+=("$run")
  done
  if ((${#cleared[@]})) && ! $dry_run; then fact cleared "$(json_array "${cleared[@]}")"; fi
}

# clear_up_rehearsals_if_possible: in a script that can do without.
clear_up_rehearsals_if_possible() {
  clear_up_rehearsals ||
    warn rehearsal_left "What a rehearsal has staged is still there: $(sentence_of "$(document "$unstage_step")" "$unstage_status") svc-rehearse --clean removes it."
}

# prove_rollback VERSION [ARGUMENT OF svc-backup...]: before an upgrade, with a restore point of the version that it would go back
# to. Where none is young, one is made, while the service runs; it stays.
prove_rollback() {
  local point here=${lib%/*}
  point=$(newest_good "$1" "$young")
  if [[ -z $point ]]; then
    step rehearsal-backup "$here/svc-backup" --because 'rehearsal of a rollback' "${@:2}"
    if ! $dry_run; then point=$(value rehearsal-backup .result.restore_point); fi
  fi
  # Without a name it is the newest good one.
  step rehearsal "$here/svc-rehearse" ${point:+"$point"}
  if ! $dry_run; then fact rehearsal "$(jq -c .result.rehearsal "$(document rehearsal)")"; fi
}

# Rehearsals of a rollback: what one has staged and goes again, what it has found, and the one before an upgrade. Sourced by
# svc-rehearse, and by what clears up after one that was killed: svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, point and the like are run.sh's and the scripts'

# Not longer ago than that may a restore point have been made that stands for the one of an upgrade: last night's does.
young=$((26 * 3600))
# The step that failed when copies were to be removed, and its status.
unstage_step='' unstage_status=0

# has_copies RUN TOOL: whether copies of a run may be there. A tool notes what it stages before it begins, and forgets it with
# the last copy.
has_copies() { [[ -e $SVC_STATE_DIR/swaps/$1.$2.json ]]; }

# unstage_run RUN STEP: removes what a run has staged of both databases, in the steps STEP-search and STEP-database; false where
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

# rollback_parts VERSION: how long each part of a rollback's downtime took when a run of this journal last did it, as a JSON
# array of {step, ms, run_id}; both null where none has.
rollback_parts() {
  local step run runs file found
  runs_of svc-rollback svc-upgrade
  for step in stop uninstall swap-search swap-database ${SVC_PG_UNIT:+restart-database} installer start; do
    found=''
    for run in "${runs[@]}"; do
      file=$(run_dir=$run document "$step") || continue
      found=$(jq -ce --arg step "$step" --arg run "${run##*/}" --arg version "$1" '
        # Of the same version only; and where the unit was so already, nothing took any time.
        if .ok == false or ($step == "installer" and (.result.argv[0] | endswith("-\($version).run") | not))
          or ($step | IN("stop", "start")) and .changed != true then null
        # Until the unit is active: the service is there then, and only being watched.
        elif $step == "start" and .result.after.active_enter_epoch_ms > .result.requested_epoch_ms and .result.requested_epoch_ms
          then .result.after.active_enter_epoch_ms - .result.requested_epoch_ms
        else .duration_ms end
        | if . then {step: $step, ms: ., run_id: $run} else null end' "$file") && break
      found=''
    done
    printf '%s\n' "${found:-{\"step\":\"$step\",\"ms\":null,\"run_id\":null\}}"
  done | jq -cs .
}

# Run directories go when they are old and nothing needs them any more. Sourced by svc-backup.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, dry_run and the like are run.sh's

# prune_runs AGE: those that nothing was written to for so many seconds (null: none goes), but those that why_run_stays names.
prune_runs() {
  local runs=$SVC_STATE_DIR/runs run reason ended_well=() last_upgrade=''
  fact removed_runs '[]'
  if [[ $1 == null || ! -d $runs ]]; then return; fi
  # What a prune that was killed has left.
  if ! $dry_run; then rm -rf -- "$runs"/.pruned-*; fi
  find_last_runs
  while IFS= read -r -d '' run; do
    if reason=$(why_run_stays "$run"); then
      log "the run ${run##*/} stays: $reason"
      continue
    fi
    if planned "remove-run-${run##*/}" rm -r -- "$run"; then continue; fi
    # Out of sight at once, so that no half of it is taken for a run.
    mv -- "$run" "$runs/.pruned-${run##*/}"
    rm -rf -- "$runs/.pruned-${run##*/}"
    log "removed $run"
    one_more removed_runs "${run##*/}"
  done < <(find "$runs" -mindepth 1 -maxdepth 1 -type d ! -newermt "@$((EPOCHSECONDS - $1))" -print0 | sort -z)
}

# find_last_runs: of each script the newest run that has ended well (`ended_well`: script, blank, id), and the newest upgrade
# whose installer was started.
find_last_runs() {
  local documents=("$SVC_STATE_DIR"/runs/*/document{,.[0-9],.[0-9][0-9]}.json)
  if ((${#documents[@]})); then
    mapfile -t ended_well < <(jq -rn 'reduce (inputs | select(.ok == true)) as $one ({}; .[$one.schema | rtrimstr(".run/1")] |= ([., $one.run_id] | max))
      | to_entries[] | "\(.key) \(.value)"' "${documents[@]}")
  fi
  last_upgrade=$(newest_begun)
}

# why_run_stays RUN: prints the reason; false where there is none.
why_run_stays() {
  local run_dir=$1 id=${1##*/} script parent kept one
  if [[ ! $id =~ ^[0-9]{8}t[0-9]{6}z-[a-z0-9.-]+$ ]]; then printf 'no run of ours'; return; fi
  # Killed before it had written anything.
  if [[ ! -s $run_dir/plan.json ]]; then return 1; fi
  if is_at_work; then printf 'it is at work'; return; fi
  script=$(script_of "$run_dir")
  if [[ -e $SVC_BACKUP_DIR/$id || -e $(point_of_run) ]]; then
    printf 'its restore point is there'
    return
  fi
  # A rollback keeps by the name of the upgrade whose standing copies it took.
  kept=$(jq -r --arg id "$id" '.facts | if .kept then .kept.run elif (.remove_kept // [] | length) > 0 then $id else "" end' "$run_dir/notes.json" 2>/dev/null) || kept=''
  if [[ -n $kept ]] && compgen -G "$SVC_STATE_DIR/swaps/$kept.*" >/dev/null; then printf 'what it has kept is there'; return; fi
  # The last upgrade, with the run that made it as a hop, and what was done about it since.
  if [[ -n $last_upgrade ]] && [[ $script == svc-upgrade || $script == svc-rollback ]]; then
    parent=$(told "$last_upgrade/plan.json" '.parent // ""')
    if [[ ! $id < ${last_upgrade##*/} || $id == "$parent" ]]; then printf 'the last upgrade, or since then'; return; fi
  fi
  if is_ok "$(times_file document)"; then return 1; fi
  for one in "${ended_well[@]}"; do
    if [[ ${one%% *} == "$script" && ${one#* } > $id ]]; then return 1; fi
  done
  printf 'it has not ended well, and no later one of %s has' "$script"
}

# An upgrade over several versions: hop by hop, each a run of its own with its own restore point, up to the first that fails.
# Sourced by svc-upgrade.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir, installers and the like are run.sh's and svc-upgrade's

# Whether that is what was asked for.
several_hops() { ((${#installers[@]} > 1)) || [[ -n $to ]]; }

# upgrade_by_hops: the whole way is judged first; nothing has been altered then.
upgrade_by_hops() {
  local number hop options=("${last_minor[@]}" "${layout[@]}" "${rollback_args[@]}")
  for hop in "${installer_args[@]}"; do options+=("--installer-arg=$hop"); done
  if ! $previous; then options+=(--no-previous-installer); fi
  if $aside; then options+=(--aside); fi
  if $rehearse; then options+=(--rehearse); fi
  if $anew; then options+=(--anew); fi
  if $attached; then options+=(--attached); fi
  if $auto_rollback; then options+=(--auto-rollback); fi
  find_way
  for ((number = 1; number <= ${#installers[@]}; number++)); do
    step "hop-$number" "$self" "${options[@]}" "${installers[number - 1]}"
  done
  if ((${#installers[@]})); then fact version "$(jq .result.version "$(document_of "hop-${#installers[@]}")" 2>/dev/null || printf null)"; fi
  run_finished
  exit 0
}

# The installers, in their order, and whether each way between two of them is supported.
find_way() {
  local number version=()
  if [[ -n $to ]]; then
    must way svc-version plan ${from_dir:+"$from_dir"} --to "$to" "${last_minor[@]}"
    mapfile -t installers < <(jq -r '.result.hops[].installer' "$(document way)")
    return
  fi
  for ((number = 1; number <= ${#installers[@]}; number++)); do
    installers[number - 1]=$(realpath -m -- "${installers[number - 1]}")
    preflight "new-$number" svc-version installer "${installers[number - 1]}"
    if is_done "new-$number"; then
      preflight "path-$number" svc-version check --from "$(document "new-$number")" "${version[@]}" "${last_minor[@]}"
      version=(--installed "$(value "new-$number" .result.version)")
    fi
  done
  preflight_verdict
}

# resume_hops: the hop at which the run was cut off is gone on with, where its installer had started, or made anew.
resume_hops() {
  local number=1 cut
  find_way
  while has_begun "hop-$((number + 1))"; do number=$((number + 1)); done
  cut=$(run_of_hop "$number")
  keep_lost_document "$number" "$cut"
  if ! is_done "hop-$number" && [[ -n $cut ]] && run_dir=$cut has_begun installer; then
    if $rerun_installer; then set -- --rerun-installer; fi
    # Whether this one's installer is to be run still, the hop itself finds out.
    step "hop-$number" "$self" --resume "${cut##*/}" "$@" "${installer_args[@]/#/--installer-arg=}"
  fi
  if ! is_done "hop-${#installers[@]}"; then ask_for_arguments installer; fi
  upgrade_by_hops
}

# run_of_hop NUMBER: the run of the newest hop, where it has one: it may have been cut off before, and the newest run is that of the
# hop before then.
run_of_hop() {
  local run
  run=$(newest_run svc-upgrade "$SVC_RUN_ID")
  if [[ -n $run && $(jq -r '.arguments[-1]' "$run/plan.json") == "${installers[$1 - 1]}" ]]; then printf '%s' "$run"; fi
}

# keep_lost_document NUMBER RUN: that of a hop that has ended well when nobody was left to keep it.
keep_lost_document() {
  local begun=("$run_dir"/[0-9][0-9]-"hop-$1"{,.[0-9],.[0-9][0-9]}.started) point files
  if [[ -z $2 ]] || is_done "hop-$1" || ! is_ok "$(times_file document "$2")"; then return; fi
  point=$(run_dir=$2 point_of_run)
  refuse_after_rollback
  files=${begun[-1]%.started}
  cp -- "$(times_file document "$2")" "$files.json.partial"
  mv -- "$files.json.partial" "$files.json"
}

# note_hops: what the last document says of the hops that have ended.
note_hops() {
  local documents=("$run_dir"/[0-9][0-9]-hop-*.json)
  if ((${#documents[@]} == 0)); then return; fi
  fact hops "$(jq -cs 'map({run_id, ok, version: .result.version, restore_point: .result.restore_point, downtime_ms: .result.downtime_ms})' "${documents[@]}")"
}

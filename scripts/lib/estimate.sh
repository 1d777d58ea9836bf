# How long a rollback takes, by what the journal has seen. Sourced by svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

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
        | if . then {step: $step, ms: ., run_id: $run} else null end' "$file") && [[ -n $found ]] && break
      found=''
    done
    printf '%s\n' "${found:-{\"step\":\"$step\",\"ms\":null,\"run_id\":null\}}"
  done | jq -cs .
}

# The unit as it was before, and those that stop along with it, since they require it or are part of it. systemd does not start
# them again with it. Sourced by svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154 # dry_run and the like are run.sh's

# unit_before: the document that says how the unit in run_dir was before the upgrade touched it.
unit_before() {
  if [[ -e $run_dir/unit-before.json ]]; then
    printf '%s' "$run_dir/unit-before.json"
  elif [[ -n $unit_then ]]; then
    printf '%s' "$unit_then"
  else
    document unit || :
  fi
}
# That of a run that was cut off, while what that one has left is being cleared up.
unit_then=''

# has_dependents DOCUMENT: whether there were any.
has_dependents() { [[ $(<"$1") != *'"dependents":[]'* ]] && jq -e '.result.dependents | length > 0' "$1" >/dev/null 2>&1; }

# start_dependents DOCUMENT: those that ran when the service was looked at (a document of svc-unit status) and are down now.
# An installer may have started the service, and not them.
start_dependents() {
  if [[ -z $1 ]] || ! has_dependents "$1"; then return; fi
  # The service itself has settled already.
  try start-dependents svc-unit start --from "$1" --settle 1s ||
    review dependents_not_started "What stopped along with the service was not started again: see $(document start-dependents)."
}

# is_still DOCUMENT: whether the unit was down, and nothing about to start it.
is_still() {
  local pending state
  pending=$(told "$1" .result.after.job_pending)
  state=$(told "$1" .result.after.active_state)
  [[ $pending == false && $state =~ ^(inactive|failed)$ ]]
}

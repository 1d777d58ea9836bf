# The configuration on the way: saved after an upgrade, saved before what uninstalls may delete it, put back by a rollback.
# Sourced by svc-upgrade and svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# The configuration as the upgrade left it, for a rollback to compare with: of each layout that is there, since an
# installer may leave the old one beside the new. The upgrade is done by now: a failure is reported.
keep_new_configuration() {
  local layout status
  for layout in yaml conf; do
    status=0
    try "configuration-after-$layout" svc-confsave save --layout "$layout" --to "$run_dir" || status=$?
    if ((status != 0 && status != 4)); then
      review configuration_not_kept "The configuration was not saved after the upgrade: $(sentence_of "$(document "configuration-after-$layout")" "$status")"
    fi
  done
}

# What uninstalls may delete the configuration: each layout that exists is saved into the run. What was changed after the
# upgrade, against the copies that the upgrade made at its end, is reported, since it does not come back.
save_present_configuration() {
  local layout status
  for layout in yaml conf; do
    status=0
    try "configuration-$layout" svc-confsave save --layout "$layout" --to "$run_dir" || status=$?
    ((status == 0 || status == 4)) || stop_at "$status" "configuration-$layout"
    if ((status == 0)); then report_later_changes "$layout"; fi
  done
}

report_later_changes() {
  local after=("$upgrade_run"/[0-9][0-9]-configuration-after-"$1".json)
  if [[ -z $upgrade_run ]] || ((${#after[@]} == 0)) || $dry_run; then return; fi
  if ! is_ok "${after[-1]}"; then return; fi
  # The same bytes are no change, whatever they say.
  if [[ $(told "${after[-1]}" .result.sha256) == "$(value "configuration-$1" .result.sha256)" ]]; then return; fi
  if ! check "changed-since-$1" svc-confsave diff --from "${after[-1]}"; then
    review configuration_changed_since "The configuration was changed after the upgrade, and cannot be compared by key; the copy in $run_dir holds it."
  elif [[ $(value "changed-since-$1" .result.same) != true ]]; then
    review configuration_changed_since "The configuration was changed after the upgrade; see $(document "changed-since-$1"), and the copy in $run_dir."
  fi
}

# The configuration that was saved from this very version is the result of every comparison; the shipped one stays beside it. Without
# it the service is not started: it never runs on the vendor's defaults.
restore_configuration() {
  try diff svc-confsave diff --from "$point/confsave.json" ||
    warn configuration_not_compared "The saved configuration and the shipped one could not be compared, so nobody knows how they differ: see $(document diff)."
  step restore-configuration svc-confsave restore --from "$point/confsave.json"
}

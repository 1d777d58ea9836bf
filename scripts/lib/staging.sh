# A restore point is brought back beside the live data: what may be in the way, both databases, and whether they could be swapped in.
# Sourced by svc-rollback and svc-rehearse, which say in `point`, `other_server`, `keep` and `rate` what and how.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# Nothing is altered.
preflight_staging() {
  # Found before hours of staging.
  preflight_search '' "$point/snapshot.json"
  preflight dump svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}" --dry-run
}

# Beside what is live, and proven there.
stage_both() {
  beside stage-search svc-snap stage --from "$point/snapshot.json" "${other_server[@]}" "${rate[@]}"
  step stage-database svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}"
  collect stage-search
}

# What is in the way of a swap is found here, and not when the service is gone.
judge_swaps() {
  judge_swap swap-search-possible svc-snap swap --from "$(document_of stage-search)" --exact "${keep[@]}" --dry-run
  judge_swap swap-database-possible svc-pgrestore swap --from "$(document_of stage-database)" "${keep[@]}" --dry-run
}
# Without copies there is nothing to ask about.
judge_swap() {
  if planned "$@"; then return; fi
  local status=0
  check "$@" || status=$?
  if ((status)); then swap_refused "$status" "$1"; fi
}
# svc-rehearse, which swaps nothing, has one of its own.
swap_refused() { stop_at "$@"; }

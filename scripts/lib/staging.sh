# Copies beside the live data: a restore point that is staged, by a rollback or a rehearsal. Sourced by both.
# shellcheck shell=bash disable=SC2154,SC2034 # point, other_server, drop_old and rate are the scripts'

preflight_staging() {
  preflight snapshot -- svc-snap stage --from "$point/snapshot.json" "${other_server[@]}" --dry-run
  preflight exchange -- svc-snap restore --from "$point/snapshot.json" "${other_server[@]}" --exact "${drop_old[@]}" --dry-run
  preflight dump -- svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}" --dry-run
}

# stage_both: restored and verified, then it is checked that both can be swapped in; `undo_when` and `impossible` are options of svc-run.
stage_both() {
  undo "${undo_when[@]}" discard-search -- svc-snap discard --run "$SVC_RUN_ID"
  undo "${undo_when[@]}" discard-database -- svc-pgrestore discard --run "$SVC_RUN_ID"
  start stage-search -- svc-snap stage --from "$point/snapshot.json" "${other_server[@]}" "${rate[@]}"
  start stage-database -- svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}"
  finish stage-search stage-database
}
swaps_possible() {
  step "${impossible[@]}" swap-search-possible -- svc-snap swap --from @stage-search --exact "${drop_old[@]}" --dry-run
  step "${impossible[@]}" swap-database-possible -- svc-pgrestore swap --from @stage-database "${drop_old[@]}" --dry-run
}

# The document that a script ends with: the envelope of shared/contract.md over the documents of its steps.
# Of the steps of a run (journal.jq).
# Arguments: $version $script $run_id $host $started $started_ms $finished $duration_ms $exit_status $dry_run $run_dir
#            $failed (the step that failed, or "") $message $hint $code $said (JSON: facts, warnings, plan)
#            $undone (the steps of which nothing is left, JSON)

include "journal";

def of($step): map(select(.step == $step)) | last | .document;

steps
| $said as [$facts, $warnings, $plan]
# What this call has changed, not what an earlier one of the same run had.
| map(select(.begun_ms >= $started_ms and (.step | IN($undone[]) | not)) | .document.changed) as $changes
| of($failed) as $culprit
# From the request to stop to the moment that the unit itself says it became active. The request may have been made by a step
# that was cut off; then the one after it only saw since when the unit was inactive.
| (map(select(.step == "stop"))
   | map(.document.result.requested_epoch_ms?) + map(select(.attempt > 1) | .document.result.after.inactive_enter_epoch_ms?)
   | map(values) | first) as $down
| of("start") as $start
# What the swaps of a rollback have replaced and kept.
| [of("swap-search", "swap-database") | select(.ok).result] as $swaps
| {
  schema: "\($script).run/1", tool: "\($script) \($version)", step: "run",
  ok: ($exit_status == 0 or $exit_status == 9),
  changed: (if $dry_run then false
            elif ($changes | any(. == true)) or ($facts.half_removed // null) != null or ([$facts.removed, $facts.removed_runs | arrays | length] | add // 0) > 0 then true
            elif ($changes | any(. == null)) then null
            else false end),
  dry_run: $dry_run, run_id: $run_id, host: $host,
  started_at: $started, finished_at: $finished, duration_ms: $duration_ms,
  result: ({
    run_dir: (if $dry_run or $run_dir == "" then null else $run_dir end),
    steps: map({
      step, attempt, schema: .document.schema, ok: .document.ok, changed: .document.changed,
      duration_ms: .document.duration_ms, error: .document.error.code
    }),
    # null where the unit was not running before, or does not run now.
    downtime_ms: ($start.result.after.active_enter_epoch_ms? as $up
                  | if $up and $down and $up >= $down then $up - $down else null end),
    restore_point: null, version: null, preflight: [], preflight_total: null, kept: null, swap_back: [], remove_kept: [], standing_copies: null, hops: [], half_removed: null,
    rehearsal: null, cleared: [],
    plan: $plan
  } + $facts
    | if .kept then .kept += {indices: [$swaps[].indices[]?.kept | values], databases: [$swaps[].kept.name? | values]} else . end),
  warnings: ($warnings + ([.[] | .step as $step | .document.warnings[]? | .message |= "\($step): \(.)"])),
  error: (if $exit_status == 0 or $exit_status == 9 then null else {
    code: (if $code != "" then $code else ($culprit.error.code // "failed") end),
    message: $message,
    hint: $hint,
    retryable: ($culprit.error.retryable // false),
    causes: ($culprit.error.causes // [])
  } end)
}

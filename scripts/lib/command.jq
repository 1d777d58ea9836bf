# The document of a command that has none of its own: schema svc-run.command/1.
# Arguments: $version $step $run_id $host $started $finished $duration_ms $exit_status (null: nobody saw its end) $output
#            $rc $argv (JSON) $tail
{
  schema: "svc-run.command/1", tool: "svc-run \($version)", step: "command",
  ok: ($exit_status == 0),
  # A command that failed may have altered anything.
  changed: (if $exit_status == 0 then true else null end),
  dry_run: false, run_id: $run_id, host: $host,
  started_at: $started, finished_at: $finished, duration_ms: $duration_ms,
  result: { name: $step, argv: $argv, exit_status: $exit_status, output: $output },
  warnings: [],
  error: (if $exit_status == 0 then null elif $exit_status == null then {
    code: "command_at_work",
    message: "The command of the step \($step) is still at work.",
    hint: "Wait until \($rc) is there and says how it ended; its output is \($output).",
    retryable: true, causes: []
  } else {
    code: "command_failed",
    message: "The command of the step \($step) ended with status \($exit_status).",
    hint: "Read \($output).",
    retryable: false,
    causes: ($tail | split("\n") | map(select(. != "")) | .[-5:])
  } end)
}

# The document of a command that has none of its own: schema svc-run.command/1.
# Arguments: $version $step $run_id $host $begun $ended (seconds since 1970) $exit_status $output $argv (JSON) $tail
{
  schema: "svc-run.command/1", tool: "svc-run \($version)", step: "command",
  ok: ($exit_status == 0),
  # A command that failed may have altered anything.
  changed: (if $exit_status == 0 then true else null end),
  dry_run: false, run_id: $run_id, host: $host,
  started_at: ($begun | floor | todate), finished_at: ($ended | floor | todate),
  duration_ms: ([($ended - $begun) * 1000 | floor, 0] | max),
  result: { name: $step, argv: $argv, exit_status: $exit_status, output: $output },
  warnings: [],
  error: (if $exit_status == 0 then null else {
    code: "command_failed",
    message: "The command of the step \($step) ended with status \($exit_status).",
    hint: "Read \($output).",
    retryable: false,
    causes: ($tail | split("\n") | map(select(. != "")) | .[-5:])
  } end)
}

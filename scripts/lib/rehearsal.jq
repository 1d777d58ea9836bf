# What a rehearsal has found: what was staged and proven beside what the restore point says, and how long a rollback takes.
# Arguments, documents each in an array: $point (restore-point.json), $dump (of svc-pgdump), $search and $database (of the stage
# steps); $before_stop_ms, $staging_ms; $parts (rollback_parts).

($search[0].result.indices | map({index, docs_count, docs_expected})) as $indices
| ($dump[0].result.tables | group_by(.table) | map({table: .[0].table, rows_expected: (map(.row_count) | add)})) as $tables
| ($parts | map(.ms | values) | add // 0) as $downtime
| {
  kind: $point[0].kind, version: $point[0].version, made_at: $point[0].made_at, quiesced: $point[0].quiesced,
  indices: $indices,
  docs_count: ($indices | map(.docs_count) | add // 0),
  tables: $tables,
  rows_count: $database[0].result.proof.rows_count,
  rows_expected: $dump[0].result.row_count,
  # null: the backup was taken while this was written to, so that nobody knows what it should be.
  counts_proven: (($indices | all(.docs_expected != null and .docs_count == .docs_expected))
    and ([$database[0].warnings[].code] | index("rows_not_counted") | not)),
  before_stop_ms: $before_stop_ms, staging_ms: $staging_ms,
  downtime_known_ms: $downtime,
  downtime_parts: $parts,
  downtime_not_known: ($parts | map(select(.ms == null) | .step)),
  whole_known_ms: ($before_stop_ms + $downtime)
}

# What a check has found, in a few words: the document of a step that is ok.
include "people";

.result as $it
| ((.schema | split("/")[0]) as $schema
  | if $schema == "svc-version.current" then "\($it.version) is installed"
    elif $schema == "svc-version.installer" then "\($it.version)\(if $it.checksum_verified then ", its checksum holds" else "" end)"
    elif $schema == "svc-version.check" then "\($it.installed) to \($it.to): \($it.rule)"
    elif $schema == "svc-unit.status" then "\($it.unit) is \($it.after.active_state)"
    elif $schema == "svc-snap.health" then
      "\($it.product) \($it.version), \($it.status); " + ([$it.disks[] | "\(.node): \(.available_bytes | size) free, "
        + (if .level == "free" then "no watermark passed" else .level | gsub("_"; " ") end)] | join("; "))
    elif $schema == "svc-snap.verify" then "\($it.repository) can be written by \($it.nodes | join(", ")), and holds \($it.snapshots_count) snapshots"
    elif $schema == "svc-pgdump.dump" then "PostgreSQL \($it.server_version), pg_dump \($it.pg_dump_version)"
    elif $schema == "svc-snap.aside" then "\($it.indices | length) indices can be set aside"
    elif $schema == "svc-pgdump.aside" then "\($it.size_bytes | size) can be set aside"
    elif $schema == "svc-confsave.save" then $it.source
    elif $schema == "svc-confsave.restore" then "\($it.path) can be put back"
    elif $schema == "svc-snap.stage" then "\($it.snapshot): \($it.indices | length) indices"
        + ($it.room | if .needed_bytes? then " of \(.needed_bytes | size)" + (if .free_bytes then ", \(.free_bytes | size) free for them" else "" end) else "" end)
    elif $schema == "svc-snap.restore" then "\($it.swap.indices // $it.indices | length) indices can be exchanged"
    elif $schema == "svc-pgrestore.stage" then "\($it.dump.path)"
        + ($it.room | if . then ": about \(.needed_bytes | size), \(.free_bytes | size) free in \(.folder)" else "" end)
    else "" end) as $found
# What is wrong comes first.
| [.warnings[].message] + [$found | select(. != "")] | join(" ") | gsub("\n"; " ")

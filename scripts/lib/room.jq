# Whether there is room for a restore point, by what was measured: the verdict of the preflight, and its sentence.
# Arguments: $folder (of restore points), $free (bytes there), $repository (the folder of snapshots where it is this host's, or ""),
# $free_there (bytes, or null), $one_disk (whether both lie on one); documents, each in an array: $search (health), $verified (the
# repository), $database (the dump's dry run).
include "people";

($database[0].result.expected_bytes? // null) as $dump
| ($search[0].result.indices_bytes? // null) as $indices
# With less than this nothing can be backed up at all, whatever was or was not measured (tables that nobody has analysed).
| 16777216 as $least
# Such a node's indices take no writes: an installer that migrates them would fail half-way.
| ([$search[0].result.disks[]? | select(.level == "past_flood_stage") | .node]) as $flooded
# A snapshot stores what no earlier one has, so that of the first one alone the size is known.
| (if $verified[0].result.snapshots_count? == 0 then $indices else null end) as $first
| (if $free < $least or ($free_there != null and $free_there < $least) or ($flooded | length) > 0 then "fail"
   elif $free < ($dump // 0) or ($free_there != null and $free_there < ($first // 0))
    or ($one_disk and $free < ($dump // 0) + ($first // 0)) then "warn" else "pass" end),
  ([ "\($free | size) free in \($folder)" + (if $dump then ", a dump takes about \($dump | size)" else "" end),
     (if $free_there != null then "\($free_there | size) free in \($repository)"
       + (if $first then ", a first snapshot takes \($first | size)" elif $indices then ", for what is new of \($indices | size)" else "" end)
     else empty end),
     ($flooded[] | "the disk of \(.) is past its flood stage")
   ] | join("; "))

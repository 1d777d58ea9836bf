# What helps after a step that failed. Input: its document. Where the tool's own hint names a flag that the scripts do not have,
# they say it in words of their own.

(.schema // "" | split("/")[0]) as $step
| if .error.code == "no_room" then {
      "svc-pgdump.dump": "Free some room, or set SVC_BACKUP_DIR to a folder on another disk.",
      "svc-pgdump.aside": "Free some room on the disk of the relational database, or leave --aside out.",
      "svc-pgrestore.stage": "Free some room on the disk of the relational database."
    }[$step]
  elif .error.code == "data_streams" then
    "Leave them out of SVC_INDICES ('*,-NAME'): svc-snap restore --streams-in-place restores data streams by hand."
  elif .error.code == "live_index_red" then
    "Mend it (GET /_cluster/allocation/explain), or say that it may be lost: svc-rollback --discard-current."
  elif .error.code == "dump_not_kept" then
    "Look at the disk and at the machine's memory (dmesg), or set SVC_BACKUP_DIR to a folder on another disk."
  elif .error.code == "copy_exists" then "Move it to another place, then go on."
  else null end
  // .error.hint // "Run the same command again."

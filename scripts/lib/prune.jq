# Which restore points go, and why: the rules of `svc-snap prune`, for whole points. Input: the points, oldest first (points.sh).
# Arguments: $kinds (words), $max_age (seconds or null), $max_count (or null), $min_count, $now (seconds since 1970),
# $proven (ids: the newest proven point of each kind).

($kinds | split(" ")) as $kinds
| . as $all
| (map(select(.id | IN($proven[])) | {key: .kind, value: .made_epoch}) | from_entries) as $since
# The place of a good one among those of its kind, 0 being the newest proven one.
| (reduce ($all | reverse | .[] | select(.state == "good" and $since[.kind // ""] != null and .made_epoch <= $since[.kind])) as $one
    ({seen: {}, place: {}};
     .place[$one.id] = (.seen[$one.kind] // 0) | .seen[$one.kind] += 1) | .place) as $place
| def stays($reason): .fate = "stays" | .reason = $reason;
  def goes($reason): .fate = "goes" | .reason = $reason;
  map(. as $one
    | if .state == "at_work" then stays("at_work")
      elif (.kind | IN($kinds[]) | not) then stays("other_kind")
      elif .id | IN($proven[]) then stays("newest")
      elif .state == "damaged" then stays("damaged")
      elif $since[.kind] == null then stays("none_proven")
      elif .made_epoch > $since[.kind] then stays("not_proven")
      elif .state == "half" then goes("half")
      elif $place[.id] < $min_count then stays("min_count")
      elif $max_count != null and $place[.id] >= $max_count then goes("max_count")
      elif $max_age != null and $now - .made_epoch > $max_age then goes("max_age")
      else stays("young") end)

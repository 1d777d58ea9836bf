# Restore points as lines for people. Input: the points (points.sh).
include "people";

(map(.id | length) | max // 0) as $id
| if length == 0 then "There is no restore point." else .[] end
| if type == "string" then . else
    "\(.id | left($id))  \(.kind // "?" | left(7))  \(.version // "?" | left(8))  \(.made_at // "?" | left(20))  "
    + "\(if .quiesced then "quiesced" else "" end | left(8))  \(.size_bytes | size | right(9))  \(.state)"
    + (if .altered == [] then "" else ": \(.altered | join(", "))" end)
  end

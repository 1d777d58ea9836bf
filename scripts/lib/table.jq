# The steps of a run as lines for people: number, step, when it was started, how it ended, how long it took, a bar.
# Of the steps of a run (journal.jq). Arguments: $now_ms, $at_work (a script is at the run), $foreign (a command of it
# is at work on its own).
include "people";
include "journal";

steps
| map(. + {
    state: (if .ended then (if .document.ok then "ok" else .document.error.code // "failed" end)
            elif .kind == "foreign" and .exit_status != null then "ended with \(.exit_status)"
            elif $at_work or ($foreign and .kind == "foreign") then "at work"
            else "nobody saw its end" end)
  })
| map(. + {ms: (if .ended then .document.duration_ms elif .state == "at work" then $now_ms - .begun_ms else null end)})
| (map(.ms // 0) | max // 0) as $longest
| (map(.step | length) | max // 4) as $name
| (map(.state | length) | max // 5) as $state
| .[]
| "\(.number)  \(.step + (if .attempt > 1 then " (\(.attempt))" else "" end) | left($name + 4))  \(.begun_ms / 1000 | floor | strftime("%H:%M:%S"))"
  + "  \(.state | left($state))  \(if .ms then .ms | time else "" end | right(9))"
  + (if .ms and $longest > 0 then "  " + "#" * ([.ms * 30 / $longest | floor, 1] | max) else "" end)

# The documents of a run's steps, as the script asks them: is it there, is it ok, what does it say. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's

# document STEP: the file of the newest document of a step; value STEP FILTER: something in it.
document() {
  local found=("$run_dir"/[0-9][0-9]-"$1"{,.[0-9],.[0-9][0-9]}.json)
  ((${#found[@]})) && printf '%s' "${found[-1]}"
}
value() { told "$(document "$1")" "$2"; }

# document_of STEP: the same, with the name that a dry run prints where it has made none.
document_of() { document "$1" || printf '%s.json' "$1"; }

# How a document of ours begins that nobody has written anew: its fields in the order of the contract.
plain='"([^"\\]*)"'
envelope="^\\{\"schema\":$plain,\"tool\":$plain,\"step\":$plain,\"ok\":(true|false),\"changed\":(true|false|null),\"dry_run\":(true|false)"
envelope+=",\"run_id\":$plain,\"host\":$plain,\"started_at\":$plain,\"finished_at\":$plain,\"duration_ms\":([0-9]+),\"result\":"

# glance FILE: what such a document says of itself: `said_ok`, `said_changed`, `said_ms`, and whether it is `silent` (no warning, no
# error). False where it is none: then jq is to be asked.
glance() {
  local LC_ALL=C line='' rest=''
  said_ok='' said_changed='' said_ms='' silent=false
  # One line, whole.
  { IFS= read -r line && ! IFS= read -r rest && [[ -z $rest ]]; } 2>/dev/null <"$1" || return 1
  [[ ${line:0:2048} =~ $envelope && ${line: -1} == '}' ]] || return 1
  said_ok=${BASH_REMATCH[4]} said_changed=${BASH_REMATCH[5]} said_ms=${BASH_REMATCH[11]}
  if [[ ${line: -28} == ',"warnings":[],"error":null}' ]]; then silent=true; fi
}

# is_whole FILE: whether it holds one document; is_ok FILE: whether that document is ok as well.
whole='length==1 and (.[0] | type == "object" and has("ok"))'
is_whole() { [[ -e $1 ]] && { glance "$1" || jq -es "$whole" "$1" >/dev/null 2>&1; }; }
is_ok() {
  [[ -e $1 ]] || return 1
  if glance "$1"; then [[ $said_ok == true ]]; else jq -es 'length==1 and .[0].ok==true' "$1" >/dev/null 2>&1; fi
}

# has_ended RUN_DIR: whether the newest time of a run has left its last document. One that a cut has left empty says nothing.
has_ended() { is_whole "$(times_file document "$1")"; }

# is_done STEP: whether it has ended well.
is_done() {
  local file
  file=$(document "$1") && is_ok "$file"
}

# made_nothing STEP: whether its document says that it changed nothing. (An empty one says nothing, which is 0 for `jq -e` of 1.6.)
made_nothing() {
  local file
  file=$(document "$1") || return
  if glance "$file"; then [[ $said_changed == false ]]; else jq -es 'length==1 and .[0].changed==false' "$file" >/dev/null 2>&1; fi
}

# has_warnings FILE: whether a document that is ok says something that a person should know.
has_warnings() {
  if glance "$1" && $silent; then return 1; fi
  jq -e '.warnings | length > 0' "$1" >/dev/null
}

# say_of FILE: `said`, what a step says whose one document is ok; false where it is not.
say_of() {
  said=''
  if glance "$1" && $silent; then
    if [[ $said_changed == true ]]; then said='changed, '; fi
    said="ok, $said$said_ms ms"
    [[ $said_ok == true ]]
  else
    said=$(jq -rse 'if length==1 and .[0].ok==true then .[0] else empty end
      | [.warnings[] | "warning: \(.message) "] + ["ok, \(if .changed then "changed, " else "" end)\(.duration_ms) ms"] | join("")' "$1" 2>/dev/null)
  fi
}

# sentence_of FILE STATUS: what a step that failed says.
sentence_of() {
  if is_whole "$1"; then
    told "$1" '.error.message // "it is not ok."'
  else
    printf 'it ended with status %s and left no document; see %s/log.' "$2" "$run_dir"
  fi
}

# hint_of STEP: what a step that failed says that helps.
hint_of() {
  local file
  if file=$(document "$1") && is_whole "$file"; then
    jq -r -f "$lib/hint.jq" "$file"
  elif no_room; then
    printf 'There is no room for the journal: make room on the disk of %s, then run the same command again.' "$SVC_STATE_DIR"
  else
    printf 'Read %s/log, then run the same command again.' "$run_dir"
  fi
}

# no_room: whether the journal has no room for a document.
no_room() {
  local full=false
  printf '%8192s' '' 2>/dev/null >"$run_dir/room" || full=true
  rm -f -- "$run_dir/room"
  $full
}

# keep_late_documents: a tool that outlived its script has written its document, which nobody has kept.
keep_late_documents() {
  local file
  for file in "$run_dir"/[0-9][0-9]-*.json.partial; do
    if is_whole "$file"; then mv -- "$file" "${file%.partial}"; fi
  done
}

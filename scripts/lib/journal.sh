# The journal of a run: what a run directory says. Sourced by run.sh; ../README.md describes the run directory.
# shellcheck shell=bash disable=SC2154 # run_dir, script and the like are run.sh's

# The settings of this run, without secrets: files that hold some are named, their content is not.
write_plan() {
  jq -n --arg script "$script" --arg run_id "$SVC_RUN_ID" --arg started "$started" --argjson arguments "$(shown_array "${arguments[@]}")" \
    --arg version "$version_of_tools" \
    '{script: $script, run_id: $run_id, started_at: $started, arguments: $arguments, tools: $version,
      settings: ($ENV | with_entries(select(.key | test("^(SVC_|PG(HOST|PORT|USER|DATABASE|PASSFILE)$)"))
                       | select(.key | test("PASSWORD$|TOKEN|SECRET|API_KEY$|_FD$") | not)
                       | .value |= sub("//[^/@]*@"; "//")))}'
}

# A JSON array of strings.
json_array() { jq -nc '$ARGS.positional' --args -- "$@"; }

# The same of a command, without the arguments that are not for documents and logs (what is handed on to an installer).
shown_array() { mapfile -d '' -t shown < <(shown_args "$@"); json_array "${shown[@]}"; }
shown_args() {
  local word private
  for word; do
    for private in "${private_args[@]}"; do
      if [[ -n $private ]]; then word=${word//"$private"/<redacted>}; fi
    done
    printf '%s\0' "$word"
  done
}

# document STEP: the file of the newest document of a step; value STEP FILTER: something in it.
document() {
  local found=("$run_dir"/[0-9][0-9]-"$1".json)
  ((${#found[@]})) && printf '%s' "${found[-1]}"
}
value() { jq -r "$2" "$(document "$1")"; }

# document_of STEP: the same, with the name that a dry run prints where it has made none.
document_of() { document "$1" || printf '%s.json' "$1"; }

# is_whole FILE: whether it holds one document; is_ok FILE: whether that document is ok as well.
whole='length==1 and (.[0] | type == "object" and has("ok"))'
is_whole() { jq -es "$whole" "$1" >/dev/null 2>&1; }
is_ok() { jq -es 'length==1 and .[0].ok==true' "$1" >/dev/null 2>&1; }

# said_of FILE: what a step says whose one document is ok; nothing, and a failure, where it is not.
said_of() {
  jq -rse 'if length==1 and .[0].ok==true then .[0] else empty end
    | [.warnings[] | "warning: \(.message) "] + ["ok, \(.duration_ms) ms"] | join("")' "$1" 2>/dev/null
}

# sentence_of FILE STATUS: what a step that failed says.
sentence_of() {
  if is_whole "$1"; then
    jq -r '.error.message // "it is not ok"' "$1"
  else
    printf 'it ended with status %s and left no document; see %s/log.' "$2" "$run_dir"
  fi
}

# hint_of STEP: what a step that failed says that helps.
hint_of() {
  local file
  if file=$(document "$1") && is_whole "$file"; then
    jq -r '.error.hint // "Run the same command again."' "$file"
  else
    printf 'Read %s/log, then run the same command again.' "$run_dir"
  fi
}

# The documents of the steps, in their order. A step that was started and left no whole document is unknown, unless it
# only looked at something.
step_documents() {
  local begun name
  for begun in "$run_dir"/[0-9][0-9]-*.started; do
    name=${begun##*/} name=${name#*-} name=${name%.started}
    jq -cse --arg step "$name" "if $whole then {step: \$step, document: .[0]} else empty end" "${begun%.started}.json" 2>/dev/null ||
      jq -nc --arg step "$name" --arg kind "$(<"$begun")" '{step: $step, document: {
        schema: null, ok: false, changed: (if $kind == "check" then false else null end), duration_ms: 0,
        error: {code: "no_document", retryable: false, causes: []}}}'
  done
}

# The journal of a run: what a run directory says, and what is read from one. Sourced by run.sh; ../README.md describes the
# run directory.
# shellcheck shell=bash disable=SC2154 # run_dir, script and the like are run.sh's

# The settings of this run, without secrets: files that hold some are named, their content is not. `parent` is the run of
# the script that called this one.
# write_plan FILE
write_plan() {
  local noted
  mapfile -d '' -t noted < <(without_private "${arguments[@]}")
  jq -n --arg script "$script" --arg run_id "$SVC_RUN_ID" --arg started "$started" --argjson arguments "$(json_array "${noted[@]}")" \
    --arg version "$version_of_tools" --arg parent "$parent" --arg directory "$PWD" --arg user "${SUDO_USER:-$(id -un)}" \
    '{script: $script, run_id: $run_id, parent: (if $parent == "" then null else $parent end), started_at: $started,
      arguments: $arguments, directory: $directory, user: $user, tools: $version,
      settings: ($ENV | with_entries(select(.key | test("^(SVC_|PG(HOST|PORT|USER|DATABASE|PASSFILE)$)"))
                       | select(.key | test("PASSWORD$|TOKEN|SECRET|API_KEY$|_FD$") | not)
                       | .value |= gsub("//[^/]*@"; "//")))}' >"$1.partial" &&
    mv -- "$1.partial" "$1"
}

# log_call: the log says what was typed, and by whom; that of the run that has called this one says so too.
log_call() {
  local noted call
  mapfile -d '' -t noted < <(without_private "${arguments[@]}")
  call=$(quoted "$script" "${noted[@]}")
  log "typed: $call (${SUDO_USER:-$(id -un)}, in $PWD)"
  if [[ -n $parent ]]; then run_dir=$SVC_STATE_DIR/runs/$parent log "run $SVC_RUN_ID: $call"; fi
}

# noted_words PLAN: the words that a run was called with, each ended by a NUL; a file that was named from the folder of then is
# named by its whole path.
noted_words() {
  local word option directory
  directory=$(jq -r '.directory // ""' "$1")
  while IFS= read -r -d '' word; do
    option=''
    if [[ $word == --*=* ]]; then option=${word%%=*}= word=${word#*=}; fi
    if [[ -n $word && $word != [-/]* && -n $directory && -e $directory/$word ]]; then word=$directory/$word; fi
    printf '%s%s\0' "$option" "$word"
  done < <(jq -j '.arguments[] | . + "\u0000"' "$1")
}

# A JSON array of strings.
json_array() { jq -nc '$ARGS.positional' --args -- "$@"; }

# The arguments of a script, without those that are not for documents and logs (what is handed on to an installer).
without_private() {
  local word before=''
  for word; do
    case $before:$word in
      --installer-arg:*) word='<redacted>' ;;
      *:--installer-arg=*) word='--installer-arg=<redacted>' ;;
    esac
    printf '%s\0' "$word"
    before=$word
  done
}

# The words of a command, likewise. Only whole words are taken for such an argument, which may be as short as `1`.
shown_array() { mapfile -d '' -t shown < <(shown_args "$@"); json_array "${shown[@]}"; }
shown_args() {
  local word private
  for word; do
    for private in "${private_args[@]}"; do
      case $word in
        "$private") word='<redacted>' ;;
        "--installer-arg=$private") word='--installer-arg=<redacted>' ;;
      esac
    done
    printf '%s\0' "$word"
  done
}

# keep_notes: what the run has found out by itself, for its last document, is kept where it can be gone on from.
keep_notes() {
  if $dry_run || [[ -z $run_dir ]]; then return; fi
  if ! { jq -n --argjson review "$review" '{facts: input, warnings: input, review: $review}' <<<"$facts"$'\n'"$warnings" \
    >"$run_dir/notes.json.partial" 2>/dev/null &&
    mv -- "$run_dir/notes.json.partial" "$run_dir/notes.json"; } && ! $ending; then
    journal_full 'What comes next'
  fi
}

# document STEP: the file of the newest document of a step; value STEP FILTER: something in it.
document() {
  local found=("$run_dir"/[0-9][0-9]-"$1"{,.[0-9],.[0-9][0-9]}.json)
  ((${#found[@]})) && printf '%s' "${found[-1]}"
}
value() { jq -r "$2" "$(document "$1")"; }

# document_of STEP: the same, with the name that a dry run prints where it has made none.
document_of() { document "$1" || printf '%s.json' "$1"; }

# is_whole FILE: whether it holds one document; is_ok FILE: whether that document is ok as well.
whole='length==1 and (.[0] | type == "object" and has("ok"))'
is_whole() { jq -es "$whole" "$1" >/dev/null 2>&1; }
is_ok() { jq -es 'length==1 and .[0].ok==true' "$1" >/dev/null 2>&1; }

# has_begun STEP: whether it was ever started; is_done STEP: whether it has ended well.
has_begun() {
  local found
  # shellcheck disable=SC2206 # a step may be a pattern, `hook-*`
  found=("$run_dir"/[0-9][0-9]-$1.started)
  ((${#found[@]}))
}
is_done() {
  local file
  file=$(document "$1") && is_ok "$file"
}

# made_nothing STEP: whether its document says that it changed nothing.
made_nothing() {
  local file
  file=$(document "$1") && jq -e '.changed == false' "$file" >/dev/null 2>&1
}

# snapshot_name RUN KIND: what a snapshot of a run is named.
snapshot_name() { printf 'snapshot_%s_%s_%s_%s' "$SVC_NAME" "${1:0:8}" "$1" "$2"; }

# said_of FILE: what a step says whose one document is ok; nothing, and a failure, where it is not.
said_of() {
  jq -rse 'if length==1 and .[0].ok==true then .[0] else empty end
    | [.warnings[] | "warning: \(.message) "] + ["ok, \(if .changed then "changed, " else "" end)\(.duration_ms) ms"] | join("")' "$1" 2>/dev/null
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
    jq -r -f "$lib/hint.jq" "$file"
  else
    printf 'Read %s/log, then run the same command again.' "$run_dir"
  fi
}

# entries: the files of every time that a step was started, without their endings, in order. NN-<step> is the first time,
# NN-<step>.2 the second.
entries() {
  local first times
  for first in "$run_dir"/[0-9][0-9]-*.started; do
    first=${first%.started}
    if [[ $first =~ \.[0-9]+$ ]]; then continue; fi
    printf '%s\n' "$first"
    for ((times = 2; ; times++)); do
      [[ -e $first.$times.started ]] || break
      printf '%s\n' "$first.$times"
    done
  done
}

# The documents of the steps, in their order. A step that was started and left no whole document is unknown, unless it
# only looked at something.
step_documents() {
  local files exit_status
  while IFS= read -r files; do
    exit_status=null
    if [[ -e $files.rc ]]; then exit_status=$(<"$files.rc"); fi
    jq -cs --arg files "${files##*/}" --arg kind "$(<"$files.started")" --argjson begun "$(stat -c %.3Y -- "$files.started")" \
      --argjson exit_status "$exit_status" \
      "(if $whole then .[0] else null end) as \$document | "'
      ($files | capture("^(?<number>[0-9]+)-(?<step>.*?)([.](?<attempt>[0-9]+))?$")) as $name
      | {number: $name.number, step: $name.step, attempt: ($name.attempt // "1" | tonumber), kind: $kind,
        begun_ms: ($begun * 1000 | floor), exit_status: $exit_status, ended: ($document != null),
        document: ($document // {
          schema: null, ok: false, changed: (if $kind == "check" then false else null end), duration_ms: 0,
          error: {code: "no_document", retryable: false, causes: []}})}' 2>/dev/null < <(
      if [[ -e $files.json ]] && jq -e . "$files.json" >/dev/null 2>&1; then cat -- "$files.json"; fi)
  done < <(entries)
}

# A tool that outlived its script has written its document, which nobody has kept.
keep_late_documents() {
  local file
  for file in "$run_dir"/[0-9][0-9]-*.json.partial; do
    if is_whole "$file"; then mv -- "$file" "${file%.partial}"; fi
  done
}

# times_begun: how often the run was begun: once, and once more for each time that it was gone on with.
times_begun() {
  local found=("$run_dir"/plan{,.[0-9],.[0-9][0-9]}.json)
  printf '%s' "${#found[@]}"
}

# times_file NAME [RUN_DIR]: the file of the newest time, NAME.json or NAME.2.json.
times_file() {
  local run_dir=${2:-$run_dir} times
  times=$(times_begun)
  if ((times > 1)); then printf '%s/%s.%s.json' "$run_dir" "$1" "$times"; else printf '%s/%s.json' "$run_dir" "$1"; fi
}

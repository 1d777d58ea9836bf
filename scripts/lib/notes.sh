# What a run has found out by itself, for its last document: facts, warnings, and in a dry run the plan. Kept in notes.json, so that
# the run can be gone on with. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's

# The facts by their keys, each as JSON; the warnings, each an object; the command lines of a dry run.
declare -A facts=()
warnings=() plan=()
# Whether something is left for a person to look at: exit status 9.
review=false

# fact KEY JSON: something that the last document says in its result.
fact() {
  facts[$1]=${2:-null}
  keep_notes
}

# one_more KEY WORD: one more text in a fact that is a list of them.
one_more() {
  local list=${facts[$1]:-[]}
  list=${list%]}
  if [[ $list != '[' ]]; then list+=,; fi
  fact "$1" "$list$(text "$2")]"
}

# noted FACT: a text that the run had found out, or nothing.
noted() { jq -r '. // ""' <<<"${facts[$1]:-null}"; }

# warn CODE SENTENCE; review CODE SENTENCE also makes the exit status 9. What was said before is not said twice.
warn() {
  local warning one left=()
  warning="{\"code\":\"$1\",\"message\":$(text "$2")}"
  for one in "${warnings[@]}"; do [[ $one == "$warning" ]] || left+=("$one"); done
  warnings=("${left[@]}" "$warning")
  say "warning: $2"
  keep_notes
}
review() { review=true; warn "$@"; }

# facts_object: the facts as one object.
facts_object() {
  local key members=()
  for key in "${!facts[@]}"; do members+=("\"$key\":${facts[$key]}"); done
  local IFS=,
  printf '{%s}' "${members[*]}"
}

# keep_notes: all of it is kept where it can be gone on from.
keep_notes() {
  if $dry_run || [[ -z $run_dir ]]; then return; fi
  if ! {
    {
      printf '{"facts":' && facts_object && printf ',"warnings":' && joined "${warnings[@]}" && printf ',"review":%s}\n' "$review"
    } 2>/dev/null >"$run_dir/notes.json.partial" &&
    # It takes the place of another one, which it must not leave empty.
    sync -- "$run_dir/notes.json.partial" 2>/dev/null &&
    mv -- "$run_dir/notes.json.partial" "$run_dir/notes.json"
  } && ! $ending; then
    journal_full 'What comes next'
  fi
}

# restore_notes: what an earlier time of the run had found out.
restore_notes() {
  local kind key value
  [[ -e $run_dir/notes.json ]] || return 0
  while IFS=$'\t' read -r kind key value; do
    case $kind in
      fact) facts[$key]=$value ;;
      warning) warnings+=("$value") ;;
      review) review=$value ;;
    esac
  done < <(jq -r '(.facts | to_entries[] | "fact\t\(.key)\t\(.value | tojson)"), (.warnings[] | "warning\t-\t\(tojson)"), "review\t-\t\(.review)"' \
    "$run_dir/notes.json")
}

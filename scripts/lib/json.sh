# JSON that is written and read without a jq, which takes longer to start than most steps take: a run has hundreds of such moments,
# and in some of them the service is down. (Nor is a subshell, where several values make one line: a signal that comes
# while the first `$(` of a command is waited for breaks that command off. See catch_signals.) Sourced by run.sh.
# shellcheck shell=bash

# text VALUE: a JSON string; as_text VALUE: the same, in `json`, without a process.
text() {
  local json
  as_text "$1"
  printf '%s' "$json"
}
as_text() {
  json=${1//\\/\\\\}
  json=\"${json//\"/\\\"}\"
  # What is no character in UTF-8 is not printed either.
  # shellcheck disable=SC2016 # jq's own variable
  if [[ $json == *[^[:print:]]* ]]; then json=$(jq -n --arg text "$1" '$text'); fi
}

# json_array WORD...: an array of strings; as_array WORD...: the same, in `json`.
json_array() {
  local json
  as_array "$@"
  printf '%s' "$json"
}
as_array() {
  local word texts=() IFS=,
  for word; do
    as_text "$word"
    texts+=("$json")
  done
  json="[${texts[*]}]"
}

# joined JSON...: an array of what is JSON already.
joined() {
  local IFS=,
  printf '[%s]' "$*"
}

# told FILE FILTER: what `jq -r FILTER` says. No jq is started where the filter is the path of a member, with or without an
# alternative (.settings.KEY // "none"), the objects on that path are there, and behind them the member's name stands once, with a
# plain value.
told() {
  local text='' path=() key part='' rest other='' alternative=''
  if [[ $2 =~ ^((\.[A-Za-z_0-9]+)+)(\ //\ \"([^\"]*)\")?$ ]]; then
    alternative=${BASH_REMATCH[3]} other=${BASH_REMATCH[4]}
    IFS=. read -r -a path <<<"${BASH_REMATCH[1]#.}"
    IFS= read -r -d '' -n "$told_at_most" text 2>/dev/null <"$1" || :
  fi
  # A file that is cut off is jq's to judge.
  if ((${#path[@]} && ${#text} < told_at_most)) && [[ $text =~ ^\{.*\}[[:space:]]*$ ]]; then
    key=${path[-1]} rest=$text
    for part in "${path[@]:0:${#path[@]}-1}"; do
      if [[ $rest != *"\"$part\":"* ]]; then break; fi
      rest=${rest#*"\"$part\":"} rest=${rest# }
      if [[ $rest != '{'* ]]; then break; fi
      part=''
    done
    if [[ -n $part ]]; then
      rest=''
    elif [[ $rest != *"\"$key\""* && -n $alternative ]]; then
      printf '%s\n' "$other"
      return
    else
      rest=${rest#*"\"$key\":"}
    fi
    if [[ $rest != *"\"$key\":"* && $rest =~ ^\ ?(\"([^\"\\]*)\"|[0-9]+|true|false)[],}[:space:]] &&
      (-z $alternative || ${BASH_REMATCH[1]} != false) ]]; then
      if [[ ${BASH_REMATCH[1]} == \"* ]]; then printf '%s\n' "${BASH_REMATCH[2]}"; else printf '%s\n' "${BASH_REMATCH[1]}"; fi
      return
    fi
  fi
  jq -r "$2" "$1"
}
# What is longer is read by jq.
told_at_most=20000

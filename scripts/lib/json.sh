# JSON that is written without a jq, which takes longer to start than most steps take: a run has hundreds of such moments, and
# in some of them the service is down. Sourced by run.sh.
# shellcheck shell=bash

# text VALUE: a JSON string.
text() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  # shellcheck disable=SC2016 # jq's own variable
  if [[ $text == *[[:cntrl:]]* ]]; then jq -n --arg text "$1" '$text'; else printf '"%s"' "$text"; fi
}

# json_array WORD...: an array of strings.
json_array() {
  local word texts=()
  for word; do texts+=("$(text "$word")"); done
  joined "${texts[@]}"
}

# joined JSON...: an array of what is JSON already.
joined() {
  local IFS=,
  printf '[%s]' "$*"
}

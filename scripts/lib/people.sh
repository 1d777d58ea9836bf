# What the scripts say to people, on stderr: an account of the steps where somebody looks (a terminal, or --verbose),
# nothing in cron, and two lines on failure. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # script, run_dir and dry_run are run.sh's

verbose=false
[[ -t 2 ]] && verbose=true

# A line of the account.
say() {
  log "$*"
  # Whoever listened may be gone, or his disk be full: no reason to stop half-way.
  if $verbose; then printf '%s: %s\n' "$script" "$*" >&2 || :; fi
}

# A line for the run's log alone.
log() {
  if [[ -n ${run_dir:-} && -d $run_dir ]]; then printf '%(%FT%TZ)T %s\n' -1 "$*" >>"$run_dir/log" || :; fi
}

# The header comment of the script is its help.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# A wrong command line: plain text, exit 2, as the tools do it.
wrong_usage() {
  printf '%s: %s\nhint: %s --help shows what can be said.\n' "$script" "$1" "$script" >&2
  exit 2
}

# The options that every script has; any other word is a wrong command line.
common_option() {
  case $1 in
    --dry-run) dry_run=true ;;
    -v | --verbose) verbose=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) wrong_usage "\`${1%%=*}\` is not understood." ;;
  esac
}

# A command as one would type it; nothing for nothing.
quoted() {
  local text=''
  if (($#)); then printf -v text '%q ' "$@"; fi
  printf '%s' "${text% }"
}

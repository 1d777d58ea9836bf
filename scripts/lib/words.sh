# The command line of a script. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # script, dry_run and the like are run.sh's

# parse WORD...: hands each word to the script's own `option`, with those after it; `taken` is how many of them it was.
parse() {
  local joined
  while (($#)); do
    joined=false taken=1
    if [[ $1 == --*=* ]]; then
      joined=true
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
    fi
    option "$@"
    if $joined && ((taken == 1)); then wrong_usage "\`$1\` takes no value."; fi
    shift "$taken" || wrong_usage "\`$1\` wants a value."
  done
}

# The header comment of the script is its help.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# A wrong command line: plain text, exit 2, as the tools do it.
wrong_usage() {
  printf '%s: %s\nhint: %s --help shows what can be said.\n' "$script" "$1" "$script" >&2
  exit 2
}

# common_option WORD [NEXT]: the options that every script has; any other word is a wrong command line.
common_option() {
  case $1 in
    --status)
      status_asked=true
      run_of "${2-}"
      ;;
    --resume)
      if ! $can_resume; then wrong_usage "$script has nothing to go on with: run it again."; fi
      resuming=true
      run_of "${2-}"
      ;;
    --rerun-installer)
      if ! $can_resume; then wrong_usage "\`--rerun-installer\` is not understood."; fi
      rerun_installer=true
      ;;
    --attached)
      if ! $can_follow; then wrong_usage "\`--attached\` is not understood."; fi
      attached=true
      ;;
    --dry-run) dry_run=true ;;
    -v | --verbose) verbose=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) wrong_usage "\`${1%%=*}\` is not understood." ;;
  esac
}

# The word after --status and --resume may be a run.
run_of() {
  if [[ -n $1 && $1 != -* ]]; then run_asked=$1 taken=2; fi
}

# seconds_of TEXT: a length of time (36h, 30d, 4w) in seconds; `none` is null. False for what is none.
seconds_of() {
  local unit
  if [[ $1 == none ]]; then
    printf null
  elif [[ $1 =~ ^([0-9]{1,9})(s|m|h|d|w)$ ]]; then
    case ${BASH_REMATCH[2]} in
      s) unit=1 ;; m) unit=60 ;; h) unit=3600 ;; d) unit=86400 ;; *) unit=604800 ;;
    esac
    printf '%s' "$((10#${BASH_REMATCH[1]} * unit))"
  else
    return 1
  fi
}

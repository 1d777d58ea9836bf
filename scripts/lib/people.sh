# What the scripts say to people, on stderr: an account of the steps where somebody looks (a terminal, or --verbose),
# nothing in cron, and two lines on failure. Sourced by run.sh.
# shellcheck shell=bash disable=SC2154,SC2034 # script, run_dir and dry_run are run.sh's

verbose=false
if [[ -t 2 || -n ${SVC_FOLLOWED:-} ]]; then verbose=true; fi

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

# may_not_read FOLDER: whether it is there, and closed to whoever asks: then nothing is known of what is in it.
may_not_read() { [[ -d $1 && ! (-r $1 && -x $1) ]]; }
unreadable() { printf 'The folder %s cannot be read.' "$1"; }

# The header comment of the script is its help.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# A wrong command line: plain text, exit 2, as the tools do it.
wrong_usage() {
  printf '%s: %s\nhint: %s --help shows what can be said.\n' "$script" "$1" "$script" >&2
  exit 2
}

# common_option WORD [NEXT]: the options that every script has; any other word is a wrong command line. `taken` is how many
# words it was.
common_option() {
  taken=1
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

# A command as one would type it; nothing for nothing.
quoted() {
  local text=''
  if (($#)); then printf -v text '%q ' "$@"; fi
  printf '%s' "${text% }"
}

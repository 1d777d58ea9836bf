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
  if [[ -n ${run_dir:-} && -d $run_dir ]]; then TZ=UTC printf '%(%FT%TZ)T %s\n' -1 "$*" >>"$run_dir/log" || :; fi
}

# may_not_read FOLDER: whether it is there, and closed to whoever asks: then nothing is known of what is in it.
may_not_read() { [[ -d $1 && ! (-r $1 && -x $1) ]]; }
unreadable() { printf 'The folder %s cannot be read.' "$1"; }

# A command as one would type it; nothing for nothing.
quoted() {
  local text=''
  if (($#)); then printf -v text '%q ' "$@"; fi
  printf '%s' "${text% }"
}

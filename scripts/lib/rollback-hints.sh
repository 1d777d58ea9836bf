# What to type after a rollback that was cut off, or failed. Sourced by svc-rollback.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

# What holds whatever step it was; --status asks it too.
next_hint() {
  if has_begun 'forget-*'; then
    printf 'Type the same again: %s' "$(same_again)"
  # Before the point was found, nothing was staged; and what is gone again is staged anew.
  elif ! has_begun stop && { $ending || has_ended "$run_dir" || ! grep -qs restore_point "$run_dir/notes.json" || copies_gone; }; then
    printf 'Nothing was altered. Type the same again: %s' "$(same_again)"
  else
    printf 'To go on: svc-rollback --resume %s' "${run_dir##*/}"
  fi
}
rerun_hint() { printf 'If it bears being run again: svc-rollback --resume %s --rerun-installer' "${run_dir##*/}"; }

stop_hint() {
  local hint
  hint=$(hint_of "$1")
  if [[ $1 == installer-file ]]; then
    hint="Name it by --installer FILE, or set SVC_INSTALLER_DIR to its folder."
  fi
  if $forgetting; then
    printf '%s' "$hint"
  elif ! $altered; then
    printf 'Nothing was altered. %s' "$hint"
  elif [[ $1 == installer || $1 == uninstall ]]; then
    printf '%s %s' "$hint" "$(rerun_hint)"
  elif [[ $1 == swap-* ]] && ((${#keep[@]} == 0)); then
    printf '%s %s Where it cannot be finished, the commands of result.swap_back bring back what there was.' "$hint" "$(next_hint)"
  elif [[ $1 == hook-* ]]; then
    printf 'The service was started all the same. %s %s %s' "$hint" "$(hook_hint)" "$(next_hint)"
  else
    printf '%s %s' "$hint" "$(next_hint)"
  fi
}

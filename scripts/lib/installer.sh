# Installers: where that of a version lies, and the arguments that are handed on to one. Sourced by svc-upgrade, svc-rollback and
# svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # installer_args and the like are run.sh's and the scripts'

# installer_of VERSION FOLDER: the installer of a version, in SVC_INSTALLER_DIR or else in FOLDER.
installer_of() {
  local folder
  for folder in "${SVC_INSTALLER_DIR:-}" "$2"; do
    if [[ -n $folder && -e $folder/$SVC_NAME-$1.run ]]; then
      printf '%s' "$folder/$SVC_NAME-$1.run"
      return
    fi
  done
  printf '%s' "${SVC_INSTALLER_DIR:-$2}/$SVC_NAME-$1.run"
}

# previous_installer VERSION RUN: the installer of the version before: in SVC_INSTALLER_DIR, where the upgrade RUN had found it
# (perhaps beside the new one), or in this folder.
previous_installer() {
  local installer seen=''
  installer=$(installer_of "$1" .)
  if [[ $installer == ./* || ! -e $installer ]] && run_dir=$2 is_done previous-installer; then
    seen=$(run_dir=$2 value previous-installer .result.path)
    if [[ -e $seen && ${seen##*/} == "$SVC_NAME-$1.run" ]]; then installer=$seen; fi
  fi
  realpath -m -- "$installer"
}

# What stands in a journal instead of an argument is none.
refuse_redacted() {
  local word
  for word in "${installer_args[@]}"; do
    if [[ $word == '<redacted>' ]]; then wrong_usage '--installer-arg wants the argument itself: <redacted> stands for it in the journal.'; fi
  done
}

# ask_for_arguments STEP: the installer is not run without the arguments that it had.
ask_for_arguments() {
  if [[ $1 != installer ]] || ! ${args_lost:-false}; then return; fi
  fail 2 installer_args_missing 'The installer has arguments, which were not kept.' \
    "Say them again: $script --resume $SVC_RUN_ID$(if $rerun_installer; then printf ' --rerun-installer'; fi) --installer-arg ARG"
}

# Installers and the hooks after them (9.1: the internal update that a licence may need). Sourced by svc-upgrade,
# svc-rollback and svc-rehearse.
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

# previous_installer VERSION RUN: the installer of the version before: in SVC_INSTALLER_DIR, in this folder, or where the upgrade RUN
# had found it, perhaps beside the new one.
previous_installer() {
  local installer seen
  installer=$(installer_of "$1" .)
  if [[ ! -e $installer ]] && run_dir=$2 is_done previous-installer; then
    seen=$(run_dir=$2 value previous-installer .result.path)
    if [[ -e $seen && ${seen##*/} == "$SVC_NAME-$1.run" ]]; then installer=$seen; fi
  fi
  realpath -m -- "$installer"
}

# The executable files of post-install, in the order of their names.
hooks() {
  local hook
  for hook in "$SVC_HOOKS_DIR"/post-install/*; do
    if [[ -f $hook && -x $hook ]]; then printf '%s\0' "$hook"; fi
  done
}

# A hook is run as root: it, and the folders that it lies in, are the caller's own and writable by nobody else. Judged
# before anything is altered.
judge_hooks() {
  local hook name path seen=' '
  while IFS= read -r -d '' hook; do
    name=$(step_of_hook "$hook")
    if [[ $seen == *" $name "* ]]; then
      fail 3 hooks_alike "The hook $hook and another one would both be $name in the journal of a run, which tells them apart by letters, digits, - and _." \
        'Rename one of the two.'
    fi
    seen+="$name "
    for path in "$hook" "${hook%/*}" "$SVC_HOOKS_DIR"; do
      if [[ $(stat -Lc %u -- "$path") != "$EUID" || -n $(find -L "$path" -maxdepth 0 -perm /022) ]]; then
        fail 3 hook_unsafe "The hook $hook is not run: others can write $path, or it is not yours." \
          "chown $(id -un) '$path'; chmod go-w '$path'"
      fi
    done
  done < <(hooks)
}

# step_of_hook FILE: a step's name has no dots, since they part it from the endings of its files.
step_of_hook() {
  local name=hook-${1##*/}
  printf '%s' "${name//[!A-Za-z0-9_-]/-}"
}

# run_hooks VERSION: each with SVC_VERSION; false, with its name in `failed_hook`, at the first that fails.
failed_hook=''
run_hooks() {
  local hook name
  while IFS= read -r -d '' hook <&3; do
    name=$(step_of_hook "$hook")
    if ! foreign "$name" env "SVC_VERSION=$1" "$hook"; then
      failed_hook=$name
      return 1
    fi
  done 3< <(hooks)
}
# What helps then, beside what the hook itself says.
hook_hint() { printf 'Mend the hook in %s, or take it away from there.' "$(quoted "$SVC_HOOKS_DIR/post-install")"; }

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

# The hooks after an installer (9.1: the internal update that a licence may need). Sourced by svc-upgrade, svc-rollback and
# svc-rehearse.
# shellcheck shell=bash disable=SC2154,SC2034 # run_dir and the like are run.sh's and the scripts'

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

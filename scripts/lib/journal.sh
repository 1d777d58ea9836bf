# The journal of a run: what a run directory says, and what is read from one. Sourced by run.sh; ../README.md describes the
# run directory.
# shellcheck shell=bash disable=SC2154 # run_dir, script and the like are run.sh's

# The settings of this run, without secrets: files that hold some are named, their content is not. `parent` is the run of
# the script that called this one.
# write_plan FILE
write_plan() {
  local noted json key lines=()
  mapfile -d '' -t noted < <(without_private "${arguments[@]}")
  for key in script SVC_RUN_ID parent started PWD user version_of_tools; do
    as_text "${!key}"
    lines+=("$json")
  done
  if [[ -z $parent ]]; then lines[2]=null; fi
  as_array "${noted[@]}"
  printf '{\n  "script": %s,\n  "run_id": %s,\n  "parent": %s,\n  "started_at": %s,\n  "directory": %s,\n  "user": %s,\n  "tools": %s,\n  "arguments": %s,\n  "settings": %s\n}\n' \
    "${lines[@]}" "$json" "$(settings_object)" >"$1.partial" &&
    mv -- "$1.partial" "$1"
}

# What the scripts and the tools read. Whatever else the environment has is somebody else's, and may be a secret.
known_settings=(SVC_{NAME,INSTALL_DIR,UNIT,DATABASE,DB_USER,CONFIG_FILE,INSTALLER_DIR,RELEASES,UNINSTALL,HOOKS_DIR,ENVIRONMENT_FILE,RUN_ID,TIMEOUT}
  SVC_{REPOSITORY,INDICES,BACKUP_REPO,STATE_DIR,BACKUP_DIR,KEEP_RUNS,KEEP_MAX_AGE,KEEP_MAX_COUNT,KEEP_MIN_COUNT}
  SVC_SEARCH_{URL,USER,PASSWORD_FILE,API_KEY_FILE,BEARER_FILE,CA,CLIENT_CERT,CLIENT_KEY,INSECURE,RATE,UNIT,CONFIG,OS_USER}
  SVC_PG_{UNIT,ADMIN,ADMIN_USER,ADMIN_PASSWORD_FILE} PG{HOST,PORT,USER,DATABASE,PASSFILE})

# settings_object: what the environment says of the service, without the secrets in it.
settings_object() {
  local name setting json members=() there=()
  for name in $(compgen -e); do
    if [[ " ${known_settings[*]} " == *" $name "* ]]; then there+=("$name=${!name}"); fi
  done
  while IFS= read -r -d '' setting; do
    as_text "${setting#*=}"
    members+=("\"${setting%%=*}\": $json")
  done < <(redacted "${there[@]}")
  local IFS=,
  printf '{%s}' "${members[*]}"
}

# redacted WORD...: the words without the secrets in them, each ended by a NUL.
redacted() { printf '%s\0' "$@" | env --ignore-signal=HUP,INT,TERM svc-run redact; }

# log_call: the log says what was typed, and by whom; that of the run that has called this one says so too.
log_call() {
  local noted call
  mapfile -d '' -t noted < <(without_private "${arguments[@]}")
  call=$(quoted "$script" "${noted[@]}")
  log "typed: $call ($user, in $PWD)"
  if [[ -n $parent ]]; then run_dir=$SVC_STATE_DIR/runs/$parent log "run $SVC_RUN_ID: $call"; fi
}

# noted_words PLAN: the words that a run was called with, each ended by a NUL; a file that was named from the folder of then is
# named by its whole path.
noted_words() {
  local word option before='' directory
  directory=$(told "$1" '.directory // ""')
  while IFS= read -r -d '' word; do
    option=''
    if [[ $word == --*=* ]]; then option=${word%%=*}= word=${word#*=}; fi
    case ${option:-$before=} in
      # What is named there is no file.
      --to=* | --last-minor=* | --layout=* | --uninstall=* | --resume=* | --kind=* | --because=* | --forget=* | --max-*=* | --min-count=* | --keep-runs=*) ;;
      *) if [[ -n $word && $word != [-/]* && -n $directory && -e $directory/$word ]]; then word=$directory/$word; fi ;;
    esac
    printf '%s%s\0' "$option" "$word"
    before=$word
  done < <(jq -j '.arguments[] | . + "\u0000"' "$1")
}

# The arguments of a script, without those that are not for documents and logs (what is handed on to an installer), and without the
# secrets in the others.
without_private() {
  local word before='' words=()
  for word; do
    case $before:$word in
      --installer-arg:*) words+=('<redacted>') ;;
      *:--installer-arg=*) words+=('--installer-arg=<redacted>') ;;
      *) words+=("$word") ;;
    esac
    before=$word
  done
  if ((${#words[@]})); then redacted "${words[@]}"; fi
}

# show WORD...: `shown` is the words of a command, likewise. Only whole words are taken for such an argument, which may be as short
# as `1`.
show() {
  local word private
  shown=()
  for word; do
    for private in "${private_args[@]}"; do
      case $word in
        "$private") word='<redacted>' ;;
        "--installer-arg=$private") word='--installer-arg=<redacted>' ;;
      esac
    done
    shown+=("$word")
  done
  # The words of what uninstalls are the operator's; those of the tools hold none.
  if [[ $1 == bash ]]; then mapfile -d '' -t shown < <(redacted "${shown[@]}"); fi
}

# keep_journal: all that is noted survives the end of the host too, before what follows from it begins. Asked once more, since a tool
# that has outlived its script may have given a file another name meanwhile.
keep_journal() { $dry_run || sync_journal || sync_journal; }
sync_journal() { sync -- "$run_dir"/* "$run_dir" "${run_dir%/*}" 2>/dev/null; }

# has_begun STEP: whether it was ever started.
has_begun() {
  local found
  # shellcheck disable=SC2206 # a step may be a pattern, `hook-*`
  found=("$run_dir"/[0-9][0-9]-$1.started)
  ((${#found[@]}))
}

# snapshot_name RUN KIND: what a snapshot of a run is named.
snapshot_name() { printf 'snapshot_%s_%s_%s_%s' "$SVC_NAME" "${1:0:8}" "$1" "$2"; }

# steps_of_run: `steps_words`, by which journal.jq knows the steps of the run in run_dir, as often as each was started: NN-<step> is
# the first time, NN-<step>.2 the second.
steps_of_run() {
  local first files times begun=() found=() status file fd
  steps_words=(-L "$lib")
  for first in "$run_dir"/[0-9][0-9]-*.started; do
    first=${first%.started}
    if [[ $first =~ \.[0-9]+$ ]]; then continue; fi
    found+=("$first")
    for ((times = 2; ; times++)); do
      [[ -e $first.$times.started ]] || break
      found+=("$first.$times")
    done
  done
  if ((${#found[@]} == 0)); then return; fi
  for files in "${found[@]}"; do
    file=$files.json
    # Of a tool that has outlived its script. Opened here, since its script may be there after all, and rename it just now.
    if [[ ! -e $file ]] && { exec {fd}<"$file.partial"; } 2>/dev/null && is_whole "/dev/fd/$fd"; then file=/dev/fd/$fd; fi
    if [[ -e $file ]]; then steps_words+=(--rawfile "${files##*/}" "$file"); fi
  done
  mapfile -t begun < <(stat -c %.3Y -- "${found[@]/%/.started}")
  steps_words+=(--args --)
  for files in "${found[@]}"; do
    status=''
    if [[ -e $files.rc ]]; then status=$(<"$files.rc"); fi
    steps_words+=("${files##*/}" "$(<"$files.started")" "${begun[0]}" "$status")
    begun=("${begun[@]:1}")
  done
}

# times_begun: how often the run was begun: once, and once more for each time that it was gone on with.
times_begun() {
  local found=("$run_dir"/plan{,.[0-9],.[0-9][0-9]}.json)
  printf '%s' "${#found[@]}"
}

# times_file NAME [RUN_DIR]: the file of the newest time, NAME.json or NAME.2.json.
times_file() {
  local run_dir=${2:-$run_dir} times
  times=$(times_begun)
  if ((times > 1)); then printf '%s/%s.%s.json' "$run_dir" "$1" "$times"; else printf '%s/%s.json' "$run_dir" "$1"; fi
}

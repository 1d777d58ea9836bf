# Settings of the scripts: the environment wins over /etc/svc-tools/environment, which wins over the defaults.
# Sourced by run.sh.
# shellcheck shell=bash

# Reads KEY=value lines; nothing in the file is ever executed. A value may stand in one pair of quotes.
read_environment_file() {
  local file=$1 line key value
  [[ -e $file ]] || return 0
  # Whoever asks for the help needs none.
  if [[ ! -r $file && ${*:2} =~ ^(-h|--help)$ ]]; then return; fi
  if [[ ! -r $file ]]; then
    printf '%s: The settings in %s cannot be read.\nhint: Run the script as root.\n' "$script" "$file" >&2
    exit 3
  fi
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line =~ ^[[:space:]]*(export[[:space:]]+)?([A-Z_][A-Z0-9_]*)=(.*)$ ]] || continue
    key=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
    [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]] && value=${BASH_REMATCH[1]}
    [[ -n ${!key:-} ]] || export "$key=$value"
  done <"$file"
}

# What the caller had, for the commands that are not ours (an installer must not lay files that only root can read).
caller_umask=$(umask) caller_locale=${LC_ALL-}
umask 077
export LC_ALL=C.UTF-8

# Cron's PATH lacks the folders that the tools are installed to; bash's own, without one in the environment, has a `.`.
PATH=:$PATH:
PATH=${PATH//:.:/:}
for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
  [[ $PATH == *:$folder:* ]] || PATH+=$folder:
done
PATH=${PATH#:} PATH=${PATH%:}
export PATH
unset folder

read_environment_file "${SVC_ENVIRONMENT_FILE:-/etc/svc-tools/environment}" "$@"

# default KEY VALUE: what a setting is where nobody says. `defaulted` are those.
defaulted=' '
default() {
  if [[ -z ${!1:-} ]]; then
    printf -v "$1" '%s' "$2"
    defaulted+="$1 "
  fi
  export "${1?}"
}
default SVC_NAME svc
default SVC_INSTALL_DIR "/opt/$SVC_NAME"
default SVC_UNIT "$SVC_NAME.service"
default SVC_DATABASE "${SVC_NAME}_db"
default SVC_DB_USER "$SVC_NAME"
default SVC_REPOSITORY my_backup
default SVC_STATE_DIR /var/lib/svc-tools
default SVC_BACKUP_DIR "/var/backups/$SVC_NAME"
default SVC_HOOKS_DIR /etc/svc-tools/hooks.d
# Absolute, since the rollback may be started from another folder than the upgrade was.
SVC_STATE_DIR=$(realpath -m -- "$SVC_STATE_DIR")
SVC_BACKUP_DIR=$(realpath -m -- "$SVC_BACKUP_DIR")

# takes_brake_off: where the search database is the service's alone, nobody else is there to be protected by its brake while the
# service is stopped, or about to be. A rate that is set holds.
takes_brake_off() { [[ ${SVC_INDICES:-*} == '*' && -z ${SVC_SEARCH_RATE:-} ]]; }

# Settings of the scripts: the environment wins over /etc/svc-tools/environment, which wins over the defaults.
# Sourced by run.sh.
# shellcheck shell=bash

# Reads KEY=value lines; nothing in the file is ever executed. A value may stand in one pair of quotes.
read_environment_file() {
  local file=$1 line key value
  [[ -r $file ]] || return 0
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line =~ ^[[:space:]]*(export[[:space:]]+)?([A-Z_][A-Z0-9_]*)=(.*)$ ]] || continue
    key=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
    [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]] && value=${BASH_REMATCH[1]}
    [[ -v $key ]] || export "$key=$value"
  done <"$file"
}

PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH LC_ALL=C.UTF-8
umask 077
read_environment_file "${SVC_ENVIRONMENT_FILE:-/etc/svc-tools/environment}"

SVC_NAME=${SVC_NAME:-svc}
SVC_INSTALL_DIR=${SVC_INSTALL_DIR:-/opt/$SVC_NAME}
SVC_UNIT=${SVC_UNIT:-$SVC_NAME.service}
SVC_DATABASE=${SVC_DATABASE:-${SVC_NAME}_db}
SVC_DB_USER=${SVC_DB_USER:-$SVC_NAME}
SVC_REPOSITORY=${SVC_REPOSITORY:-my_backup}
SVC_STATE_DIR=${SVC_STATE_DIR:-/var/lib/svc-tools}
SVC_BACKUP_DIR=${SVC_BACKUP_DIR:-/var/backups/$SVC_NAME}
SVC_HOOKS_DIR=${SVC_HOOKS_DIR:-/etc/svc-tools/hooks.d}
# The dump is made as the database's own user, as the procedure has it (4.2), unless libpq's settings say another.
PGUSER=${PGUSER:-$SVC_DB_USER}
export PGUSER
export SVC_NAME SVC_INSTALL_DIR SVC_UNIT SVC_DATABASE SVC_DB_USER SVC_REPOSITORY SVC_STATE_DIR SVC_BACKUP_DIR SVC_HOOKS_DIR

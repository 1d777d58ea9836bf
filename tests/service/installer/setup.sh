#!/bin/bash
# Installs the release whose files lie beside this script. Never prompts, needs no terminal.
#
# Environment: SVC_NAME (svc), SVC_INSTALL_DIR (/opt/$SVC_NAME), PGHOST, PGPORT, PGPASSFILE,
#   SVC_SEARCH_URL, SVC_UNIT_SCOPE (system or user), SVC_UNIT_DIR, SVC_INTERVAL_MS (250)
# Exit status: 0 installed; 1 failed, the content may be half migrated; 2 wrong use; 3 refused, nothing changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# VERSION, CONFIGURATION (path within the installation, `svc` standing for the name), FORMER_LAYOUT (folder to remove), MIGRATE_FLAGS; and
# what a product of another name is called
# shellcheck source=/dev/null
. "$here/release.env"

export SVC_NAME=${SVC_NAME:-svc}
export SVC_INSTALL_DIR=${SVC_INSTALL_DIR:-/opt/$SVC_NAME}
export SVC_UNIT_SCOPE=${SVC_UNIT_SCOPE:-system}
if [[ -z ${PGPASSFILE:-} && -e ${HOME:-}/.pgpass ]]; then
    export PGPASSFILE=$HOME/.pgpass
fi
export SAMPLE_UNIT=${SAMPLE_UNIT:-$SVC_NAME} SAMPLE_DATABASE=${SAMPLE_DATABASE:-${SVC_NAME}_db} SAMPLE_ROLE=${SAMPLE_ROLE:-$SVC_NAME}

# shellcheck source-path=SCRIPTDIR source=unit.sh
. "$here/unit.sh"

end() {
    echo "svc-$VERSION.run: $2" >&2
    exit "$1"
}

check_settings() {
    [[ $# -eq 0 ]] || end 2 "no arguments are known, found: $*"
    [[ $SVC_NAME =~ ^[a-z][a-z0-9_-]*$ ]] || end 2 "SVC_NAME must be lower-case letters, digits, - and _."
    [[ $SVC_INSTALL_DIR == /* ]] || end 2 "SVC_INSTALL_DIR must be an absolute path."
    [[ $SVC_UNIT_SCOPE == system || $SVC_UNIT_SCOPE == user ]] || end 2 "SVC_UNIT_SCOPE is system or user."
    if unit_is_active; then
        end 3 "The unit $SAMPLE_UNIT.service is active. Stop it first."
    fi
}

# lay SOURCE DESTINATION MODE: the complete file or none.
lay() {
    mkdir -p "$(dirname "$2")"
    install -m "$3" "$1" "$2.partial"
    mv -f "$2.partial" "$2"
}

# quoted_for_unit TEXT: as systemd wants a word of ExecStart. A $ is for the caller to double: in the path of
# the program it stands for itself, in an argument it does not.
quoted_for_unit() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//%/%%}"
}

# as_value TEXT: as the configuration's format wants it between the quotes of the template.
as_value() {
    if [[ $CONFIGURATION == *.yaml ]]; then
        printf '%s' "${1//\'/\'\'}"
    else
        printf '%s' "$1"
    fi
}

# fill TEMPLATE DESTINATION MODE NAME=VALUE...: puts the values where the template has @NAME@.
fill() {
    local template=$1 destination=$2 mode=$3 text pair
    shift 3
    text=$(<"$template")
    for pair in "$@"; do
        text=${text//"@${pair%%=*}@"/"${pair#*=}"}
    done
    printf '%s\n' "$text" >"$here/filled"
    lay "$here/filled" "$destination" "$mode"
}

lay_program() {
    lay "$here/svc-sample" "$SVC_INSTALL_DIR/libexec/svc-sample" 755
    cp -r "$here/shapes" "$SVC_INSTALL_DIR/libexec/"
    lay "$here/uninstall.sh" "$SVC_INSTALL_DIR/bin/svc-uninstall" 755
    lay "$here/unit.sh" "$SVC_INSTALL_DIR/libexec/unit.sh" 644
    {
        printf 'SVC_NAME=%q\n' "$SVC_NAME"
        printf 'SAMPLE_UNIT=%q\n' "$SAMPLE_UNIT"
        printf 'SAMPLE_DATABASE=%q\n' "$SAMPLE_DATABASE"
        printf 'SAMPLE_ROLE=%q\n' "$SAMPLE_ROLE"
        printf 'SVC_UNIT_SCOPE=%q\n' "$SVC_UNIT_SCOPE"
        printf 'SVC_UNIT_DIR=%q\n' "$(unit_folder)"
    } >"$here/installation.env"
    lay "$here/installation.env" "$SVC_INSTALL_DIR/libexec/installation.env" 644
}

lay_unit() {
    local wanted_by=multi-user.target
    [[ $SVC_UNIT_SCOPE == system ]] || wanted_by=default.target
    fill "$here/svc.service.in" "$(unit_folder)/$SAMPLE_UNIT.service" 644 \
        "NAME=$SVC_NAME" "VERSION=$VERSION" "WANTED_BY=$wanted_by" \
        "PROGRAM=$(quoted_for_unit "$SVC_INSTALL_DIR/libexec/svc-sample")" \
        "INSTALL_DIR=$(quoted_for_unit "${SVC_INSTALL_DIR//\$/\$\$}")"
    unit_reload
}

# The default, or the default beside the operator's file. A layout before is not read, only removed.
lay_configuration() {
    local file=$SVC_INSTALL_DIR/${CONFIGURATION//svc/$SVC_NAME}
    [[ ! -e $file ]] || file+=.default
    fill "$here/$(basename "$CONFIGURATION").in" "$file" 640 \
        "NAME=$SVC_NAME" \
        "PG_HOST=$(as_value "${PGHOST:-localhost}")" "PG_PORT=${PGPORT:-5432}" \
        "PG_PASSWORD_FILE=$(as_value "${PGPASSFILE:-}")" \
        "SEARCH_URL=$(as_value "${SVC_SEARCH_URL:-http://localhost:9200}")" \
        "INTERVAL_MS=${SVC_INTERVAL_MS:-250}"
    rm -rf "${SVC_INSTALL_DIR:?}/${FORMER_LAYOUT:?}"
}

write_marker() {
    echo "$VERSION" >"$here/current-version"
    lay "$here/current-version" "$SVC_INSTALL_DIR/current-version" 644
}

main() {
    check_settings "$@"
    "$here/svc-sample" check --to "$VERSION"
    echo "Installing $VERSION in $SVC_INSTALL_DIR."
    lay_program
    lay_unit
    lay_configuration
    # MIGRATE_FLAGS is empty but in the release that is meant to fail.
    "$SVC_INSTALL_DIR/libexec/svc-sample" migrate --to "$VERSION" "${MIGRATE_FLAGS[@]}"
    write_marker
    echo "Version $VERSION is installed; start it with the unit $SAMPLE_UNIT.service."
}

main "$@"

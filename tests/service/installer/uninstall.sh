#!/bin/bash
# Removes the service: its unit, program and configuration. The version marker and both databases stay.
#
# It stops the unit first. Exit status: 0 removed; 1 failed; 2 wrong use.
set -euo pipefail

main() {
    [[ $# -eq 0 ]] || {
        echo "svc-uninstall: no arguments are known, found: $*" >&2
        exit 2
    }
    local home
    home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    # SAMPLE_UNIT, SVC_UNIT_SCOPE, SVC_UNIT_DIR as they were at the installation
    # shellcheck source=/dev/null
    . "$home/libexec/installation.env"
    # shellcheck source-path=SCRIPTDIR source=unit.sh
    . "$home/libexec/unit.sh"

    if unit_is_active; then
        unit_manager stop "$SAMPLE_UNIT.service"
    fi
    rm -f "$(unit_folder)/$SAMPLE_UNIT.service"
    unit_reload
    rm -rf "${home:?}"/{config,conf,etc,libexec,bin}
    echo "The service is removed from $home; its version marker and its databases are as they were."
    # bash reads a script as it goes: this one is no longer there
    exit 0
}

main "$@"

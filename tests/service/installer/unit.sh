# Where the unit lives and how its manager is asked; sourced by the installer and the uninstaller.
# Expects SAMPLE_UNIT and SVC_UNIT_SCOPE (system or user). SVC_UNIT_DIR overrides the folder.
# shellcheck shell=bash

# The manager's command for the scope.
unit_manager() {
    if [[ $SVC_UNIT_SCOPE == user ]]; then
        systemctl --user "$@"
    else
        systemctl "$@"
    fi
}

# The folder of unit files for the scope.
unit_folder() {
    if [[ -n ${SVC_UNIT_DIR:-} ]]; then
        printf '%s\n' "$SVC_UNIT_DIR"
    elif [[ $SVC_UNIT_SCOPE == user ]]; then
        printf '%s\n' "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"
    else
        printf '%s\n' /etc/systemd/system
    fi
}

# Is the unit running, or about to? Where no manager runs, nothing does.
unit_is_active() {
    case $(unit_manager is-active "$SAMPLE_UNIT.service" 2>/dev/null) in
        active | activating | reloading | deactivating) return 0 ;;
        *) return 1 ;;
    esac
}

# Makes the manager read unit files again; a host where none runs is no failure.
unit_reload() {
    if ! unit_manager daemon-reload 2>/dev/null; then
        echo "No systemd manager answers for the scope $SVC_UNIT_SCOPE; it will read the unit when it starts." >&2
    fi
}

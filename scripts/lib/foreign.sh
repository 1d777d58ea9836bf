#!/usr/bin/env bash
# Runs a command that has no document of its own (an installer, an uninstaller, a hook), in a session of its own and
# under the lock that run.sh took for it: whatever becomes of the script that started it, the output goes into OUT, and
# the exit status appears whole in RC when the command has ended.
#
# usage: foreign.sh RC OUT COMMAND [ARGUMENT...]

set -uo pipefail
rc=$1 out=$2
shift 2
# A handler, not an ignored signal: the command must not inherit it.
trap : HUP INT TERM
"$@" </dev/null >>"$out" 2>&1
status=$?
printf '%s\n' "$status" >"$rc.partial" && sync "$rc.partial" && mv -- "$rc.partial" "$rc"
exit "$status"

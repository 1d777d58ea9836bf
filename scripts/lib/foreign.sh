#!/usr/bin/env bash
# Runs a command that has no document of its own (an installer, an uninstaller, a hook), in a session of its own and
# under the lock that run.sh took for it: whatever becomes of the script that started it, the output goes into OUT, and
# the exit status appears whole in RC when the command has ended.
#
# usage: foreign.sh RC OUT INPUT COMMAND [ARGUMENT...]
#
# INPUT is what it reads from: /dev/null, or the terminal, on which it is shown then too.

set -uo pipefail
rc=$1 out=$2 input=$3
shift 3
# The script was killed, and gone on with, before this came to run.
[[ ! -e ${rc%.rc}.unwanted ]] || exit 8
# The room for its status and for what it says is taken beforehand: meanwhile the disk may become full, and a command that cannot
# say what it does may fail of that.
room=1048576
printf '000\n' >"$rc.partial" && : >"$out.partial" || exit 8
fallocate --keep-size --length "$room" -- "$out.partial" 2>/dev/null ||
  # Not every file system can.
  (($(df --output=avail -B1 -- "$out.partial" | tail -n 1) >= room)) || exit 8
mv -- "$out.partial" "$out" || exit 8
# A handler, not an ignored signal: the command must not inherit it.
trap : HUP INT TERM
if [[ $input == /dev/null ]]; then
  "$@" </dev/null >>"$out" 2>&1
  status=$?
else
  # shellcheck disable=SC2094 # it is a terminal
  "$@" <"$input" 2>&1 | tee -a -- "$out" >"$input"
  status=${PIPESTATUS[0]}
fi
printf '%s\n' "$status" 1<>"$rc.partial" && truncate -s $((${#status} + 1)) -- "$rc.partial" &&
  sync -- "$rc.partial" && mv -- "$rc.partial" "$rc"
# What it did not need is given back.
truncate --size=+0 -- "$out"
exit "$status"

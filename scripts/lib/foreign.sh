#!/usr/bin/env bash
# Runs a command that has no document of its own (an installer, an uninstaller, a hook) under the lock of such commands:
# whatever becomes of the script that started it, the output goes into OUT, and the exit status appears whole in RC when
# the command has ended. 8 where it was not begun.
#
# usage: foreign.sh LOCK RC OUT INPUT PRIVATE COMMAND [ARGUMENT...]
#
# INPUT is what it reads from: /dev/null, or the terminal, on which it is shown then too. The last PRIVATE of its words are
# taken out of what it has said.

set -uo pipefail
# A handler, not an ignored signal, which the command would inherit. On a terminal, a signal for all that is on it would free
# the lock while a command that minds none is at work.
trap : HUP INT TERM
lock=$1 rc=$2 out=$3 input=$4 private=$5
shift 5
# What the command leaves running, as a service, does not get the lock.
exec {held}>>"$lock" && flock -w 10 "$held" || exit 8
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
# That it began is known after the end of the host too.
sync -- "${out%/*}" 2>/dev/null || :
if [[ $input == /dev/null ]]; then
  "$@" </dev/null >>"$out" 2>&1 {held}>&-
  status=$?
else
  # shellcheck disable=SC2094 # it is a terminal
  "$@" <"$input" 2>&1 {held}>&- | env --ignore-signal=HUP,INT,TERM tee -a -- "$out" >"$input" {held}>&-
  status=${PIPESTATUS[0]}
fi
if ((private)) && ! printf '%s\0' "${@: -private}" |
  env --ignore-signal=HUP,INT,TERM svc-run redact --file "$out"; then
  printf 'What it said was taken away: the arguments that are not to be written could not be found in it.\n' >"$out"
fi
printf '%s\n' "$status" 1<>"$rc.partial" && truncate -s $((${#status} + 1)) -- "$rc.partial" &&
  sync -- "$rc.partial" && mv -- "$rc.partial" "$rc" && sync -- "${rc%/*}"
# What it did not need is given back.
truncate --size=+0 -- "$out"
exit "$status"

# What every script begins with: strict mode, its command line, and the run that svc-run keeps for it.
# A step is one call of a tool. svc-run starts it, records it, keeps its document (`@NAME` in later arguments) and passes signals on. The
# script ends at the first step that fails; svc-run then runs what `undo` has registered, prints the last document and sets the status.
# shellcheck shell=bash disable=SC2034 # the scripts' own

set -euo pipefail
shopt -s inherit_errexit nullglob
script=$(basename -- "$0") lib=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
export PATH=$PATH:${lib%/*}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
arguments=("$@") common=() passed=() flags=() named=() options=() table=() operands=0 hooks=''

check() { svc-run step --reads "$@"; }         # reads only; --dry-run makes it too
preflight() { svc-run step --preflight "$@"; } # likewise; what fails is told by `svc-run verdict`
step() { svc-run step "$@"; }                  # has an effect
external() { svc-run step --external "$@"; }   # an installer, an uninstaller, a hook: no document of its own
start() { svc-run start "$@"; }                # in parallel to what follows, until `svc-run wait`
undo() { svc-run undo "$@"; } # what the run does if it fails, up to `svc-run commit` or, registered behind it, after it
value() { svc-run value "$@"; }
is_done() { svc-run is-done "$@"; }
dry() { [[ -n ${SVC_DRY_RUN-} ]]; }

# parse ARGUMENT...: by the script's `options`. A flag (--clone) is `given --clone`, and clone=(--clone); one with a value (--to=) is
# to=(--to VALUE), the last counts; one that may be repeated (--kind+) is kind=(VALUE...). At most `operands` others go into `named`.
parse() {
  local known='' joined name
  while (($#)); do
    taken=1 joined=false
    [[ -n $1 ]] || usage_error 'An argument is empty.'
    if [[ $1 == --*=* ]]; then joined=true && set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
    [[ $1 =~ ^(--(resume|rerun-installer|installer|installer-arg|uninstall|attached|verbose|json|dry-run)|-v)$ ]] || known=${known:-$1}
    name=${1#--}
    case " ${options[*]} " in
      *" $1 "* | *" $1= "* | *" $1+ "*) passed+=("$1") && local -n values=${name//-/_} ;;&
      *" $1 "*) values=("$1") flags+=("$1") ;;
      *" $1= "*) values=("$1" "${2-}") taken=2 ;;
      *" $1+ "*) values+=("${2-}") taken=2 ;;
      *) common_argument "$@" ;;
    esac
    if ! $joined && ((taken == 2)) && is_option "${2-}"; then usage_error "\`$1\` needs a value: write $1=$2 if \`$2\` is meant."; fi
    if $joined && ((taken == 1)); then usage_error "\`$1\` takes no value."; fi
    shift "$taken" 2>/dev/null || usage_error "\`$1\` needs a value."
  done
  if [[ -n $known ]] && resumes; then usage_error "--resume takes no \`$known\`: the run knows it."; fi
  ! given --uninstall || ! given --no-uninstall || usage_error 'Either --uninstall or --no-uninstall.'
  ((${#named[@]} <= operands)) || usage_error "\`${named[operands]}\` is one argument too many."
  if [[ -t 1 && " ${common[*]} " != *' --json '* ]]; then table=(--table); fi # of what svc-point lists
}
is_option() { # a value that was forgotten must not swallow one
  [[ $1 == --?* && " ${options[*]//[=+]/} --status --resume --rerun-installer --attached --dry-run --json --verbose --help " == *" ${1%%=*} "* ]]
}
given() { [[ " ${passed[*]} " == *" $1 "* ]]; }
resumes() { [[ -z ${SVC_RESUMED-} && " ${common[*]}" == *' --resume'* ]]; } # the call that resumes a run, not yet that run itself
common_argument() {
  case $1 in
    --status) exec svc-run status --script "$script" "${@:2}" ;;
    --resume) if [[ ${2-} =~ ^([^-].*/)?[0-9]{8}t[0-9]{6}z- ]]; then common+=("--resume=$2") taken=2; else common+=("$1"); fi ;;
    --rerun-installer | --attached | --dry-run | --json | -v | --verbose) common+=("$1") ;;
    -h | --help)
      sed -n '2,/^$/s/^# \{0,1\}//p' "$0" || exit 1
      printf '%s\n' '' '  --status [RUN]         the state of a run, and what to run next' \
        '  --dry-run, -v, --json  only make the checks and print the commands; print each step; print the document' '' \
        'Exit status: 0 done, 2 usage, 3 refused, 4 not found, 5 unavailable, 6 timeout, 7 invalid, 8 another run holds the lock,' \
        '9 read the warnings, 128+n ended by a signal, 1 anything else. Settings: /etc/svc-tools/environment.'
      exit 0
      ;;
    -*) usage_error "There is no option \`$1\`." ;;
    *) named+=("$1") ;;
  esac
}
usage_error() {
  [[ ${SVC_SUPERVISOR-} != "$PPID" ]] || svc-run fail -- 2 options_invalid "$1" $'Its options:\n  '"$script --help"
  printf '%s: %s\nhint: %s --help\n' "$script" "$1" "$script" >&2 && exit 2
}
in_run() { # OPTION OF svc-run supervise...: continues as a child of svc-run, which holds the lock and owns the journal and the signals
  [[ ${SVC_SUPERVISOR-} == "$PPID" ]] || exec svc-run supervise "$@" "${common[@]}" -- "$(readlink -f -- "$0")" "${arguments[@]}"
}
run_hooks() { # VERSION [OPTION OF svc-run step...]: those in $hooks, in their order
  local hook
  while IFS= read -r hook; do
    [[ -z $hook ]] || external "${@:2}" "${hook%% *}" -- env "SVC_VERSION=$1" "${hook#* }"
  done <<<"$hooks"
}

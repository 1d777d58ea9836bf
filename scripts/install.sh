#!/usr/bin/env bash
# install.sh - install svc-tools: programs, scripts, units, man pages, completions
#
# usage: install.sh [--prefix DIR] [--destdir DIR] [--bin DIR]
#
#   --prefix DIR    where they are used: /usr/local (the default) or /usr, where systemd, sudo and cron look for them
#   --destdir DIR   put everything below this directory instead of / (for packages)
#   --bin DIR       where the built programs are (default: bin or target/release beside this directory)
#
# Example: sudo ./install.sh --prefix /usr/local
# Settings that are there stay as they are. Nothing is started or enabled: `systemctl enable --now svc-nightly.timer svc-rehearse.timer`
# does that.

set -euo pipefail
umask 022

prefix=/usr/local destdir='' bin=''
while (($#)); do
  case $1 in
    --prefix) prefix=$2 ;;
    --destdir) destdir=${2:+$(realpath -m -- "$2")} ;;
    --bin) bin=$(realpath -m -- "$2") ;;
    -h | --help)
      sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      printf 'install.sh: There is no option %s.\nhint: install.sh --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift 2
done
if [[ $prefix != /usr && $prefix != /usr/local ]]; then
  printf 'install.sh: systemd, sudo and cron do not look for programs in %s.\nhint: install.sh --prefix /usr/local\n' "$prefix" >&2
  exit 2
fi
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
if [[ -z $bin ]]; then
  bin=$root/bin
  [[ -d $bin ]] || bin=$root/target/release
fi
programs=(svc-snap svc-pgdump svc-pgrestore svc-version svc-unit svc-confsave svc-run svc-point)
scripts=(svc-setup-snapshots svc-backup svc-nightly svc-offsite svc-upgrade svc-rollback svc-rehearse)
to=$destdir$prefix share=$destdir$prefix/share

# copy MODE DIRECTORY FILE...: each file, as it is for this prefix.
copy() {
  local mode=$1 directory=$2 file
  mkdir -p "$directory"
  for file in "${@:3}"; do
    sed "s|/usr/sbin/svc-|$prefix/sbin/svc-|g; s|/usr/bin/svc-|$prefix/bin/svc-|g; s|/usr/lib/svc-tools|$prefix/lib/svc-tools|g" "$file" >"$directory/${file##*/}.new"
    chmod "$mode" "$directory/${file##*/}.new"
    mv -f "$directory/${file##*/}.new" "$directory/${file##*/}"
  done
}

# The man page of a script, from its help.
page_of() {
  printf '.TH %s 8 "" svc-tools\n.SH NAME\n' "${1##*/}"
  bash "$1" --help | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/; 1s/\\- /\\- /; 1a .SH SYNOPSIS AND OPTIONS\n.nf'
}

# A run may be in progress: each program is the old one or the new one, whole.
mkdir -p "$to/bin"
for program in "${programs[@]}"; do
  install -m 755 -- "$bin/$program" "$to/bin/$program.new"
  mv -f -- "$to/bin/$program.new" "$to/bin/$program"
done
copy 755 "$to/lib/svc-tools" "${scripts[@]/#/$root/scripts/}"
copy 644 "$to/lib/svc-tools/lib" "$root"/scripts/lib/*.sh
mkdir -p "$to/sbin"
for script in "${scripts[@]}"; do ln -sfn "../lib/svc-tools/$script" "$to/sbin/$script"; done
copy 644 "$to/lib/systemd/system" "$root"/scripts/systemd/svc-*
for unit in svc-nightly svc-rehearse svc-recover; do copy 644 "$to/lib/systemd/system/$unit.service.d" "$root/scripts/systemd/sandbox.conf"; done

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
for program in "${programs[@]}"; do env -i "$to/bin/$program" generate-pages "$pages"; done
mkdir -p "$share"/man/man{1,8} "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
for page in "$pages"/man1/*; do gzip -9n <"$page" >"$share/man/man1/${page##*/}.gz"; done
for script in "${scripts[@]}"; do page_of "$to/lib/svc-tools/$script" | gzip -9n >"$share/man/man8/$script.8.gz"; done
cp "$pages"/bash/* "$share/bash-completion/completions/"
cp "$pages"/zsh/* "$share/zsh/site-functions/"
cp "$pages"/fish/* "$share/fish/vendor_completions.d/"

# The pages with their directories, so that their links lead somewhere.
cd -- "$root"
for file in README.md CONTRIBUTING.md LICENSE SECURITY.md tests/README.md svc-snap/roles/* docs/*.md docs/benchmarks/*.md scripts/README.md scripts/examples/* svc-*/*.md schema/*; do
  copy 644 "$share/doc/svc-tools/${file%"${file##*/}"}" "$file"
done

settings=$destdir/etc/svc-tools/environment
if [[ ! -e $settings ]]; then
  mkdir -p "${settings%/*}"
  # Not those of the host that makes a package.
  env -i SVC_ENVIRONMENT_FILE=/dev/null "$to/bin/svc-run" setting >"$settings"
  chmod 644 "$settings"
fi

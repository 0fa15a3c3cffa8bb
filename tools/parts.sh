#!/bin/sh
# Installs the Debian packages that integration tests and benchmarks run against, as root; otherwise lists what is missing.
# Tests that need a missing part are skipped with the package's name, or fail where CI=true (tests/parts.py).
set -u
packages="aardvark-dns chromium-headless-shell crun curl e2fsprogs fish fonts-dejavu-core gcc ibsim-utils infiniband-diags iproute2 iptables libc6-dev mandoc mariadb-server mount munge netavark opensm openssl podman prometheus prometheus-alertmanager prometheus-node-exporter rpm shellcheck slurm-client slurmctld slurmd slurmdbd systemd victoria-metrics zsh"

# shellcheck disable=SC2086 # a list of words
installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status}\n' $packages 2>/dev/null | sed -n 's/=installed$//p' | tr '\n' ' ')"
missing=""
for package in $packages; do
  case "$installed" in *" $package "*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "WARNING: tests of these parts will be skipped; as root: apt-get install --no-install-recommends$missing" >&2
  exit 0
fi

# The packages bring services that would listen on this machine; Debian asks this file before it starts any.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
echo "installing Debian packages for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
if apt-get update -qq && apt-get install -qq -y --no-install-recommends $missing >/dev/null; then exit 0; fi
echo "WARNING: apt-get failed; tests of these parts will be skipped:$missing" >&2
[ "${CI:-}" != true ]

#!/bin/sh
# Fetches what Debian's development release has of the servers we are tested against into .parts/: the system stays as it is.
# The machine's own release has the oldest versions we support. Which version comes is said, none is pinned: that release moves.
# Without it the tests of the newer versions are skipped, and say so (tests/parts.py). Remove .parts to fetch them again.
set -u
packages="prometheus promtool prometheus-alertmanager docker-compose kubectl"
release=sid

cd "$(dirname "$0")/.." && mkdir -p .parts && cd .parts || exit 1
missing=""
for package in $packages; do
  [ -d "$package" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

give_up() {
  echo "WARNING: $1; tests with newer versions will be skipped:$missing" >&2
  exit 0
}

command -v apt-get >/dev/null || give_up "no apt-get here"
# shellcheck disable=SC2016 # $(SITE) is apt's own: the mirror that this machine uses
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' 'Label: Debian' | head -1)
[ -n "$mirror" ] || give_up "apt-get knows no mirror: run apt-get update first"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$scratch/sources.list"
private_apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$scratch/lists" -o Dir::Cache="$scratch/cache" -o APT::Sandbox::User=root "$@"
}

private_apt update || give_up "the mirror has no Debian $release"
for package in $missing; do
  (cd "$scratch" && private_apt download "$package/$release" >/dev/null) || give_up "Debian $release has no $package"
  mkdir "$scratch/$package"
  dpkg -x "$scratch/$package"_*.deb "$scratch/$package" || give_up "$package cannot be unpacked"
  mv "$scratch/$package" . # whole or not at all
  echo "fetched $(basename "$scratch/$package"_*.deb .deb) into .parts"
done

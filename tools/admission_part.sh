#!/bin/sh
# Builds Kubernetes' own ValidatingAdmissionPolicy plugin (tests/deploy/admission/main.go) from the Go packages of Debian's development
# release into .parts/admission, for tests/deploy/test_admission.py: four minutes of CPU and 1 GB, so `make parts` leaves it out.
# Without it that test is skipped; the same writes are tried with another implementation of CEL, always.
set -eu
release=sid
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2016 # $(SITE) is apt's own: the mirror that this machine uses
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' 'Label: Debian' | head -1)
[ -n "$mirror" ] || { echo "apt-get knows no mirror: run apt-get update first" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$work/sources.list"
private_apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
private_apt update
packages=$(private_apt -s --no-install-recommends install golang-go golang-k8s-apiserver-dev |
  sed -n 's/^Inst \(golang-[^ ]*\) .*/\1/p')
# shellcheck disable=SC2046,SC2086 # a list of words
(cd "$work/debs" && private_apt download $(printf "%s/$release " $packages))
for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/root"; done
go=$(find "$work/root/usr/lib" -maxdepth 1 -name 'go-*' | sort | tail -1)
mkdir -p "$top/.parts/admission/usr/bin"
cd "$top/tests/deploy/admission"
GOROOT=$go GOPATH=$work/root/usr/share/gocode GO111MODULE=off GOFLAGS='' GOTOOLCHAIN=local GOCACHE=$work/cache/go \
  "$go/bin/go" build -o "$work/admission" .
mv "$work/admission" "$top/.parts/admission/usr/bin/"
echo "built .parts/admission from $(find "$work/debs" -name 'golang-k8s-apiserver-dev_*' -exec basename {} .deb \;)"

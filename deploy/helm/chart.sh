#!/bin/sh
# Packs the chart with rules and dashboards into dist/, and renders it for the tests' sets of values. `make chart` calls it.
#
# Rendering takes Debian's golang-go and golang-github-masterminds-sprig-dev; RENDER=no leaves it out.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^version: //p' "$top/deploy/helm/tocsin/Chart.yaml")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -R "$top/deploy/helm/tocsin" "$work/tocsin"
mkdir -p "$work/tocsin/files/dashboards" "$top/dist"
cp "$top/rules/kubernetes/tocsin.yaml" "$work/tocsin/files/rules.yaml"
for dashboard in "$top"/dashboards/*.json; do
  case $dashboard in */dcgm.json) ;; *) cp "$dashboard" "$work/tocsin/files/dashboards/" ;; esac
done
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - tocsin |
  gzip -n >"$top/dist/tocsin-$version.tgz"
echo "dist/tocsin-$version.tgz"

[ "${RENDER:-yes}" = yes ] || exit 0
# Rules and dashboards have tests of their own: one of each is enough to see that they get where they belong.
find "$work/tocsin/files/dashboards" -name '*.json' ! -name fleet.json -delete
printf '{"title": "Fleet"}\n' >"$work/tocsin/files/dashboards/fleet.json"
# shellcheck disable=SC2016 # $value is Prometheus' own
printf 'spec:\n  groups:\n  - name: one\n    rules: [{alert: One, expr: vector(1), annotations: {summary: "{{ $value }}"}}]\n' >"$work/tocsin/files/rules.yaml"
(cd "$top/deploy/helm/render" && GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' GOCACHE="${GOCACHE:-$work/cache}" go build -o "$work/render" .)
digest=$(cd "$top" && find deploy/helm/tocsin tests/deploy/chart -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1)
mkdir -p "$top/tests/golden/chart"
for values in "$top"/tests/deploy/chart/*.yaml; do
  name=$(basename "$values")
  { echo "# Rendered by make chart from $digest"; "$work/render" "$work/tocsin" tocsin tocsin "$values"; } >"$work/$name"
  cp "$work/$name" "$top/tests/golden/chart/$name"
done

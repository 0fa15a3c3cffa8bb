#!/bin/sh
# Packs the chart with rules and dashboards into dist/, the same bytes from the same commit. `make chart` calls it.
# What it renders is tests/golden/chart, which tests/deploy/test_helm.py compares with Helm 3 and 4 and rewrites with TOCSIN_UPDATE_GOLDEN=1.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
dist=${DIST:-$top/dist}
version=$(sed -n 's/^version: //p' "$top/deploy/helm/tocsin/Chart.yaml")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -R "$top/deploy/helm/tocsin" "$work/tocsin"
mkdir -p "$work/tocsin/files/dashboards" "$dist"
cp "$top/rules/kubernetes/tocsin.yaml" "$work/tocsin/files/rules.yaml"
for dashboard in "$top"/dashboards/*.json; do
  case $dashboard in */dcgm.json) ;; *) cp "$dashboard" "$work/tocsin/files/dashboards/" ;; esac
done
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - tocsin |
  gzip -n >"$dist/tocsin-$version.tgz"
echo "$dist/tocsin-$version.tgz"

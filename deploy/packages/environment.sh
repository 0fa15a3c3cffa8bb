#!/bin/sh
# Makes /opt/tocsin, the agent's own Python environment, as it lies in the packages and in the image: what is locked, checked by
# hash, and nothing that only the build needs.
#
#   environment.sh [DESTDIR]      makes DESTDIR/opt/tocsin
#
# PYTHON=       interpreter that it runs on, where it will be installed too (3.11 or newer; default: python3)
# PYTHON_TREE=  stand-alone interpreter to take along instead (a folder with bin/python3): the package then needs none
# SOURCE_DATE_EPOCH= makes two builds equal, byte by byte
set -eu
umask 022
here=$(cd "$(dirname "$0")/../.." && pwd)
destdir=${1:-}
root=$destdir/opt/tocsin
[ ! -e "$root" ] || { echo "$root exists already" >&2; exit 1; }

mkdir -p "$root"
python=$(command -v "${PYTHON:-python3}")
if [ -n "${PYTHON_TREE:-}" ]; then
  cp -a "$PYTHON_TREE" "$root/python"
  python=$root/python/bin/python3
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tocsin needs Python 3.11 or newer")'
# Not the start script of a version manager, nor an interpreter in a home directory: nodes do not have it.
python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
case $python in
  /usr/* | "$root"/*) ;;
  *) [ -n "${PYTHON_TREE:-}" ] || { echo "nodes do not have $python: set PYTHON=/usr/bin/python3, or PYTHON_TREE= to bundle an interpreter" >&2; exit 1; } ;;
esac
"$python" -m venv --without-pip "$root"

pip() { "${PIP_PYTHON:-$python}" -m pip --disable-pip-version-check --quiet --python "$root/bin/python" "$@"; }
pip install --no-compile --require-hashes --requirement "$here/requirements.txt"
"$root/bin/python" "$here/tools/bill.py" extras >"$root/extras.txt"
pip install --no-compile --require-hashes --no-deps --requirement "$root/extras.txt"
rm "$root/extras.txt"
pip install --no-compile --no-index --no-deps --no-build-isolation "$here"

# What was shipped, then away with what only built it.
mkdir -p "$root/share"
"$root/bin/python" "$here/tools/bill.py" sbom >"$root/share/sbom.cdx.json"
"$root/bin/python" "$here/tools/bill.py" licences >"$root/share/licences.md"
"$root/bin/python" -B "$here/tools/man_page.py" >"$root/share/tocsin.1"
for shell in bash zsh fish; do "$root/bin/python" -B "$root/bin/tocsin" completion $shell >"$root/share/completion.$shell"; done
surplus=$("$root/bin/python" "$here/tools/bill.py" surplus)
# shellcheck disable=SC2086 # a list of words
pip uninstall --yes $surplus

# Nor what is never imported: tests and headers of others, Arrow's remote procedure calls. 60 MB.
packages=$(echo "$root"/lib/python3.*/site-packages)
find "$packages" -type d \( -name tests -path '*/numpy/*' -o -path '*/pyarrow/tests' -o -path '*/pyarrow/include' -o -path '*/pyarrow/src' \) \
  -prune -exec rm -r {} +
rm -f "$packages"/pyarrow/*flight*
"$root/bin/python" -IB -c "import pyarrow.parquet, pyarrow.compute, polars, obstore, collector.agent.agent, collector.cli.main, simulator.command, evaluation.command, gateway.service"

# Paths of the building machine: none is left. Interpreter and script are found where they will lie.
python=$(readlink -f "$python")
find "$root/bin" -mindepth 1 -delete
ln -s "${python#"$destdir"}" "$root/bin/python"
install -m 755 "$here/deploy/packages/tocsin" "$root/bin/tocsin"
printf 'home = %s\ninclude-system-site-packages = false\n' "$(dirname "${python#"$destdir"}")" >"$root/pyvenv.cfg"
find "$root/lib" "$root/lib64" -name direct_url.json -delete 2>/dev/null || true

# Byte code that is valid whatever the clock of the node, and names the path it will have.
"$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$destdir" -p / "$root/lib"

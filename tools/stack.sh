#!/bin/sh
# Runs docker-compose.yml once Docker Compose is known to be new enough: stack.sh [up --build]
# COMPOSE= names another command than `docker compose`, such as "podman compose".
set -eu
cd "$(dirname "$0")/.."
oldest=$(sed -n 's/^x-compose-min-version: *//p' docker-compose.yml)
compose=${COMPOSE:-docker compose}

fail() {
  echo "$1: docker-compose.yml needs Docker Compose $oldest or newer (docs/compose.md)" >&2
  exit 1
}

version=$($compose version --short 2>/dev/null) || version=
version=${version#v}
[ -n "$version" ] || fail "'$compose' is not installed"
[ "$(printf '%s\n' "$oldest" "${version%%[!0-9.]*}" | sort -V | head -n 1)" = "$oldest" ] ||
  fail "'$compose' is version $version"

[ $# -gt 0 ] || set -- up --build
# shellcheck disable=SC2086 # a command and its arguments
exec $compose "$@"

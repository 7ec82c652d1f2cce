#!/usr/bin/env bash
# Installs the Python package as users do (`pip install .`), in an environment under target/, and runs its tests. Arguments are passed
# to pytest; with --build it only installs the package.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}

if ! python=$(scripts/interpreter.sh); then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        apt-get install -y -qq python3 python3-venv || true
    fi
    python=$(scripts/interpreter.sh) || exec scripts/skipped.sh "the Python package: needs Python 3.11 or later with venv (apt-get install python3-venv)"
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
environment="$target/python"
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
# The tests compare with the command. The workspace tests have built it already, with other features of its dependencies.
[ -n "${LASTHOP_BUILT:-}" ] || "${CARGO:-cargo}" build --locked --quiet --package lasthop
# Unoptimised, like everything else under test.
"$environment/bin/pip" install --quiet --config-settings=build-args="--profile dev --locked" '.[test]'
[ "${1:-}" = --build ] && exit 0
exec "$environment/bin/python" -m pytest "$@"

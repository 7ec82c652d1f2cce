#!/usr/bin/env bash
# Installs the Python package as users do (`pip install .`), into an environment below target/, and runs its tests. Arguments go to
# pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}

# An interpreter that is new enough and can make environments.
suitable() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}
find_python() {
    for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if suitable "$name"; then
            python=$name
            return 0
        fi
    done
    return 1
}
if ! find_python; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        apt-get install -y -qq python3 python3-venv || true
    fi
    find_python || exec scripts/skipped.sh "the Python package: needs Python 3.11 or later with venv (apt-get install python3-venv)"
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
environment="$target/python"
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
# The command, to compare with.
"${CARGO:-cargo}" build --locked --quiet --package lasthop
# Unoptimised, as everything else that is tested.
"$environment/bin/pip" install --quiet --config-settings=build-args="--profile dev --locked" '.[test]'
exec "$environment/bin/python" -m pytest "$@"

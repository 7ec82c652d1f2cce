#!/usr/bin/env bash
# Prints a Python interpreter that is new enough and can create environments; fails if there is none. PYTHON is tried first.
set -euo pipefail
for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        echo "$name"
        exit 0
    fi
done
exit 1

#!/usr/bin/env bash
# Prints that something was not tested, and again at the end of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "!!! SKIPPED: $*" >&2
if [ -n "${LASTHOP_SKIPPED:-}" ]; then
    echo "SKIPPED: $*" >>"$LASTHOP_SKIPPED"
fi

#!/usr/bin/env bash
# Compares every segment with ns-2, if it is installed (Debian and Ubuntu: apt-get install ns2).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v ns >/dev/null; then
    exec scripts/skipped.sh "comparison with ns-2: not installed (apt-get install ns2)"
fi
if ! command -v python3 >/dev/null; then
    exec scripts/skipped.sh "comparison with ns-2: python3 is not installed"
fi
"${CARGO:-cargo}" build --locked --quiet --package lasthop
exec python3 benches/peers/compare.py --lasthop "${CARGO_TARGET_DIR:-target}/debug/lasthop" "$@"

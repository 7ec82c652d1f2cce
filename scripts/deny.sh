#!/usr/bin/env bash
# Checks licences, sources and bans of all dependencies, and known vulnerabilities if the advisory database is reachable.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
export PATH="${CARGO_TARGET_DIR:-$PWD/target}/tools/bin:$PATH"

# Fetches all packages of the lock file, including those for other systems, so that the check works offline.
"$cargo" fetch --locked --quiet
"$cargo" deny --offline check bans licenses sources
if timeout 120 "$cargo" deny fetch db >/dev/null 2>&1; then
    "$cargo" deny --offline check advisories
else
    scripts/skipped.sh "known vulnerabilities (cargo deny check advisories): the advisory database cannot be reached"
fi

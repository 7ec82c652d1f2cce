#!/usr/bin/env bash
# Licences, sources and bans of all dependencies; known vulnerabilities where the advisory database can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
export PATH="${CARGO_TARGET_DIR:-$PWD/target}/tools/bin:$PATH"

# All packages of the lock file, those of other systems too, so that the check works offline.
"$cargo" fetch --locked --quiet
"$cargo" deny --offline check bans licenses sources
if timeout 120 "$cargo" deny fetch db >/dev/null 2>&1; then
    "$cargo" deny --offline check advisories
else
    scripts/skipped.sh "known vulnerabilities (cargo deny check advisories): the advisory database cannot be reached"
fi

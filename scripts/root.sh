#!/usr/bin/env bash
# Runs the tests that need root: real packets in network namespaces that each test creates and removes.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    exec scripts/skipped.sh "tests that need root: run \`make root\` as root"
fi
cargo=${CARGO:-cargo}
# A probe's measurement is only as good as the emulated link's timing, so it runs without other tests beside it. The same
# packages are selected, so that nothing is built again.
"$cargo" test --workspace --locked --no-fail-fast --lib --bins --tests -- --ignored --skip probe::
"$cargo" test --workspace --locked --tests -- --ignored --test-threads 1 probe::

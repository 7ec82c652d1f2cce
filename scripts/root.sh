#!/usr/bin/env bash
# Runs the tests that need root: real packets in network namespaces that each test creates and removes.
#
# Links and deadlines of these tests are in real time, and a machine that is shared with other programs is at times late by
# more than a test allows. A test that fails is therefore run once more, alone, and fails the step only if it fails again; the
# first failure is printed and named again at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    exec scripts/skipped.sh "tests that need root: run \`make root\` as root"
fi
cargo=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# One selection of packages for all runs, so that nothing is built again.
tests=("$cargo" test --workspace --locked --no-fail-fast --lib --bins --tests)

# run ARGUMENTS-OF-THE-TEST-PROGRAMS...: the tests, and those that fail once more, alone.
run() {
    "${tests[@]}" -- --ignored "$@" 2>&1 | tee "$log" && return 0
    # Names stand by themselves, indented, in the lists after `failures:`.
    mapfile -t failed < <(awk '/^failures:$/ { list = 1; next } /^test result:/ { list = 0 } list && /^    [A-Za-z0-9_:]+$/ { print $1 }' "$log" | sort -u)
    # Without a list, the programs were not built or crashed.
    [ ${#failed[@]} -gt 0 ] || return 1
    echo "root: once more, alone: ${failed[*]}"
    "${tests[@]}" -- --ignored --test-threads 1 --exact "${failed[@]}" || return 1
    for name in "${failed[@]}"; do
        flaky="FLAKY: $name failed beside other tests, and passed alone"
        echo "!!! $flaky" >&2
        [ -z "${LASTHOP_SKIPPED:-}" ] || echo "$flaky" >>"$LASTHOP_SKIPPED"
    done
}

run --skip probe::
# A probe's measurement is only as good as the emulated link's timing, so it runs without other tests beside it.
run --test-threads 1 probe::

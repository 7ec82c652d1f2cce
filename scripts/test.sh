#!/usr/bin/env bash
# Runs all tests and checks in steps: `make test`. Each step is also a target of the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."
LASTHOP_SKIPPED=$(mktemp)
export LASTHOP_SKIPPED
# Everything is built once; incremental data for the next build would take half of the disk space.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# Process that builds ahead for a step, by step.
declare -A ahead=()
trap 'rm -f "$LASTHOP_SKIPPED"; kill "${ahead[@]}" 2>/dev/null || true' EXIT
build_ahead() {
    LASTHOP_SKIPPED=/dev/null LASTHOP_BUILT=1 nice -n 19 "scripts/$1.sh" --build >/dev/null 2>&1 &
    ahead[$1]=$!
}

times=()
for step in tools format lint unit python no-std docs deny ns2 browser fuzz; do
    echo "=== $step"
    begun=$SECONDS
    # Tests on real packets mostly wait, so later steps are built meanwhile at low priority. Those steps report any errors.
    if [ "$step" = unit ]; then
        build_ahead fuzz
        build_ahead python
    elif [ -n "${ahead[$step]:-}" ]; then
        wait "${ahead[$step]}" || true
        unset "ahead[$step]"
    fi
    "${MAKE:-make}" --no-print-directory "$step" || { echo "=== $step FAILED" >&2; exit 1; }
    # From here on, target/debug/lasthop is built from these sources.
    [ "$step" = unit ] && export LASTHOP_BUILT=1
    times+=("$(printf '%5d s  %s' $((SECONDS - begun)) "$step")")
done
echo "=== all steps passed"
printf '%s\n' "${times[@]}"
sed 's/^/!!! SKIPPED: /' "$LASTHOP_SKIPPED"

#!/usr/bin/env bash
# Everything that must hold, step by step: `make test`. Each step is a target of the Makefile too.
set -euo pipefail
cd "$(dirname "$0")/.."
LASTHOP_SKIPPED=$(mktemp)
export LASTHOP_SKIPPED
# Everything is built once: what the compiler keeps for the next time would be half of what is on the disk.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# Of each step that something is built for ahead: the process that does.
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
    # Tests on real packets mostly wait: what later steps need is built meanwhile, behind all else. What goes wrong is said by those steps.
    if [ "$step" = unit ]; then
        build_ahead fuzz
        build_ahead python
    elif [ -n "${ahead[$step]:-}" ]; then
        wait "${ahead[$step]}" || true
        unset "ahead[$step]"
    fi
    "${MAKE:-make}" --no-print-directory "$step" || { echo "=== $step FAILED" >&2; exit 1; }
    # From then on target/debug/lasthop is what these sources make.
    [ "$step" = unit ] && export LASTHOP_BUILT=1
    times+=("$(printf '%5d s  %s' $((SECONDS - begun)) "$step")")
done
echo "=== all steps passed"
printf '%s\n' "${times[@]}"
sed 's/^/!!! SKIPPED: /' "$LASTHOP_SKIPPED"

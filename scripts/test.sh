#!/usr/bin/env bash
# Everything that must hold, step by step: `make test`. Each step is a target of the Makefile too.
set -euo pipefail
cd "$(dirname "$0")/.."
LASTHOP_SKIPPED=$(mktemp)
export LASTHOP_SKIPPED
# Everything is built once: what the compiler keeps for the next time would be half of what is on the disk.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
trap 'rm -f "$LASTHOP_SKIPPED"' EXIT

times=()
for step in tools format lint unit python no-std docs deny ns2 browser fuzz; do
    echo "=== $step"
    begun=$SECONDS
    "${MAKE:-make}" --no-print-directory "$step" || { echo "=== $step FAILED" >&2; exit 1; }
    times+=("$(printf '%5d s  %s' $((SECONDS - begun)) "$step")")
done
echo "=== all steps passed"
printf '%s\n' "${times[@]}"
sed 's/^/!!! SKIPPED: /' "$LASTHOP_SKIPPED"

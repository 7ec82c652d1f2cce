#!/usr/bin/env bash
# Runs the steps that its arguments name, which are targets of the Makefile, and prints the time of each and what was skipped:
# `make test` and `make test-all`.
set -euo pipefail
cd "$(dirname "$0")/.."
LASTHOP_SKIPPED=$(mktemp)
export LASTHOP_SKIPPED
# Everything is built once; incremental data for the next build would take half of the disk space.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
trap 'rm -f "$LASTHOP_SKIPPED"' EXIT

times=()
for step; do
    echo "=== $step"
    begun=$SECONDS
    "${MAKE:-make}" --no-print-directory "$step" || { echo "=== $step FAILED" >&2; exit 1; }
    # From here on, target/debug/lasthop is built from these sources.
    [ "$step" = unit ] && export LASTHOP_BUILT=1
    times+=("$(printf '%5d s  %s' $((SECONDS - begun)) "$step")")
done
echo "=== all steps passed"
printf '%s\n' "${times[@]}"
sed 's/^/!!! /' "$LASTHOP_SKIPPED"
case " $* " in
    *" root "*) ;;
    *) echo "Not run: tests that need root or a browser, fuzzing and the Python package; \`make test-all\` runs them" ;;
esac

#!/usr/bin/env bash
# Runs the tests of the crates that have property tests SOAK_ROUNDS (10) times, each time with new random inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
for ((round = 1; round <= ${SOAK_ROUNDS:-10}; round++)); do
    PROPTEST_RNG_SEED=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    export PROPTEST_RNG_SEED
    echo "=== round $round: PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"
    "${CARGO:-cargo}" test --quiet --locked --lib --tests -p lasthop-proto -p lasthop-scenario -p lasthop-sim
    "${CARGO:-cargo}" test --quiet --locked --lib -p lasthop-sys -p lasthop-gateway -p lasthop-lab
done

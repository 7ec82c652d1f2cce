#!/usr/bin/env bash
# Builds every fuzz target and runs each for FUZZ_SECONDS (10), where a nightly Rust and cargo-fuzz are installed:
#     rustup toolchain install nightly && cargo install --locked cargo-fuzz
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${CARGO_TARGET_DIR:-$PWD/target}/tools/bin:$PATH"
if ! cargo +nightly --version >/dev/null 2>&1; then
    exec scripts/skipped.sh "fuzzing: no nightly Rust (rustup toolchain install nightly)"
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    exec scripts/skipped.sh "fuzzing: no cargo-fuzz (cargo install --locked cargo-fuzz)"
fi
if ! command -v c++ >/dev/null; then
    exec scripts/skipped.sh "fuzzing: no C++ compiler (apt-get install g++)"
fi
target="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
unset CARGO_TARGET_DIR
cargo +nightly fuzz build --target-dir "$target"
found=0
for name in $(cargo +nightly fuzz list); do
    echo "fuzz: $name"
    # New inputs go into a folder of their own: the seeds in fuzz/seeds stay as they are.
    corpus="$target/corpus/$name"
    mkdir -p "$corpus" "fuzz/seeds/$name"
    cargo +nightly fuzz run --target-dir "$target" "$name" "$corpus" "fuzz/seeds/$name" -- \
        -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 || found=1
done
exit "$found"

#!/usr/bin/env bash
# Builds every fuzz target and runs each for FUZZ_SECONDS (10), if a nightly Rust and cargo-fuzz are installed:
#     rustup toolchain install nightly && cargo install --locked cargo-fuzz
# With --build it only builds them. Without these tools it checks them with the stable compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${CARGO_TARGET_DIR:-$PWD/target}/tools/bin:$PATH"
if ! command -v c++ >/dev/null; then
    exec scripts/skipped.sh "fuzzing: no C++ compiler (apt-get install g++)"
fi
only_compiled() {
    "${CARGO:-cargo}" check --locked --quiet --manifest-path fuzz/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
    exec scripts/skipped.sh "fuzzing, though its targets compile: $1"
}
if ! cargo +nightly --version >/dev/null 2>&1; then
    only_compiled "no nightly Rust (rustup toolchain install nightly)"
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    only_compiled "no cargo-fuzz (cargo install --locked cargo-fuzz)"
fi
target="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
unset CARGO_TARGET_DIR
# For a short run, optimisation takes longer than it saves.
if [ "${FUZZ_SECONDS:-10}" -le 60 ]; then
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
fi
cargo +nightly fuzz build --target-dir "$target"
[ "${1:-}" = --build ] && exit 0

# Runs one target, by name.
one() {
    name=$1
    seeds="fuzz/seeds/$name"
    [ "$name" = hostile_bare ] && seeds="fuzz/seeds/hostile"
    [ "$name" = scenario ] && seeds="scenarios crates/lasthop-scenario/tests/data"
    [ "$name" = scenario ] || [ -d "$seeds" ] || seeds=""
    # Found inputs go into a separate folder; the seeds remain unchanged.
    corpus="$target/corpus/$name"
    mkdir -p "$corpus" "$target/artifacts"
    log="$target/$name.log"
    # shellcheck disable=SC2086
    if cargo +nightly fuzz run --target-dir "$target" "$name" "$corpus" $seeds -- \
        -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=3000 -print_final_stats=1 >"$log" 2>&1; then
        echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    else
        tail -60 "$log"
        echo "fuzz: $name FAILED" >&2
        return 1
    fi
}
export target
export -f one
# Runs one target per processor at a time; xargs fails if one of them does.
cargo +nightly fuzz list | xargs -P "$(nproc)" -I '{}' bash -c 'set -euo pipefail; one "$1"' one '{}'

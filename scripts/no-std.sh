#!/usr/bin/env bash
# Builds the mechanisms without `std` (see crates/lasthop-proto/no-std-proof/Cargo.toml), with the dependency versions of the
# workspace.
set -euo pipefail
cd "$(dirname "$0")/.."
proof=crates/lasthop-proto/no-std-proof
build() {
    "${CARGO:-cargo}" build --manifest-path "$proof/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-target}/no-std" "$@"
}
cp Cargo.lock "$proof/Cargo.lock"
build
# Control: the same build with `std` must fail.
if control=$(build --features control 2>&1) || ! grep -q 'duplicate lang item `panic_impl`' <<<"$control"; then
    echo "no-std: the proof is broken, std went unnoticed:" >&2
    echo "$control" >&2
    exit 1
fi
echo "no-std: lasthop-proto and its dependencies link without std"

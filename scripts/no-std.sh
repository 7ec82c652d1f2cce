#!/usr/bin/env bash
# Builds the mechanisms without `std` (see crates/lasthop-proto/no-std-proof/Cargo.toml), with the dependencies' versions that
# everything else uses.
set -euo pipefail
cd "$(dirname "$0")/.."
proof=crates/lasthop-proto/no-std-proof
target=${CARGO_TARGET_DIR:-target}
cp Cargo.lock "$proof/Cargo.lock"
"${CARGO:-cargo}" build --manifest-path "$proof/Cargo.toml" --target-dir "$target/no-std"
echo "no-std: lasthop-proto and its dependencies link without std"

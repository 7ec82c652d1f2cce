#!/usr/bin/env bash
# Builds the program of the page without a server, as WebAssembly; installs Rust's standard library for it with rustup. With --check,
# only installs the library, and fails if it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=wasm32-wasip1
fail() {
    echo "page: $*" >&2
    exit 1
}
libraries="$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib"
if [ ! -d "$libraries/$target/lib" ]; then
    command -v rustup >/dev/null || fail "Rust's standard library for $target is missing, and there is no rustup to install it"
    rustup target add "$target" || fail "rustup cannot install the standard library for $target"
fi
[ "${1:-}" = --check ] && exit 0
exec "$cargo" build --profile page --locked --target "$target" --package lasthop-page

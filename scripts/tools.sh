#!/usr/bin/env bash
# Installs the tools that the tests need besides Rust and Python, except those already installed: a C linker (Debian, Ubuntu), iproute2
# and iptables if root can test in network namespaces, Chromium and Node.js for the pages, rustfmt, clippy and a standard library for
# WebAssembly (rustup), and cargo-deny, built from source in target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
deny_version=0.20.2

fail() {
    echo "tools: $*" >&2
    exit 1
}

command -v "$cargo" >/dev/null || fail "cargo is missing; install Rust (stable) with rustup"
if ! command -v cc >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "a C linker is missing: apt-get install gcc libc6-dev"
    apt-get update -qq
    apt-get install -y -qq gcc libc6-dev
fi
# Lab and gateway are tested in network namespaces, which only root can create.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    packages=()
    command -v ip >/dev/null || packages+=(iproute2)
    command -v iptables >/dev/null || packages+=(iptables)
    # The pages are tested in a real browser.
    [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || packages+=(chromium)
    command -v node >/dev/null || packages+=(nodejs)
    command -v npm >/dev/null || packages+=(npm)
    if [ ${#packages[@]} -gt 0 ]; then
        apt-get update -qq
        apt-get install -y -qq "${packages[@]}"
    fi
fi
for component in rustfmt clippy; do
    "$cargo" "${component/rust/}" --version >/dev/null 2>&1 || rustup component add "$component"
done
# The page without a server is tested if this succeeds.
scripts/wasm.sh --check || true
tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
if ! PATH="$tools/bin:$PATH" "$cargo" deny --version >/dev/null 2>&1; then
    echo "tools: building cargo-deny $deny_version, once"
    # An unoptimised build takes half the time, and is fast enough.
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$tools/build" \
        "$cargo" install --debug --locked --quiet --root "$tools" --version "$deny_version" cargo-deny
    rm -rf "$tools/build"
fi

#!/usr/bin/env bash
# Tests the page without a server: its program in Node.js beside the native one, and the page in Chromium. Needs Rust's standard
# library for WebAssembly (rustup), Node.js, npm packages and Chromium, which scripts/tools.sh installs if it can.
set -euo pipefail
cd "$(dirname "$0")/.."
browser=crates/lasthop-serve/browser
chromium=${CHROMIUM:-/usr/bin/chromium}
target=${CARGO_TARGET_DIR:-$PWD/target}
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    exec scripts/skipped.sh "page without a server: Node.js 20 or later is not installed"
fi
if ! scripts/wasm.sh --check; then
    exec scripts/skipped.sh "page without a server: Rust has no standard library for WebAssembly"
fi
if ! command -v npm >/dev/null; then
    exec scripts/skipped.sh "page without a server: npm is not installed"
fi
"${CARGO:-cargo}" build --locked --quiet --package lasthop-page
[ -n "${LASTHOP_BUILT:-}" ] || "${CARGO:-cargo}" build --locked --quiet --package lasthop
export LASTHOP_PAGE=$target/page
studies=$target/page-studies
"$target/debug/lasthop" reproduce balakrishnan1997 --runs 1 --out "$studies" >/dev/null
STUDIES=$studies scripts/page.sh "$LASTHOP_PAGE"
# At most 3 MB as a web server sends it.
size=$(find "$LASTHOP_PAGE" -type f -exec gzip -c {} \; | wc -c)
echo "page: $size bytes compressed"
[ "$size" -le 3000000 ] || { echo "page: more than 3000000 bytes" >&2; exit 1; }
npm ci --prefix "$browser" --no-audit --no-fund --loglevel=error
if [ ! -x "$chromium" ]; then
    npm --prefix "$browser" --silent run test-program
    exec scripts/skipped.sh "page without a server in a browser: $chromium is not there (apt-get install chromium)"
fi
exec npm --prefix "$browser" --silent run test-page

#!/usr/bin/env bash
# Tests the pages of lasthop in a real browser: needs Node.js, npm packages and Chromium, which scripts/tools.sh installs if it
# can.
set -euo pipefail
cd "$(dirname "$0")/.."
browser=crates/lasthop-serve/browser
chromium=${CHROMIUM:-/usr/bin/chromium}
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    exec scripts/skipped.sh "pages in a browser: Node.js 20 or later is not installed"
fi
if ! command -v npm >/dev/null; then
    exec scripts/skipped.sh "pages in a browser: npm is not installed"
fi
if [ ! -x "$chromium" ]; then
    exec scripts/skipped.sh "pages in a browser: $chromium is not there (apt-get install chromium)"
fi
[ -n "${LASTHOP_BUILT:-}" ] || "${CARGO:-cargo}" build --locked --quiet --package lasthop
# The packages include no browser.
npm ci --prefix "$browser" --no-audit --no-fund --loglevel=error
exec npm --prefix "$browser" --silent test

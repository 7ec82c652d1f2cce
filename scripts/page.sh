#!/usr/bin/env bash
# Writes the page without a server into a folder (default: target/page): `make page`. STUDIES is a folder that `lasthop reproduce
# --out` wrote, whose pages it then contains.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
folder=${1:-$target/page}
scripts/wasm.sh
rm -rf "$folder"
python3 scripts/page.py "$target/wasm32-wasip1/page/lasthop-page.wasm" "$folder" ${STUDIES:+--studies "$STUDIES"}
echo "page: $folder/index.html ($(du -sh "$folder" | cut -f1))"

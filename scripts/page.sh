#!/usr/bin/env bash
# Writes the page without a server into a folder (default: target/page): `make page`. With STUDIES=all, or a list of names with
# spaces, it contains the results of these studies, computed here.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
folder=${1:-${CARGO_TARGET_DIR:-target}/page}
target=${CARGO_TARGET_DIR:-target}
scripts/wasm.sh
studies=()
if [ -n "${STUDIES:-}" ]; then
    [ -n "${LASTHOP:-}" ] || "$cargo" build --release --locked --package lasthop
    lasthop=${LASTHOP:-$target/release/lasthop}
    names=$STUDIES
    [ "$names" = all ] && names=$("$lasthop" reproduce | awk 'NR > 1 { print $1 }')
    for name in $names; do
        "$lasthop" reproduce "$name" --out "$target/studies/$name" >/dev/null
    done
    studies=(--studies "$target/studies")
fi
rm -rf "$folder"
python3 scripts/page.py "$target/wasm32-wasip1/page/lasthop-page.wasm" "$folder" "${studies[@]}"
echo "page: $folder/index.html ($(du -sh "$folder" | cut -f1))"

#!/usr/bin/env bash
# Prints the version, which is defined only in Cargo.toml.
#   scripts/version.sh            as there: 0.1.0
#   scripts/version.sh --package  that of packages made from this checkout: the same where its tag is (v0.1.0), else a version before it
#   scripts/version.sh --epoch    seconds since 1970 of the commit, the only date in packages
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ -n "$version" ] || { echo "version: Cargo.toml has no version in [workspace.package]" >&2; exit 1; }
# A source archive has no history; its files have the commit's date.
is_checkout() {
    [ -e .git ] && git rev-parse --quiet --verify HEAD >/dev/null 2>&1
}
case "${1:-}" in
"") echo "$version" ;;
--package)
    if ! is_checkout; then
        echo "$version"
        exit 0
    fi
    changed=$(git status --porcelain)
    if [ -z "$changed" ] && git tag --points-at HEAD | grep -qxF "v$version"; then
        echo "$version"
    else
        day=$(TZ=UTC0 git log -1 --date=format-local:%Y%m%d.%H%M%S --format=%cd)
        echo "$version~git$day.$(git rev-parse --short=8 HEAD)${changed:+.changed}"
    fi
    ;;
--epoch)
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    elif is_checkout; then
        git log -1 --format=%ct
    else
        stat --format=%Y Cargo.toml
    fi
    ;;
*)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac

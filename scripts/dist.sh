#!/usr/bin/env bash
# Builds the release packages in dist/: `make dist`, or some of them:
#   scripts/dist.sh [source] [deb] [wheel]
# Packages that cannot be built here are reported as skipped. The same commit, compiler and tools give the same bytes.
#   LASTHOP_PROFILE=dev    unoptimised, to try the packaging
#   LASTHOP_BINARY=FILE    packs this binary into the Debian package, and compiles none
#   LASTHOP_DIST=FOLDER    another folder than dist/
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$root/target}
profile=${LASTHOP_PROFILE:-dist}
out=${LASTHOP_DIST:-$root/dist}
tools=$target/dist-tools
version=$(scripts/version.sh --package)
SOURCE_DATE_EPOCH=$(scripts/version.sh --epoch)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC0
umask 022

say() {
    echo "dist: $*" >&2
}
skipped() {
    scripts/skipped.sh "$@"
}

# Keeps paths of this machine out of the packages.
if [ "$profile" = dist ]; then
    home=${CARGO_HOME:-$HOME/.cargo}
    export RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--remap-path-prefix=$home=/cargo --remap-path-prefix=$root=/lasthop"
    export CFLAGS="${CFLAGS:+$CFLAGS }-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$root=/lasthop"
fi

# Packs the files of the commit.
source_archive() {
    if [ ! -e .git ]; then
        skipped "the source archive: it is made from a git checkout"
        return
    fi
    local name="lasthop-$version"
    git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"
    say "$out/$name.tar.gz"
}

# Packs the compiled binary with Debian's own tools and packaging/debian.
deb() {
    if ! command -v dh >/dev/null || ! command -v dpkg-buildpackage >/dev/null; then
        skipped "the Debian package: it takes debhelper (apt-get install debhelper)"
        return
    fi
    local binary=${LASTHOP_BINARY:-} stage=$target/deb/lasthop
    if [ -z "$binary" ]; then
        "$cargo" build --profile "$profile" --locked --package lasthop
        binary=$target/${profile/#dev/debug}/lasthop
    fi
    rm -rf "$target/deb"
    mkdir -p "$stage/completions"
    cp -a packaging/debian "$stage/debian"
    install -m 755 "$binary" "$stage/lasthop"
    strip --strip-all "$stage/lasthop"
    "$binary" man --out "$stage/man"
    "$binary" completions bash >"$stage/completions/lasthop"
    "$binary" completions zsh >"$stage/completions/_lasthop"
    "$binary" completions fish >"$stage/completions/lasthop.fish"
    CARGO="$cargo" scripts/notices.py lasthop >"$stage/third-party-licences.txt"
    cp -r packaging/monitoring "$stage/"
    cp packaging/gateway.toml packaging/tunnel.toml packaging/tunnel-bridge.toml packaging/lossy-hop.toml CHANGELOG.md "$stage/"
    for unit in lasthop-gateway lasthop-tunnel; do
        cp "packaging/systemd/$unit.service" "$stage/debian/lasthop.$unit.service"
    done
    cp packaging/sysusers.d/lasthop.conf "$stage/debian/lasthop.sysusers"
    cat >"$stage/debian/changelog" <<END
lasthop ($version-1) unstable; urgency=medium

  * What changed is in changelog.gz.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END
    # Sets the modes independently of the umask of the checkout.
    chmod -R u=rwX,go=rX "$stage"
    (cd "$stage" && DEB_BUILD_OPTIONS="nocheck noautodbgsym" dpkg-buildpackage --build=binary --no-sign >../log 2>&1) ||
        { cat "$target/deb/log" >&2; exit 1; }
    grep -i 'warning' "$target/deb/log" >&2 || true
    cp "$target"/deb/*.deb "$out/"
    say "$(echo "$out"/lasthop_"$version"-1_*.deb)"
}

wheel() {
    local python
    if ! python=$(scripts/interpreter.sh); then
        skipped "the wheel: it takes Python 3.11 or later with venv (apt-get install python3-venv)"
        return
    fi
    [ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
    trap 'rm -f "$root/LICENSE-THIRD-PARTY"' EXIT
    CARGO="$cargo" scripts/notices.py lasthop-py >LICENSE-THIRD-PARTY
    # maturin derives the required C library from the symbols, and puts it into the file name.
    "$tools/bin/maturin" build --profile "$profile" --locked --interpreter "$tools/bin/python" --out "$out"
    rm -f LICENSE-THIRD-PARTY
}

mkdir -p "$out"
for what in ${*:-source deb wheel}; do
    case $what in
    source) source_archive ;;
    deb | wheel) $what ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
# Lists all packages in the folder, including those of earlier versions.
(cd "$out" && find . -maxdepth 1 -type f \( -name '*.deb' -o -name '*.whl' -o -name '*.tar.gz' \) -printf '%P\n' |
    sort | xargs --no-run-if-empty sha256sum >SHA256SUMS)

#!/usr/bin/env bash
# Installs the packages in dist/ on clean systems, uses, upgrades and removes them without a trace: `make dist-test`, after `make dist`.
#   scripts/dist-test.sh [deb] [wheel] [source] [container]
# The Debian package needs root, mmdebstrap (apt-get install mmdebstrap systemd-container) and, the first time, a mirror of Debian: a clean
# Debian 12 is kept in target/dist-test. NumPy and PyArrow for the wheel come from PyPI. Tests that cannot run here are reported as skipped.
#   LASTHOP_DIST=FOLDER    another folder than dist/
#   LASTHOP_SUITE=NAME     another release than bookworm
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$root/target}
dist=${LASTHOP_DIST:-$root/dist}
work=$target/dist-test
suite=${LASTHOP_SUITE:-bookworm}
version=$(scripts/version.sh)
package=$(scripts/version.sh --package)
export LC_ALL=C.UTF-8

say() {
    echo "dist-test: $*" >&2
}
fail() {
    say "$*"
    exit 1
}
skipped() {
    scripts/skipped.sh "$@"
}
# Prints the newest file that matches a pattern.
newest() {
    find "$dist" -maxdepth 1 -type f -name "$1" -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

# Makes an earlier version of the package, with a different configuration, to upgrade from.
earlier_deb() {
    local stage=$work/earlier
    rm -rf "$stage"
    dpkg-deb --raw-extract "$1" "$stage"
    sed -i 's/^Version: .*/Version: 0.0.1-1/' "$stage/DEBIAN/control"
    for name in gateway tunnel; do
        echo "# A line that later versions lack." >>"$stage/etc/lasthop/$name.toml"
    done
    (cd "$stage" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group --build "$stage" "$work/earlier.deb" >/dev/null
    rm -rf "$stage"
}

deb() {
    local deb
    deb=$(newest '*.deb')
    [ -n "$deb" ] || { skipped "the Debian package: there is none in $dist"; return; }
    if command -v lintian >/dev/null; then
        lintian --no-cfg --allow-root --fail-on error,warning "$deb" || fail "lintian found something"
    else
        skipped "lintian on the Debian package: not installed (apt-get install lintian)"
    fi
    if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
        skipped "installing the Debian package: it takes root and mmdebstrap (apt-get install mmdebstrap)"
        return
    fi
    # A minimal Debian with the dependencies that the package declares: if it declares too few, it will not run.
    local needs archive
    needs=$(dpkg-deb --field "$deb" Depends Recommends | sed 's/^[A-Za-z]*: //' | tr ',' '\n' | sed 's/|.*//; s/(.*)//; s/ //g' | sort -u | paste -sd,)
    archive=$work/$suite-$(echo "$needs" | sha256sum | head -c 8).tar
    if [ ! -e "$archive" ]; then
        say "a clean $suite with $needs"
        if ! mmdebstrap --quiet --variant=minbase --include="$needs,man-db" \
            "$suite" "${archive%.tar}.part.tar" 2>"$work/mmdebstrap.log"; then
            tail -n 3 "$work/mmdebstrap.log" >&2
            skipped "installing the Debian package: no clean $suite to be had (see $work/mmdebstrap.log)"
            return
        fi
        mv "${archive%.tar}.part.tar" "$archive"
    fi
    local clean=$work/root
    rm -rf --one-file-system "$clean"
    mkdir "$clean"
    tar --extract --numeric-owner --file="$archive" --directory="$clean"
    earlier_deb "$deb"
    mkdir "$clean/test"
    cp "$deb" "$clean/test/lasthop.deb"
    cp "$work/earlier.deb" "$clean/test/earlier.deb"
    cp scripts/dist-test-debian.sh "$clean/test/inside.sh"
    cp scripts/dist-test-cure.sh "$clean/test/cure.sh"
    # In separate namespaces: its mounts, processes and configuration disappear with them.
    unshare --mount --pid --net --uts --ipc --fork --kill-child --propagation private bash -euc '
        root=$1
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t sysfs sysfs "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/run"
        mount -t tmpfs tmpfs "$root/tmp"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
            DEBIAN_FRONTEND=noninteractive bash -eu /test/inside.sh "$2"
    ' - "$clean" "$version" || fail "the Debian package failed"
    # The log that docs/from-link-to-cure.md shows.
    cp "$clean/test/cure.log" "$work/cure.log"
    rm -rf --one-file-system "$clean"
    say "$(basename "$deb"): installed, used, upgraded, removed and purged in a clean $suite"
    booted "$archive" "$deb"
}

# Tests the services, under a separate systemd.
booted() {
    if ! command -v systemd-nspawn >/dev/null; then
        skipped "the services of the Debian package under systemd: it takes systemd-nspawn (apt-get install systemd-container)"
        return
    fi
    local clean=$work/booted container leader= passed=
    rm -rf --one-file-system "$clean"
    mkdir "$clean"
    tar --extract --numeric-owner --file="$1" --directory="$clean"
    mkdir "$clean/test"
    cp "$2" "$clean/test/lasthop.deb"
    cp "$work/earlier.deb" "$clean/test/earlier.deb"
    cp scripts/dist-test-booted.sh "$clean/test/booted.sh"
    # The container is killed after ten minutes, whatever happens to this script.
    timeout --signal=KILL 600 systemd-nspawn --quiet --directory="$clean" --register=no --keep-unit --private-network --console=pipe \
        /lib/systemd/systemd >"$work/booted.log" 2>&1 </dev/null &
    container=$!
    inside() {
        nsenter --target "$leader" --all --root --wd=/ env --chdir=/ -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
            LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
    }
    for _ in $(seq 600); do
        leader=$(pgrep --parent "$(pgrep --parent "$container" | head -n 1)" 2>/dev/null | head -n 1 || true)
        [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded' && break
        kill -0 "$container" 2>/dev/null || break
        sleep 0.1
    done
    if [ -z "$leader" ] || ! inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
        skipped "the services of the Debian package under systemd: it does not boot in a container here (see $work/booted.log)"
    elif inside bash /test/booted.sh; then
        passed=yes
        say "$(basename "$2"): its services start when asked, are started anew by an upgrade, and end with it"
    else
        passed=no
    fi
    # The container ends with its first process.
    [ -z "$leader" ] || kill -KILL "$leader" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
    rm -rf --one-file-system "$clean"
    [ "$passed" != no ] || fail "the services of the Debian package failed"
}

wheel() {
    local wheel python
    wheel=$(newest '*.whl')
    [ -n "$wheel" ] || { skipped "the wheel: there is none in $dist"; return; }
    python=$(scripts/interpreter.sh) || { skipped "the wheel: no Python 3.11 or later with venv"; return; }
    case $(basename "$wheel") in
    lasthop-*-cp311-abi3-manylinux_*_*.whl) ;;
    *) fail "$(basename "$wheel") is no abi3 wheel for manylinux" ;;
    esac
    local environment=$work/environment
    rm -rf "$environment"
    "$python" -m venv "$environment"
    # The dependencies are installed first, so that any files left behind are the wheel's.
    "$environment/bin/pip" install --quiet --disable-pip-version-check 'numpy>=1.26' 'pyarrow>=15' ||
        { skipped "the wheel: NumPy and PyArrow are not to be had"; return; }
    (cd "$environment" && bin/python -B "$root/scripts/dist-test-wheel.py" "$wheel" "$version") || fail "the wheel failed"
    rm -rf "$environment"
    say "$(basename "$wheel"): installed, used, upgraded and removed in a new environment, with $("$python" --version)"
}

source_archive() {
    local archive=$dist/lasthop-$package.tar.gz
    [ -e "$archive" ] || { skipped "the source archive: there is no $archive"; return; }
    local unpacked=$work/source
    rm -rf "$unpacked"
    mkdir "$unpacked"
    tar --extract --file="$archive" --directory="$unpacked" --strip-components=1
    if [ -e .git ]; then
        diff <(git ls-tree -r --name-only HEAD | sort) <(cd "$unpacked" && find . -type f -o -type l | sed 's/^\.\///' | sort) ||
            fail "the source archive has other files than the commit"
        git archive --format=tar --prefix="lasthop-$package/" HEAD | gzip -9n | cmp - "$archive" ||
            fail "the source archive is another one when it is made again"
    fi
    [ "$("$unpacked/scripts/version.sh" --package)" = "$version" ] || fail "the source archive has another version"
    # Uses the dependencies of this checkout, which are compiled already.
    (cd "$unpacked" && "$cargo" metadata --locked --offline --format-version=1 >/dev/null &&
        CARGO_TARGET_DIR="$target" "$cargo" check --quiet --locked --offline --package lasthop) || fail "the source archive does not compile"
    rm -rf "$unpacked"
    say "$(basename "$archive"): unpacked and checked"
}

container() {
    local engine= name
    for name in podman docker; do
        if command -v $name >/dev/null && timeout 20 $name info >/dev/null 2>&1; then
            engine=$name
            break
        fi
    done
    [ -n "$engine" ] || { skipped "the container: neither podman nor docker runs here; packaging/Containerfile is not built"; return; }
    $engine build --file packaging/Containerfile --tag lasthop-dist-test .
    [[ "$($engine run --rm lasthop-dist-test --version)" = "lasthop $version ("* ]] || fail "the container has another version"
    $engine run --rm lasthop-dist-test compare wavelan-lan --runs 1 --schemes E2E,LL >/dev/null
    $engine rmi lasthop-dist-test >/dev/null
    say "the container: built, run and removed by $engine"
}

mkdir -p "$work"
for what in ${*:-deb wheel source container}; do
    case $what in
    source) source_archive ;;
    deb | wheel | container) $what ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done

#!/usr/bin/env bash
# Installs and uses /test/earlier.deb in a clean Debian with its own namespaces, upgrades it to /test/lasthop.deb, uses that, and removes
# and purges it. Called by scripts/dist-test.sh with the version.
set -euo pipefail
version=$1
exec </dev/null

step() {
    echo "    $*" >&2
}
fail() {
    echo "dist-test: $*" >&2
    exit 1
}
# Waits for a condition, at most ten seconds.
until_true() {
    for _ in $(seq 100); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "not within ten seconds: $*"
}
apt() {
    # There is no network, so the dependencies of the package must be installed already.
    apt-get --quiet=2 --yes --option Dpkg::Options::=--force-confold "$@" >/tmp/apt.log 2>&1 ||
        { cat /tmp/apt.log >&2; fail "apt-get $*"; }
}
# Prints all files with owner, mode and content, users and packages, except caches, logs and backup copies, which any package
# changes.
state() {
    local apart=('(' -path /test -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -name .pwd.lock
        -o -regex '/etc/\(passwd\|group\|shadow\|gshadow\)-?' ')' -prune)
    find / -xdev "${apart[@]}" -o -printf '%y %m %U:%G %p %l\n' | sort
    find / -xdev "${apart[@]}" -o -type f -print0 | sort --zero-terminated | xargs --null md5sum
    sort /etc/passwd /etc/group
    cut -d : -f 1,2 /etc/shadow /etc/gshadow | sort
    find /var/lib/dpkg -name '*lasthop*'
    dpkg-query --show --showformat '${binary:Package} ${Version} ${Status}\n'
}

clean=$(state)
ip link set lo up

step "installed"
apt install /test/earlier.deb
id lasthop >/dev/null || fail "there is no user lasthop"
getent passwd lasthop | grep -q ':/usr/sbin/nologin$' || fail "the user may log in"
for unit in lasthop-gateway lasthop-tunnel; do
    [ "$(systemctl is-enabled "$unit" || true)" = disabled ] || fail "$unit is enabled"
done
[ ! -e /run/lasthop ] || fail "something was started"
# The programs and users that the units name exist.
systemd-analyze verify lasthop-gateway.service lasthop-tunnel.service 2>/tmp/verify || { cat /tmp/verify >&2; fail "systemd-analyze verify"; }
! grep lasthop /tmp/verify >&2 || fail "systemd-analyze verify"

step "read: version, help, manual pages, completions"
[[ "$(lasthop --version)" = "lasthop $version ("* ]] || fail "--version: $(lasthop --version)"
! ldd "$(command -v lasthop)" | grep 'not found' || fail "libraries are missing"
lasthop man --out /tmp/pages
for page in /tmp/pages/*.1; do
    name=$(basename "$page" .1)
    man --where "$name" >/dev/null || fail "no manual page $name"
    LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings "$name" 2>&1 >/dev/null | { ! grep . >&2; } || fail "the page $name has mistakes"
    # shellcheck disable=SC2046 # One word for each command.
    [ "$name" = lasthop ] || lasthop help $(sed -n 's/^\\fBlasthop \([a-z ]*\)\\fR.*/\1/p' "$page" | head -n 1) >/dev/null || fail "no help on $name"
done
bash -c '. /usr/share/bash-completion/completions/lasthop && complete -p lasthop' >/dev/null || fail "completions for bash"

step "used: simulator, gateway, tunnel"
lasthop compare wavelan-lan --runs 2 --schemes E2E,LL >/tmp/compare
grep -q E2E /tmp/compare || fail "compare: $(cat /tmp/compare)"
ip link add wlan0 type veth peer name air0
ip link set wlan0 up
lasthop gateway check /etc/lasthop/gateway.toml >/tmp/check || { cat /tmp/check >&2; fail "gateway check"; }
lasthop gateway run /etc/lasthop/gateway.toml 2>/tmp/gateway.log &
gateway=$!
until_true lasthop gateway status
iptables-save | grep -q LASTHOP || fail "the gateway set no rules"
grep -lq "^Uid:[[:space:]]*$(id -u lasthop)[[:space:]]" /proc/[0-9]*/status || fail "no process is of user lasthop"
lasthop gateway report >/dev/null
lasthop gateway reload
kill "$gateway"
wait "$gateway" || fail "the gateway: $(cat /tmp/gateway.log)"
! iptables-save | grep LASTHOP || fail "the gateway left rules"
lasthop tunnel keygen /etc/lasthop/tunnel.key >/dev/null
lasthop tunnel check /etc/lasthop/tunnel.toml >/tmp/check || { cat /tmp/check >&2; fail "tunnel check"; }
lasthop tunnel run /etc/lasthop/tunnel.toml 2>/tmp/tunnel.log &
tunnel=$!
until_true lasthop tunnel status
ip addr show dev lasthop0 | grep -q 10.20.0.1/24 || fail "the tunnel has no device"
kill "$tunnel"
wait "$tunnel" || fail "the tunnel: $(cat /tmp/tunnel.log)"

step "used: from a measurement to a configuration"
lasthop probe keygen /tmp/probe.key >/dev/null
lasthop probe serve --key /tmp/probe.key >/tmp/serve.log 2>&1 &
serve=$!
iptables --append INPUT --protocol udp --match statistic --mode random --probability 0.03 --jump DROP
until_true grep -q listening /tmp/serve.log
lasthop probe 127.0.0.1 --key /tmp/probe.key --seconds 10 --max-rate "20 Mbps" --out /tmp/found >/tmp/probe.log 2>&1 || { cat /tmp/probe.log /tmp/serve.log >&2; fail "probe"; }
kill "$serve"
iptables --flush INPUT
lasthop fit /tmp/found --out /tmp/link.toml >/tmp/fit.log 2>&1 || { cat /tmp/fit.log >&2; fail "fit"; }
# Loopback has no delay, so there is nothing to cure; a radio link has one.
lasthop advise /tmp/link.toml --runs 1 >/tmp/advise.log 2>&1 || { cat /tmp/advise.log >&2; fail "advise"; }
lasthop advise farm-radio --interface wlan0 --runs 2 --out /tmp/advice.toml >/tmp/advise.log 2>&1 || { cat /tmp/advise.log >&2; fail "advise"; }
lasthop gateway check /tmp/advice.toml >/tmp/check || { cat /tmp/check >&2; fail "gateway check on what advise wrote"; }

step "used: from a link to its cure and to the proof, in namespaces"
bash /test/cure.sh /usr/share/doc/lasthop/examples/lossy-hop.toml /test/cure.log

step "upgraded: what the administrator changed stays, the rest is new"
echo "# The administrator's line." >>/etc/lasthop/gateway.toml
cp /etc/lasthop/gateway.toml /tmp/edited.toml
apt install /test/lasthop.deb
dpkg --verify lasthop | { ! grep -v 'c /etc/lasthop/gateway.toml$' >&2; } || fail "files are not the package's"
cmp /etc/lasthop/gateway.toml /tmp/edited.toml || fail "the upgrade changed the administrator's file"
[ -e /etc/lasthop/gateway.toml.dpkg-dist ] || fail "the upgrade did not leave its own file beside"
! grep 'later versions lack' /etc/lasthop/tunnel.toml || fail "the upgrade did not renew an untouched file"
[[ "$(lasthop --version)" = "lasthop $version ("* ]] || fail "--version after the upgrade"
id lasthop >/dev/null || fail "the user is gone after the upgrade"

step "removed: the configuration stays"
apt remove lasthop
hash -r
! command -v lasthop || fail "the program is still there"
cmp /etc/lasthop/gateway.toml /tmp/edited.toml || fail "the removal took the configuration"
[ ! -e /run/lasthop ] || fail "/run/lasthop is left: $(ls /run/lasthop)"

step "purged: nothing stays"
# The administrator created the key, so the package leaves it.
rm /etc/lasthop/tunnel.key
apt purge lasthop
ip link delete wlan0
diff <(echo "$clean") <(state) || fail "something is left"

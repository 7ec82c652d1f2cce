#!/usr/bin/env bash
# Tests the services in a clean Debian that systemd has booted: those of /test/earlier.deb do not start automatically, start on
# request, are restarted by the upgrade to /test/lasthop.deb, and stop when the package is removed. Called by scripts/dist-test.sh.
set -euo pipefail
exec </dev/null
services=(lasthop-gateway lasthop-tunnel)

step() {
    echo "    $*" >&2
}
fail() {
    echo "dist-test: $*" >&2
    journalctl --no-pager --lines 30 --output cat "${services[@]/#/--unit=}" >&2 || true
    exit 1
}
apt() {
    apt-get --quiet=2 --yes --option Dpkg::Options::=--force-confold "$@" >/tmp/apt.log 2>&1 ||
        { cat /tmp/apt.log >&2; fail "apt-get $*"; }
}
process() {
    systemctl show --property MainPID --value "$1"
}
# Fails unless the service answers, its worker belongs to user lasthop, and systemd reports it as active.
is_well() {
    systemctl is-active --quiet "$1" || fail "$1 is not active"
    lasthop "${1#lasthop-}" status >/dev/null || fail "$1 does not answer"
    systemctl status --no-pager "$1" >/tmp/status
    local process found=
    for process in $(cat "/sys/fs/cgroup/systemd/system.slice/$1.service/cgroup.procs" 2>/dev/null ||
        cat "/sys/fs/cgroup/system.slice/$1.service/cgroup.procs"); do
        if grep -q "^Uid:[[:space:]]*$(id -u lasthop)[[:space:]]" "/proc/$process/status"; then
            found=yes
        fi
    done
    [ -n "$found" ] || fail "$1 has no process of user lasthop: $(cat /tmp/status)"
}

ip link add wlan0 type veth peer name air0
ip link set wlan0 up

step "booted: installed, and nothing starts"
apt install /test/earlier.deb
for service in "${services[@]}"; do
    [ "$(systemctl is-enabled "$service" || true)" = disabled ] || fail "$service is enabled"
    [ "$(systemctl is-active "$service" || true)" = inactive ] || fail "$service is active"
done

step "booted: enabled, started, reloaded"
lasthop tunnel keygen /etc/lasthop/tunnel.key >/dev/null
for service in "${services[@]}"; do
    systemctl --quiet enable --now "$service" || fail "$service does not start"
    is_well "$service"
    systemctl reload "$service" || fail "$service does not reload"
done
iptables-save | grep -q LASTHOP || fail "the gateway set no rules"
ip link show lasthop0 >/dev/null || fail "the tunnel has no device"
# The administrator stops the tunnel.
systemctl stop lasthop-tunnel
before=$(process lasthop-gateway)

step "booted: upgraded, which starts anew what ran"
apt install /test/lasthop.deb
[ "$(process lasthop-gateway)" != "$before" ] || fail "the upgrade left the earlier version running"
is_well lasthop-gateway
[ "$(systemctl is-active lasthop-tunnel || true)" = inactive ] || fail "the upgrade started what was off"
systemctl start lasthop-tunnel
is_well lasthop-tunnel

step "booted: removed and purged while both run"
apt remove lasthop
! grep -lx lasthop /proc/[0-9]*/comm || fail "processes are left"
! iptables-save | grep LASTHOP || fail "rules are left"
! ip link show lasthop0 2>/dev/null || fail "the device is left"
[ ! -e /run/lasthop ] || fail "/run/lasthop is left: $(ls /run/lasthop)"
apt purge lasthop
! find /etc/systemd /var/lib/systemd -name '*lasthop*' | grep . || fail "links to the services are left"
! id lasthop 2>/dev/null || fail "the user is left"

#!/usr/bin/env bash
# Follows docs/from-link-to-cure.md between namespaces, in a clean Debian that has only the package installed: from a link to its cure
# and to the proof. Logs commands and answers, which that page shows. Called by scripts/dist-test-debian.sh with the scenario of the hop
# and the log file.
set -euo pipefail
hop=$1
log=$2
exec </dev/null
work=$(mktemp -d)
cd "$work"
: >"$log"

fail() {
    cat "$log" >&2
    echo "dist-test: $*" >&2
    exit 1
}
# Runs a command as a user would, and logs it with its output, without progress.
ask() {
    echo "    $*" >>"$log"
    bash -c "$*" >answer 2>errors || { cat answer errors >>"$log"; fail "status $?: $*"; }
    { grep -v '^probe: measuring' errors || true; cat answer; } >>"$log"
}
# Waits for a text in a file, at most ten seconds.
says() {
    for _ in $(seq 100); do
        grep -q "$2" "$1" && return
        sleep 0.1
    done
    fail "$1 does not say '$2': $(cat "$1")"
}
running=()
finish() {
    # The lab ends last, because the others run in its namespaces.
    for ((at = ${#running[@]} - 1; at >= 0; at--)); do
        kill -TERM "${running[at]}" 2>/dev/null || continue
        wait "${running[at]}" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT

lasthop lab hold "$hop" >lab 2>&1 &
running+=($!)
says lab '^gateway '
cat lab >>"$log"
node() {
    awk -v name="$1" -v column="$2" '$1 == name { print $column }' lab
}
SERVER=$(node server 2) GATEWAY=$(node gateway 2) PHONE=$(node phone 2)
export SERVER GATEWAY PHONE

ask 'lasthop probe keygen probe.key'
ip netns exec "$GATEWAY" lasthop probe serve --key probe.key >serve 2>&1 &
running+=($!)
says serve listening
ask "ip netns exec \$PHONE lasthop probe $(node gateway 3) --key probe.key --seconds 30 --out found"
ask 'lasthop fit found --wire-delay "10 ms" --out link.toml'
ask 'lasthop advise link.toml --for bulk --control box --interface link1 --out gateway.toml'
grep -Eq '^Advice: (SNOOP|SPLIT-BBR) ' answer || fail "no box is advised"
# With this share, a few connections are enough.
ask "sed -i 's/ab = \"10 %\"/ab = \"50 %\"/' gateway.toml"
ask 'ip netns exec $GATEWAY lasthop gateway check gateway.toml'

ip netns exec "$GATEWAY" lasthop gateway run gateway.toml >gateway 2>&1 &
running+=($!)
says gateway 'gateway started'
ask 'lasthop gateway report --promise gateway.promise.json'
# 6 is TCP, 13 is TCP_CONGESTION.
cat >server.pl <<'END'
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalPort => 5001, Listen => 8, ReuseAddr => 1) or die $!;
setsockopt($listener, 6, 13, "cubic") or die $!;
$| = 1;
print "listening\n";
while (my $client = $listener->accept) { print $client "x" x 5e6; close $client }
END
ip netns exec "$SERVER" perl server.pl >server 2>&1 &
running+=($!)
says server listening
download() {
    local bytes
    bytes=$(timeout 120 ip netns exec "$PHONE" bash -c "cat </dev/tcp/$(node server 3)/5001 | wc -c") || fail "a download: $(cat server)"
    [ "$bytes" = 5000000 ] || fail "a download of $bytes bytes"
}
# A comparison needs two connections of each kind, and the kind is random; more connections make the interval narrower.
for round in 12 6 6 6 6; do
    for _ in $(seq $round); do
        download
    done
    lasthop gateway report --promise gateway.promise.json >proof
    grep -q 'measured [0-9.]* (.*): kept' proof && break
done
ask 'lasthop gateway report --promise gateway.promise.json'
# The gain also depends on the load of the machine, so any gain passes.
awk '/ times as fast/ && /treated/ { for (at = 1; at < NF; at++) if ($(at + 1) == "times") good = $at > 1 } END { exit !good }' answer || fail "the cure gains nothing"
ask 'lasthop gateway report --link watched.toml --rate "6 Mbps"'
ask 'lasthop advise watched.toml --for bulk --control box'

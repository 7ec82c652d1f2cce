#!/usr/bin/env python3
"""Compares counts of `lasthop diagnose` in captures with tshark and tcptrace, where they have the same definition.

    python3 benches/peers/diagnose.py                        # captures of simulated links: at the sender, a gateway, the receiver
    python3 benches/peers/diagnose.py --require all          # exit 1 as well when a peer is not installed
    python3 benches/peers/diagnose.py hop.pcap other.pcapng  # captures of your own

| measure | tshark | tcptrace | lasthop diagnose |
|---|---|---|---|
| not in order | tcp.analysis.retransmission, fast_retransmission, spurious_retransmission or out_of_order | rexmt and outoforder data packets | retransmissions, losses before the capture, reordered |
| repeated | has no such field: it tells retransmissions from disorder by time | rexmt data packets | retransmissions |
| least RTT at the sender, ms | the least tcp.analysis.ack_rtt | RTT min (0.1 ms fine) | rtt_ms |

Packets are counted by direction, for flows of at least 100 packets with data. Counts agree if they differ by at most 1
% and by at most one in a hundred packets that are not in order, round-trip times if they differ by 1 % or 0.1 ms. The
exit status is 1 if they do not.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

SCENARIO = """
title = "A link"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.phone]
[routers.tower]
[links.internet]
between = ["server", "tower"]
rate = "1 Gbps"
delay = "10 ms"
[links.radio]
between = ["tower", "phone"]
rate = "{rate}"
delay = "5 ms"
queue = "{queue} packets"
errors = {errors}
[flows.download]
from = "server"
to = "phone"
size = "{size}"
[base_station]
router = "tower"
link = "radio"
"""
LINKS = {
    "independent": dict(rate="10 Mbps", queue=60, size="6 MB", errors='{ model = "uniform", frame_loss = "2 %" }'),
    "overflow": dict(rate="8 Mbps", queue=20, size="6 MB", errors='{ model = "none" }'),
    "bursts": dict(
        rate="20 Mbps", queue=80, size="6 MB", errors='{ model = "two-state-packet", good_to_bad = 0.004, bad_to_good = 0.25 }'
    ),
}
POINTS = {"sender": "server", "gateway": "tower:radio", "receiver": "phone"}
LEAST = 100
PEERS = ("tshark", "tcptrace")


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def made(args, folder):
    """Yields captures of simulated links."""
    for name, link in LINKS.items():
        scenario = os.path.join(folder, f"{name}.toml")
        with open(scenario, "w", encoding="utf-8") as out:
            out.write(SCENARIO.format(**link))
        for place, point in POINTS.items():
            capture = os.path.join(folder, f"{name}-{place}.pcapng")
            output([args.lasthop, "trace", scenario, "--scheme", "E2E-CUBIC", "--pcapng", capture, "--point", point])
            yield capture


def of_lasthop(args, capture):
    """Returns the results by direction, with address and port of both ends."""
    report = json.loads(output([args.lasthop, "diagnose", "--json", capture]))["captures"][0]
    found = {}
    for flow in report["flows"]:
        for direction in flow["directions"]:
            if direction["packets"] < LEAST:
                continue
            before = sum(1 for loss in direction["losses"] if loss["side"] == "before" and loss["needless"] is None)
            found[direction["from"], direction["to"]] = {
                "not in order": direction["retransmissions"] + before + direction["reordered"],
                "repeated": direction["retransmissions"],
                "least RTT": direction["rtt_ms"] if direction["vantage"] == "sender" else None,
            }
    return found


def joined(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def of_tshark(tool, capture):
    fields = [
        "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.len", "tcp.analysis.retransmission",
        "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission", "tcp.analysis.out_of_order", "tcp.analysis.ack_rtt",
    ]
    command = [tool, "-n", "-r", capture, "-Y", "tcp", "-T", "fields", "-E", "separator=|"]
    for field in fields:
        command += ["-e", field]
    found = {}
    for line in output(command).splitlines():
        row = dict(zip(fields, line.split("|")))
        source, target = row["ip.src"] or row["ipv6.src"], row["ip.dst"] or row["ipv6.dst"]
        key = joined(source, row["tcp.srcport"]), joined(target, row["tcp.dstport"])
        one = found.setdefault(key, {"not in order": 0, "repeated": None, "least RTT": None})
        flags = fields[7:11]
        one["not in order"] += int(row["tcp.len"] not in ("", "0") and any(row[flag] for flag in flags))
        if row["tcp.analysis.ack_rtt"]:
            # The acknowledgment times data of the other direction.
            other = found.setdefault(key[::-1], {"not in order": 0, "repeated": None, "least RTT": None})
            trip = 1e3 * float(row["tcp.analysis.ack_rtt"])
            other["least RTT"] = trip if other["least RTT"] is None else min(other["least RTT"], trip)
    return found


def of_tcptrace(tool, capture):
    found, hosts = {}, {}
    ends = None
    for line in output([tool, "-lnr", capture]).splitlines():
        if re.match(r"TCP connection \d+:", line):
            hosts, ends = {}, None
        if named := re.match(r"\s*host (\w+):\s+(\S+):(\d+)\s*$", line):
            hosts[named[1]] = joined(named[2], named[3])
            if len(hosts) == 2:
                ends = list(hosts.values())
                for key in (tuple(ends), tuple(ends[::-1])):
                    found[key] = {"not in order": 0, "repeated": 0, "least RTT": None}
        if ends is None:
            continue
        both = tuple(ends), tuple(ends[::-1])
        if counts := re.match(r"\s*(rexmt data pkts|outoforder pkts):\s+(\d+)\s+\1:\s+(\d+)", line):
            for key, count in zip(both, counts.groups()[1:]):
                found[key]["not in order"] += int(count)
                found[key]["repeated"] += int(count) if counts[1].startswith("rexmt") else 0
        if trips := re.match(r"\s*RTT min:\s+([\d.]+) ms\s+RTT min:\s+([\d.]+) ms", line):
            for key, trip in zip(both, trips.groups()):
                found[key]["least RTT"] = float(trip) or None
    return found


def agree(measure, mine, theirs):
    if measure == "least RTT":
        return abs(mine - theirs) <= max(0.1, 0.01 * theirs)
    return abs(mine - theirs) <= max(1, 0.01 * theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", help="captures [default: of simulated links]")
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")))
    for peer in PEERS:
        parser.add_argument(f"--{peer}", default=os.environ.get(peer.upper(), peer), help=f"the program [default: {peer} or ${peer.upper()}]")
    parser.add_argument("--require", choices=["all"], help="exit 1 when a peer is not installed")
    args = parser.parse_args()
    if shutil.which(args.lasthop) is None:
        sys.exit(f"{args.lasthop}: no such program; cargo build --release, or give --lasthop")
    tools = {peer: shutil.which(getattr(args, peer)) for peer in PEERS}
    missing = [peer for peer, tool in tools.items() if tool is None]
    for peer in missing:
        print(f"!!! SKIPPED: {peer} is not installed; nothing is compared with it", file=sys.stderr)
    readers = {"tshark": of_tshark, "tcptrace": of_tcptrace}
    compared, differing = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'capture':28} {'measure':13} {'lasthop':>10} " + " ".join(f"{peer:>10}" for peer in PEERS))
        for capture in args.captures or made(args, folder):
            mine = of_lasthop(args, capture)
            theirs = {peer: readers[peer](tool, capture) for peer, tool in tools.items() if tool}
            for key, measures in mine.items():
                for measure, value in measures.items():
                    cells = []
                    for peer in PEERS:
                        other = theirs.get(peer, {}).get(key, {}).get(measure)
                        if value is None or other is None:
                            cells.append("-")
                            continue
                        compared += 1
                        same = agree(measure, value, other)
                        differing += not same
                        cells.append(f"{other:g}" + ("" if same else " !"))
                    shown = "-" if value is None else f"{value:g}"
                    name = os.path.basename(capture)
                    print(f"{name:28} {measure:13} {shown:>10} " + " ".join(f"{cell:>10}" for cell in cells))
    print(f"{compared} figures compared, {differing} differ")
    if differing or (missing and args.require):
        sys.exit(1)


if __name__ == "__main__":
    main()

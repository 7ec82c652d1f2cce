#!/usr/bin/env python3
"""Measures a tunnel between two bridges over two emulated lines with this kernel's CUBIC, and prints a row for each case.

    sudo python3 benches/live/tunnel_bridge.py                  # transfers over each line and over both: 3 minutes
    sudo python3 benches/live/tunnel_bridge.py --measure cut    # failover of a call: 2 minutes

    hub -- [lan br0 line-a ~~~~~ line-a br0 lan] -- van         The lines are carried by cable.py. The second is no port of
            [line-b ~~~~~~~~~~~ line-b]                         the bridges. The hub sends.

pairs   transfer over both lines, beside one over each line alone
cut     datagrams 50 times a second, as of a call, while each line in turn carries nothing for 5 s

A transfer is the median over the runs of what the receiver reads per second within --seconds.
"""
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time

from common import HERE, Program, arguments, check_machine, end, end_with, fail, go_first, note, percentile, run, table
from tunnel_paths import SEND, SHARE, shown

LINES = "ab"
PORT = 5001
ADDRESSES = {"hub": "10.99.0.1", "van": "10.99.0.2"}
# Rate in Mbps, one-way delay in ms and queue in KiB of each line.
CASES = {
    "equal": ((20, 10, 100), (20, 10, 100)),
    "unequal": ((20, 10, 100), (10, 30, 100)),
}
# Fits packets of 1500 bytes in the tunnel's frames.
MTU = "1552"


def bridge(end):
    return f"{end}-bridge"


def device(line):
    """Returns the name of the interface of either bridge."""
    return f"line-{line}"


@contextlib.contextmanager
def network():
    """Yields the namespaces by name: hosts, bridges, and what is between them."""
    names = {name: f"lasthop-bridged-{os.getpid()}-{name}" for name in (*ADDRESSES, *map(bridge, ADDRESSES), "between")}
    try:
        for name in names.values():
            run("ip", "netns", "add", name)
            run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6", namespace=name)
            run("ip", "link", "set", "lo", "up", namespace=name)
        for host, address in ADDRESSES.items():
            here = names[bridge(host)]
            run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0", namespace=here)
            run("ip", "link", "add", "name", "lan", "type", "veth", "peer", "name", "eth0", "netns", names[host], namespace=here)
            for line in LINES:
                run("ip", "link", "add", "name", device(line), "mtu", MTU, "type", "veth", "peer", "name", f"{host}-{line}", "mtu", MTU, "netns", names["between"],
                    namespace=here)
                run("ip", "link", "set", f"{host}-{line}", "up", namespace=names["between"])
                run("ip", "link", "set", device(line), "up", namespace=here)
            for port in ("lan", device(LINES[0])):
                run("ip", "link", "set", port, "master", "br0", "up", namespace=here)
            run("ip", "link", "set", "br0", "up", namespace=here)
            run("ip", "addr", "add", f"{address}/24", "dev", "eth0", namespace=names[host])
            run("ip", "link", "set", "eth0", "up", namespace=names[host])
        yield names
    finally:
        for name in names.values():
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "del", name)


def file_of(args, folder, host, key, rates):
    """Writes the file of an end, with a path for each of `rates` in Mbps by line, and returns its name."""
    other = "van" if host == "hub" else "hub"
    first = next(iter(rates))
    paths = "".join(f'[[peer.path]]\nname = "{line}"\nrate = "{rate * SHARE:.3f} Mbps"\ninterface = "{device(line)}"\n' for line, rate in rates.items())
    path = os.path.join(folder, f"{host}.toml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'mode = "bridge"\ninterface = "{device(first)}"\nprivate_key_file = "{folder}/{host}.key"\ncontrol = "{folder}/{host}.sock"\nlog = "warn"\n'
                  f'[[peer]]\nname = "{other}"\npublic_key = "{key}"\nsilence = "{args.silence}"\n'
                  + (f'multipath = "{args.multipath}"\n' if len(rates) > 1 else "") + paths)
    return path


def status(args, folder, host="hub"):
    """Returns what one end knows of the other."""
    return json.loads(run(args.lasthop, "tunnel", "status", "--json", "--control", os.path.join(folder, f"{host}.sock")))["peers"][0]


def await_paths(args, folder, names):
    """Waits until all paths are in use."""
    peer = None
    for _ in range(100):
        # Paths are probed while there is traffic.
        for one, other in (("van", "hub"), ("hub", "van")):
            run(sys.executable, "-c", SEND, ADDRESSES[other], namespace=names[one])
        time.sleep(0.2)
        with contextlib.suppress(RuntimeError):
            peer = status(args, folder)
            if peer["up"] and peer["mtu"] >= 1500 and all(path["state"] not in ("down", "unused", "untried") for path in peer["paths"]):
                return
    raise RuntimeError(f"the tunnel does not use all of its paths: {peer}")


@contextlib.contextmanager
def tunnel(args, lines):
    """Yields a folder with the control sockets, the cables, and the namespaces, with a tunnel over `lines`: rate, delay and
    queue by name."""
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, network() as names, contextlib.ExitStack() as stack:
        cables = {}
        for line, (rate, delay, queue) in lines.items():
            command = (sys.executable, os.path.join(HERE, "cable.py"), f"hub-{line}", f"van-{line}", str(rate), str(delay), str(queue))
            cables[line] = stack.enter_context(Program(names["between"], *command))
            cables[line].line()
        for host in ADDRESSES:
            # A line alone is the port of the bridge.
            first = next(iter(lines))
            run("ip", "link", "set", device(first), "master", "br0", namespace=names[bridge(host)])
            for other in LINES:
                if other != first:
                    run("ip", "link", "set", device(other), "nomaster", namespace=names[bridge(host)])
        keys = {host: run(args.lasthop, "tunnel", "keygen", os.path.join(folder, f"{host}.key")).strip() for host in ADDRESSES}
        for host, other in (("hub", "van"), ("van", "hub")):
            file = file_of(args, folder, host, keys[other], {line: rate for line, (rate, _, _) in lines.items()})
            stack.enter_context(Program(names[bridge(host)], args.lasthop, "tunnel", "run", file))
        await_paths(args, folder, names)
        yield folder, cables, names
        if args.details:
            note(json.dumps(status(args, folder)))


def transfer(args, lines):
    """Returns the throughput from hub to van in Mbps, the median of the runs."""
    results = []
    for _ in range(args.runs):
        with tunnel(args, lines) as (_, _, names), end(names["van"], "receive", PORT, args.seconds) as receiver:
            receiver.line()
            with end(names["hub"], "send", ADDRESSES["van"], PORT, "cubic"):
                results.append(receiver.result(args.seconds + 40)["bytes"] * 8e-6 / args.seconds)
    return statistics.median(results)


def pairs(args, lines):
    """Returns the throughputs over each line and over both, beside the sum of the rates."""
    first, second, both = (transfer(args, {line: lines[line] for line in some}) for some in (*lines, lines))
    total = sum(rate for rate, _, _ in lines.values())
    return {"sum of rates": total, "first": first, "second": second, "both": both, "of the sum, %": 100 * both / total}


def cut(args, lines):
    """Returns what a call loses while each line in turn carries nothing, and its longest gap."""
    with tunnel(args, lines) as (folder, cables, names):
        seconds = 5 + 10 * len(cables)
        with end(names["van"], "hear", PORT, seconds + 2) as receiver:
            receiver.line()
            with end(names["hub"], "call", ADDRESSES["van"], PORT, seconds, 50) as sender:
                time.sleep(5)
                for cable in cables.values():
                    for what in (signal.SIGUSR1, signal.SIGUSR2):
                        os.kill(cable.pid, what)
                        time.sleep(5)
                sent = sender.result(seconds + 40)["sent"]
            heard = receiver.result(seconds + 40)
        # How often an end was taken for silent, and frames that therefore bypassed the tunnel.
        silences, plain = (sum(status(args, folder, host)[key] for host in ADDRESSES) for key in ("silences", "plain"))
    return {"sent": sent, "silences": silences, "bypassed": plain, "lost": sent - len(heard["numbers"]), "longest_gap_ms": heard["longest_gap_ms"], "p99_ms": percentile(heard["delays_ms"], 99)}


MEASURES = {measure.__name__: measure for measure in (pairs, cut)}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--measure", choices=MEASURES, default="pairs", help="what to measure (default pairs)")
    parser.add_argument("--cases", default="all", help=f"names, separated by commas (default all: {', '.join(CASES)})")
    parser.add_argument("--runs", type=int, default=1, help="runs of each transfer (default 1)")
    parser.add_argument("--seconds", type=float, default=16, help="duration of a transfer (default 16)")
    parser.add_argument("--multipath", default="bond", help='use of two lines: "bond", "redundant" or "failover" (default "bond")')
    parser.add_argument("--silence", default="100 ms", help='time after which the other end counts as gone (default "100 ms")')
    parser.add_argument("--details", action="store_true", help="print the hub's status at the end")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    check_machine(args)
    names = list(CASES) if args.cases == "all" else args.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        fail(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    go_first()
    results = []
    for name in names:
        results.append({"lines": name, **MEASURES[args.measure](args, dict(zip(LINES, CASES[name])))})
        note(json.dumps(results[-1]))
    if args.json:
        print(json.dumps(results))
    else:
        table(list(results[0]), [list(map(shown, row.values())) for row in results])
    return 0


if __name__ == "__main__":
    end_with(main)

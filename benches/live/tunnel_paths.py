#!/usr/bin/env python3
"""Measures a tunnel over two emulated lines beside one over the better line alone, with this kernel's CUBIC, and prints a
row for each profile of benches/moving/bundles.py, which simulates them.

    sudo python3 benches/live/tunnel_paths.py                                # all profiles: 20 minutes
    sudo python3 benches/live/tunnel_paths.py --profiles baseline,loss_2 --runs 3
    sudo python3 benches/live/tunnel_paths.py --cut                          # failover: each line is cut for 5 s

    hub -- a1 ~~~~~ a2 -- van        Each line is a lab of its own, held open by `lasthop lab hold`. The tunnel's ends are
     \\--- b1 ~~~~~ b2 ---/          hub and van; the hub sends.

A cell is the median over the runs of what the receiver reads per second within --seconds. Runs in which a line was late
are repeated. --cut sends a datagram every 5 ms through the tunnel, as a call does, cuts and restores each line in turn,
and prints how many of them were lost, and the longest gap between arrivals.
"""
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

from common import ROOT, Program, arguments, check_machine, chosen, end, end_with, go_first, note, percentile, run, table

sys.path.insert(0, os.path.join(ROOT, "benches", "moving"))
import bundles as simulated  # noqa: E402

LINES = "ab"
PORT = 5001
# Share of a line's rate at which the tunnel sends.
SHARE = 0.97
ATTEMPTS = 3
SEND = "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'probe', (sys.argv[1], 9))"
INNER = {"hub": "10.99.0.1", "van": "10.99.0.2"}


def device(line):
    return f"line-{line}"


def line_scenario(profile, line):
    link = simulated.link("line", *profile[2 + LINES.index(line)])
    return f"""title = "Line {line}"
[lab]
settings = "kernel"
[hosts.near]
[hosts.far]
{link}[flows.bulk]
from = "near"
to = "far"
size = "12 MB"
"""


class Line:
    """An emulated line between two namespaces, with a cable to `hub` at one end and to `van` at the other."""

    def __init__(self, args, folder, profile, line, seed):
        file = os.path.join(folder, f"{line}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(line_scenario(profile, line))
        self.program = Program(None, args.lasthop, "lab", "hold", file, "--scheme", "E2E", "--json", "--seed", str(seed), "--set", f"lab.lateness={args.lateness}")
        self.line, self.number = line, LINES.index(line)

    def __enter__(self):
        self.nodes = json.loads(self.program.line())["nodes"]
        return self

    def __exit__(self, *_):
        self.program.stop()

    @property
    def device(self):
        """Name of the interface of either end."""
        return device(self.line)

    def outer(self, end):
        """Returns an end's address on this line."""
        return f"10.{71 if end == 'van' else 81}.{self.number}.1"

    def connect(self, outside):
        """Connects the line's nodes to the ends' namespaces, and routes between these."""
        for node, end in (("near", "hub"), ("far", "van")):
            inside, space = self.nodes[node]["namespace"], outside[end]
            run("ip", "link", "add", "name", self.device, "type", "veth", "peer", "name", "cable", "netns", inside, namespace=space)
            network = self.outer(end)[:-1]
            run("ip", "addr", "add", f"{network}1/30", "dev", self.device, namespace=space)
            run("ip", "addr", "add", f"{network}2/30", "dev", "cable", namespace=inside)
            run("ip", "link", "set", self.device, "up", namespace=space)
            run("ip", "link", "set", "cable", "up", namespace=inside)
            run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done", namespace=inside)
        for node, other, end in (("near", "far", "van"), ("far", "near", "hub")):
            route = run("ip", "-o", "route", "get", self.nodes[other]["address"], namespace=self.nodes[node]["namespace"]).split()
            run("ip", "route", "replace", f"{self.outer(end)[:-1]}0/30", "via", self.nodes[other]["address"], "dev", route[route.index("dev") + 1], "onlink",
                namespace=self.nodes[node]["namespace"])
        for end, other in (("hub", "van"), ("van", "hub")):
            run("ip", "route", "replace", f"{self.outer(other)[:-1]}0/30", "via", f"{self.outer(end)[:-1]}2", "dev", self.device, namespace=outside[end])

    def close(self):
        """Closes the line; returns its results."""
        return json.loads(self.program.stop().strip().splitlines()[-1])


def file_of(args, folder, end, key, lines, rates):
    other = "van" if end == "hub" else "hub"
    path = os.path.join(folder, f"{end}.toml")
    use = f'multipath = "{args.multipath}"\n' if len(lines) > 1 else ""
    paths = ""
    for line in lines:
        rate = args.rate or f"{rates[line] * SHARE:.3f} Mbps"
        call = f'endpoint = "10.81.{LINES.index(line)}.1:51900"\ninterface = "{device(line)}"\n' if end == "van" else ""
        paths += f'[[peer.path]]\nname = "{line}"\nrate = "{rate}"\n{call}'
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'listen = "0.0.0.0:51900"\nprivate_key_file = "{folder}/{end}.key"\naddress = "{INNER[end]}/24"\ncontrol = "{folder}/{end}.sock"\nlog = "warn"\n'
                  f'[[peer]]\nname = "{other}"\npublic_key = "{key}"\nallowed = ["{INNER[other]}"]\nkeepalive = "1 s"\n{use}{paths}')
    return path


@contextlib.contextmanager
def namespaces():
    names = {end: f"lasthop-paths-{os.getpid()}-{end}" for end in INNER}
    try:
        for name in names.values():
            run("ip", "netns", "add", name)
            run("ip", "link", "set", "lo", "up", namespace=name)
        yield names
    finally:
        for name in names.values():
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "del", name)


@contextlib.contextmanager
def tunnel(args, folder, outside, lines, rates):
    """Runs both ends over these lines, and waits until all paths are in use."""
    keys = {end: run(args.lasthop, "tunnel", "keygen", os.path.join(folder, f"{end}.key")).strip() for end in INNER}
    with contextlib.ExitStack() as stack:
        for end, other in (("hub", "van"), ("van", "hub")):
            file = file_of(args, folder, end, keys[other], lines, rates)
            stack.enter_context(Program(outside[end], args.lasthop, "tunnel", "run", file))
        def status():
            return json.loads(run(args.lasthop, "tunnel", "status", "--json", "--control", os.path.join(folder, "hub.sock")))["peers"][0]
        for _ in range(60):
            # Paths are probed while there is traffic.
            for one, other in (("van", "hub"), ("hub", "van")):
                run(sys.executable, "-c", SEND, INNER[other], namespace=outside[one])
            time.sleep(0.2)
            with contextlib.suppress(RuntimeError):
                peer = status()
                if peer["up"] and peer["mtu"] == 1442 and all(path["state"] not in ("down", "unused") for path in peer["paths"]):
                    break
        else:
            raise RuntimeError(f"the tunnel does not use all of its paths: {status()}")
        yield status


def measure(args, profile, lines, run_number):
    """Returns the throughput of a transfer from hub to van in Mbps, or `None` if a line was late."""
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, namespaces() as outside, contextlib.ExitStack() as stack:
        held = [stack.enter_context(Line(args, folder, profile, line, args.seed + 10 * run_number + LINES.index(line))) for line in lines]
        for line in held:
            line.connect(outside)
        rates = {line: profile[2 + LINES.index(line)][3] for line in LINES}
        with tunnel(args, folder, outside, lines, rates):
            result = transfer(args, outside)
        late = [line.line for line in held if line.close()["void"] is not None]
    if late:
        note(f"{profile[0]}, {lines}: line {' and '.join(late)} was late")
        return None
    return result


def transfer(args, outside):
    with end(outside["van"], "receive", PORT, args.seconds) as receiver:
        receiver.line()
        with end(outside["hub"], "send", INNER["van"], PORT, "cubic"):
            return receiver.result(args.seconds + 40)["bytes"] * 8e-6 / args.seconds


def median(args, profile, lines):
    results = []
    for number in range(args.runs):
        for _ in range(ATTEMPTS):
            result = measure(args, profile, lines, number)
            if result is not None:
                results.append(result)
                break
    return statistics.median(results) if results else None


def failover(args, profile):
    """Returns datagrams lost of a call, the longest gap and the 99th percentile of the delay in ms, while each line in turn
    forwards nothing for 5 s."""
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, namespaces() as outside, contextlib.ExitStack() as stack:
        held = [stack.enter_context(Line(args, folder, profile, line, args.seed + LINES.index(line))) for line in LINES]
        for line in held:
            line.connect(outside)
        rates = {line: profile[2 + LINES.index(line)][3] for line in LINES}
        with tunnel(args, folder, outside, LINES, rates):
            seconds = 5 + 10 * len(held)
            with end(outside["van"], "hear", PORT, seconds + 2) as receiver:
                receiver.line()
                with end(outside["hub"], "call", INNER["van"], PORT, seconds, 200) as sender:
                    time.sleep(5)
                    for line in held:
                        rule = ("FORWARD", "-j", "DROP")
                        for end_of_line in line.nodes.values():
                            run("iptables", "-w", "-I", *rule, namespace=end_of_line["namespace"])
                        time.sleep(5)
                        for end_of_line in line.nodes.values():
                            run("iptables", "-w", "-D", *rule, namespace=end_of_line["namespace"])
                        time.sleep(5)
                    sent = sender.result(seconds + 40)["sent"]
                heard = receiver.result(seconds + 40)
    return {"sent": sent, "lost": sent - len(heard["numbers"]), "longest_gap_ms": heard["longest_gap_ms"], "p99_ms": percentile(heard["delays_ms"], 99)}


def shown(value):
    return "-" if value is None else f"{value:.1f}"


def main():
    parser = arguments(__doc__)
    parser.add_argument("--profiles", default="all", help="names, separated by commas (default all)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each cell (default 1)")
    parser.add_argument("--seconds", type=float, default=16, help="duration of a transfer (default 16)")
    parser.add_argument("--rate", default=None, help='rate of each path, e.g. "auto" (default 97 %% of the line\'s)')
    parser.add_argument("--multipath", default="bond", help='use of the lines: "bond", "redundant" or "failover" (default "bond")')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lateness", default="8ms", help="maximum lateness of a line (default 8ms)")
    parser.add_argument("--cut", action="store_true", help="cut each line in turn during a call")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    check_machine(args)
    names = chosen(parser, args.profiles, {profile[0]: profile for profile in simulated.PROFILES})
    go_first()
    rows = []
    for profile in simulated.PROFILES:
        name, goal, *links = profile
        if name not in names:
            continue
        if args.cut:
            row = {"profile": name, **failover(args, profile)}
        else:
            best = max(LINES, key=lambda line: links[LINES.index(line)][3] / (1 + links[LINES.index(line)][2]))
            row = {"profile": name, "goal": goal, "single": median(args, profile, best), "both": median(args, profile, LINES)}
        rows.append(row)
        note(json.dumps(row))
    if args.json:
        print(json.dumps(rows))
    elif rows:
        table(list(rows[0]), [[value if isinstance(value, (str, int)) else shown(value) for value in row.values()] for row in rows])
    return 0


if __name__ == "__main__":
    end_with(main)

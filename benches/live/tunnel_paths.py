#!/usr/bin/env python3
"""Measures a tunnel over emulated lines with this kernel's CUBIC, and prints a row for each link.

    sudo python3 benches/live/tunnel_paths.py                           # two lines, 16 profiles: 20 minutes
    sudo python3 benches/live/tunnel_paths.py --links baseline,loss_2 --runs 3
    sudo python3 benches/live/tunnel_paths.py --measure hops            # one long or fast lossy hop: 15 minutes
    sudo python3 benches/live/tunnel_paths.py --measure cut             # failover of a call
    sudo python3 benches/live/tunnel_paths.py --measure calls           # a call over two lines that lose 5 %
    sudo python3 benches/live/tunnel_paths.py --measure datagrams       # datagrams over one long lossy line
    sudo python3 benches/live/tunnel_paths.py --measure flows           # 16 flows at once over two lines
    sudo python3 benches/live/tunnel_paths.py --measure stream          # live video in bursts of losses, and in a cut

    hub -- a1 ~~~~~ a2 -- van        Each line is a lab of its own, held open by `lasthop lab hold`. The tunnel's ends are
     \\--- b1 ~~~~~ b2 ---/          hub and van; the hub sends.

pairs   transfer over both lines beside one over the better line alone, for the profiles of benches/moving/bundles.py
hops    transfer over one line, for the hops of benches/moving/long_hops.py; the goal is 90 % of what the same line carries
        without losses, times the share that is not lost
cut     datagrams every 5 ms, as of a call, while each line in turn forwards nothing for 5 s
calls   a call from van to hub over two lines that lose 5 % each: without a tunnel on the better line, with engarde, which
        sends each datagram on all lines (if engarde-client and engarde-server are installed), and with the tunnel
datagrams  over a line of 20 Mbps and 150 ms each way: 5 Mbps at 29 % loss, of which 1 % may be lost, and a call at 10 %, of
        which 0.1 % may be lost or a round trip of 300 ms later than without losses
flows   as pairs, 16 flows together, beside 90 % of the sum of the rates
stream  8 Mbps over TCP: over one line whose losses come in bursts, and over two while the first forwards nothing for 30 s

A transfer is the median over the runs of what the receiver reads per second within --seconds. Runs in which a line was
late are repeated.
"""
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

from common import ROOT, Program, arguments, check_machine, end, end_with, fail, go_first, note, percentile, run, table

sys.path.insert(0, os.path.join(ROOT, "benches", "moving"))
import bundles  # noqa: E402
import long_hops  # noqa: E402

LINES = "ab"
PORT = 5001
# Share of a line's rate at which the tunnel sends.
SHARE = 0.97
ATTEMPTS = 3
INNER = {"hub": "10.99.0.1", "van": "10.99.0.2"}
SEND = "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'probe', (sys.argv[1], 9))"
# netem's `gemodel 4% 30% 80% 0.5%`.
BURSTS = '{ model = "gemodel", p = "4 %", r = "30 %", 1-h = "80 %", 1-k = "0.5 %" }'


def link(rate, delay, queue, errors=None):
    """Returns a link as text."""
    return f'[links.line]\nbetween = ["near", "far"]\nrate = "{rate} Mbps"\ndelay = "{delay} ms"\nqueue = "{queue} KiB"\n' + (f"errors = {errors}\n" if errors else "")


def device(line):
    """Returns the name of the interface of either end."""
    return f"line-{line}"


class Line:
    """An emulated line between two namespaces, with a cable to `hub` at one end and to `van` at the other."""

    def __init__(self, args, folder, line, text, seed):
        file = os.path.join(folder, f"{line}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(f'title = "Line {line}"\n[lab]\nsettings = "kernel"\n[hosts.near]\n[hosts.far]\n{text}[flows.bulk]\nfrom = "near"\nto = "far"\nsize = "12 MB"\n')
        self.program = Program(None, args.lasthop, "lab", "hold", file, "--scheme", "E2E", "--json", "--seed", str(seed), "--set", f"lab.lateness={args.lateness}")
        self.line, self.number = line, LINES.index(line)

    def __enter__(self):
        self.nodes = json.loads(self.program.line())["nodes"]
        return self

    def __exit__(self, *_):
        self.program.stop()

    def network(self, end):
        """Returns the beginning of the addresses between an end and this line."""
        return f"10.{71 if end == 'van' else 81}.{self.number}."

    def connect(self, outside):
        """Connects the line's nodes to the ends' namespaces, and routes between these."""
        for node, other, end, far in (("near", "far", "hub", "van"), ("far", "near", "van", "hub")):
            inside, space, name = self.nodes[node]["namespace"], outside[end], device(self.line)
            run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", "cable", "netns", inside, namespace=space)
            run("ip", "addr", "add", f"{self.network(end)}1/30", "dev", name, namespace=space)
            run("ip", "addr", "add", f"{self.network(end)}2/30", "dev", "cable", namespace=inside)
            run("ip", "link", "set", name, "up", namespace=space)
            run("ip", "link", "set", "cable", "up", namespace=inside)
            run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done", namespace=inside)
            run("ip", "route", "replace", f"{self.network(far)}0/30", "via", self.nodes[other]["address"], "dev", self.nodes[node]["devices"]["line"], "onlink",
                namespace=inside)
            run("ip", "route", "replace", f"{self.network(far)}0/30", "via", f"{self.network(end)}2", "dev", name, namespace=space)

    @contextlib.contextmanager
    def cut(self):
        """Forwards nothing in the `with` block."""
        rule = ("FORWARD", "-j", "DROP")
        for node in self.nodes.values():
            run("iptables", "-w", "-I", *rule, namespace=node["namespace"])
        yield
        for node in self.nodes.values():
            run("iptables", "-w", "-D", *rule, namespace=node["namespace"])

    def is_void(self):
        """Closes the line; returns whether it was late."""
        return json.loads(self.program.stop().strip().splitlines()[-1])["void"] is not None


def file_of(args, folder, end, key, rates):
    """Writes an end's file, with a path for each of `rates` in Mbps by line, and returns its name."""
    other = "van" if end == "hub" else "hub"
    path = os.path.join(folder, f"{end}.toml")
    paths = f'multipath = "{args.multipath}"\n' if len(rates) > 1 else ""
    for line, rate in rates.items():
        call = f'endpoint = "10.81.{LINES.index(line)}.1:51900"\ninterface = "{device(line)}"\n' if end == "van" else ""
        paths += f'[[peer.path]]\nname = "{line}"\nrate = "{args.rate or f"{rate * SHARE:.3f} Mbps"}"\n{call}'
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'listen = "0.0.0.0:51900"\nprivate_key_file = "{folder}/{end}.key"\naddress = "{INNER[end]}/24"\ncontrol = "{folder}/{end}.sock"\nlog = "warn"\n'
                  f'[[peer]]\nname = "{other}"\npublic_key = "{key}"\nallowed = ["{INNER[other]}"]\nkeepalive = "1 s"\n{paths}')
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


def status(args, folder):
    """Returns what the hub knows of the van."""
    return json.loads(run(args.lasthop, "tunnel", "status", "--json", "--control", os.path.join(folder, "hub.sock")))["peers"][0]


def await_paths(args, folder, outside):
    """Waits until all paths are in use, with the MTU that the lines have."""
    peer = None
    for _ in range(60):
        # Paths are probed while there is traffic.
        for one, other in (("van", "hub"), ("hub", "van")):
            run(sys.executable, "-c", SEND, INNER[other], namespace=outside[one])
        time.sleep(0.2)
        with contextlib.suppress(RuntimeError):
            peer = status(args, folder)
            if peer["up"] and peer["mtu"] == 1442 and all(path["state"] not in ("down", "unused") for path in peer["paths"]):
                return
    raise RuntimeError(f"the tunnel does not use all of its paths: {peer}")


@contextlib.contextmanager
def connected(args, links, seed):
    """Yields a folder for files, the lines of `links`, rate in Mbps and text by line, and the ends' namespaces."""
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, namespaces() as outside, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Line(args, folder, line, text, seed + LINES.index(line))) for line, (_, text) in links.items()]
        for line in lines:
            line.connect(outside)
        yield folder, lines, outside


@contextlib.contextmanager
def tunnel(args, links, seed):
    """Yields the lines and the ends' namespaces, with a tunnel over `links`."""
    with connected(args, links, seed) as (folder, lines, outside), contextlib.ExitStack() as stack:
        keys = {end: run(args.lasthop, "tunnel", "keygen", os.path.join(folder, f"{end}.key")).strip() for end in INNER}
        for end, other in (("hub", "van"), ("van", "hub")):
            file = file_of(args, folder, end, keys[other], {line: rate for line, (rate, _) in links.items()})
            stack.enter_context(Program(outside[end], args.lasthop, "tunnel", "run", file))
        await_paths(args, folder, outside)
        yield lines, outside
        if args.details:
            note(json.dumps(status(args, folder)))


def read_from_hub(seconds, outside):
    """Returns the throughput from hub to van in Mbps."""
    with end(outside["van"], "receive", PORT, seconds) as receiver:
        receiver.line()
        with end(outside["hub"], "send", INNER["van"], PORT, "cubic"):
            return receiver.result(seconds + 40)["bytes"] * 8e-6 / seconds


def transfer(args, links, seed, seconds):
    """Returns the throughput through a tunnel in Mbps, and the lines."""
    with tunnel(args, links, seed) as (lines, outside):
        return read_from_hub(seconds, outside), are_void(lines)


def are_void(lines):
    # All lines are closed, also if the first one was late.
    return any([line.is_void() for line in lines])


def median(args, links, seconds=16):
    """Returns the median of the runs; `None` if a line was late in all."""
    results = []
    for number in range(args.runs):
        attempts = (result for result, void in (transfer(args, links, args.seed + 10 * number, args.seconds or seconds) for _ in range(ATTEMPTS)) if not void)
        results += [result for result in [next(attempts, None)] if result is not None]
    return statistics.median(results) if results else None


def pairs(args):
    """Yields the name of each profile, and a function that returns its row."""
    for name, goal, *lines in bundles.PROFILES:
        links = {line: (of[3], bundles.link("line", *of)) for line, of in zip(LINES, lines)}
        best = max(links, key=lambda line: links[line][0] / (1 + lines[LINES.index(line)][2]))
        yield name, lambda links=links, best=best, goal=goal: {
            "goal": goal, "single": median(args, {best: links[best]}), "both": median(args, links)}


def hops(args):
    """As `pairs`, for long and fast hops."""
    for rate, delay, queue, size, losses in long_hops.HOPS:
        seconds = size * 8.388608 / rate
        for loss, burst in losses:
            lossless, lossy = (link(rate, delay, queue, long_hops.errors(of, burst)) for of in (0, loss))

            def row(rate=rate, loss=loss, lossless=lossless, lossy=lossy, seconds=seconds):
                whole, part = (median(args, {"a": (rate, text)}, seconds=seconds) for text in (lossless, lossy))
                return {"goal": whole and 0.9 * whole * (1 - loss / 100), "lossless": whole, "lossy": part}
            yield f"{rate}Mbps-{delay}ms-{loss:g}%-{burst}", row


def cut(args):
    """As `pairs`, for a call: datagrams lost, longest gap, and 99th percentile of the delay."""
    for name, _, *lines in bundles.PROFILES:
        def row(lines=lines):
            links = {line: (of[3], bundles.link("line", *of)) for line, of in zip(LINES, lines)}
            with tunnel(args, links, args.seed) as (held, outside):
                seconds = 5 + 10 * len(held)
                with end(outside["van"], "hear", PORT, seconds + 2) as receiver:
                    receiver.line()
                    with end(outside["hub"], "call", INNER["van"], PORT, seconds, 200) as sender:
                        time.sleep(5)
                        for line in held:
                            with line.cut():
                                time.sleep(5)
                            time.sleep(5)
                        sent = sender.result(seconds + 40)["sent"]
                    heard = receiver.result(seconds + 40)
            return {"sent": sent, "lost": sent - len(heard["numbers"]), "longest_gap_ms": heard["longest_gap_ms"], "p99_ms": percentile(heard["delays_ms"], 99)}
        yield name, row


def heard(sender_space, receiver_space, address, seconds, to=PORT, rate=200, size=160):
    """Returns the share of `rate` datagrams a second that are lost, in percent, and percentiles of their delay."""
    with end(receiver_space, "hear", PORT, seconds + 2) as receiver:
        receiver.line()
        with end(sender_space, "call", address, to, seconds, rate, size) as sender:
            sent = sender.result(seconds + 40)["sent"]
        result = receiver.result(seconds + 40)
    lost = sent - len(result["numbers"])
    return {"sent": sent, "lost": lost, "lost_percent": f"{100 * lost / sent:.3f}", "p50_ms": percentile(result["delays_ms"], 50),
            "p99_ms": percentile(result["delays_ms"], 99), "longest_gap_ms": result["longest_gap_ms"]}


ENGARDE_CLIENT = """client:
  listenAddr: "127.0.0.1:59401"
  dstAddr: "10.81.0.1:59501"
  writeTimeout: 10
  excludedInterfaces: ["lo"]
  dstOverrides:
  - {{ ifName: "{}", dstAddr: "10.81.0.1:59501" }}
  - {{ ifName: "{}", dstAddr: "10.81.1.1:59501" }}
"""
ENGARDE_SERVER = f"""server:
  listenAddr: "0.0.0.0:59501"
  dstAddr: "127.0.0.1:{PORT}"
  clientTimeout: 30
  writeTimeout: 10
"""


def engarde(args, links, seconds):
    """Returns the result of a call through engarde."""
    with connected(args, links, args.seed) as (folder, _, outside), contextlib.ExitStack() as stack:
        for name, space, text in (("server", "hub", ENGARDE_SERVER), ("client", "van", ENGARDE_CLIENT.format(*map(device, LINES)))):
            file = os.path.join(folder, f"{name}.yml")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            stack.enter_context(Program(outside[space], f"engarde-{name}", file))
        time.sleep(3)
        return heard(outside["van"], outside["hub"], "127.0.0.1", seconds, 59401)


def calls(args):
    """As `pairs`, for a call from van to hub."""
    links = {line: (10, link(10, delay, 500, '{ model = "uniform", frame_loss = "5 %" }')) for line, delay in zip(LINES, (30, 40))}
    seconds = args.seconds or 100

    def plain():
        with connected(args, links, args.seed) as (_, _, outside):
            return heard(outside["van"], outside["hub"], "10.81.0.1", seconds)

    def tunnelled(multipath, used):
        args.multipath = multipath
        with tunnel(args, used, args.seed) as (_, outside):
            return heard(outside["van"], outside["hub"], INNER["hub"], seconds)
    yield "one line, no tunnel", plain
    if shutil.which("engarde-client") and shutil.which("engarde-server"):
        yield "engarde", lambda: engarde(args, links, seconds)
    else:
        note("engarde is not installed: skipped")
    yield "tunnel, one line", lambda: tunnelled("bond", {"a": links["a"]})
    for multipath in ("bond", "redundant"):
        yield f"tunnel, {multipath}", lambda multipath=multipath: tunnelled(multipath, links)


def datagrams(args):
    """As `pairs`, for datagrams over one long lossy line."""
    for loss, rate, size in ((29, 520, 1200), (10, 50, 172)):
        def row(loss=loss, rate=rate, size=size):
            links = {"a": (20, link(20, 150, 1500, f'{{ model = "uniform", frame_loss = "{loss} %" }}'))}
            with tunnel(args, links, args.seed) as (_, outside):
                return heard(outside["hub"], outside["van"], INNER["van"], args.seconds or 60, rate=rate, size=size)
        yield f"{rate * size * 8e-6:.2g} Mbps, {loss} % lost", row


def flows(args):
    """As `pairs`, for 16 flows at once."""
    for name, _, *lines in bundles.PROFILES:
        def row(lines=lines):
            links = {line: (of[3], bundles.link("line", *of)) for line, of in zip(LINES, lines)}
            seconds = args.seconds or 20
            with tunnel(args, links, args.seed) as (held, outside):
                with contextlib.ExitStack() as stack:
                    receivers = [stack.enter_context(end(outside["van"], "receive", PORT + number, seconds)) for number in range(16)]
                    for receiver in receivers:
                        receiver.line()
                    for number in range(16):
                        stack.enter_context(end(outside["hub"], "send", INNER["van"], PORT + number, "cubic"))
                    rates = [receiver.result(seconds + 40)["bytes"] * 8e-6 / seconds for receiver in receivers]
            return {"goal": 0.9 * sum(rate for rate, _ in links.values()), "sum": sum(rates), "slowest": min(rates), "fastest": max(rates)}
        yield name, row


def stream(args):
    """As `pairs`, for live video: its longest gap."""
    cases = {
        "bursts": ({"a": (20, link(20, 30, 500, BURSTS))}, 20, 0),
        "cut": ({line: (12, link(12, 30, 500)) for line in LINES}, 50, 30),
    }
    for name, (links, seconds, without) in cases.items():
        def row(links=links, seconds=seconds, without=without):
            with tunnel(args, links, args.seed) as (held, outside):
                with end(outside["van"], "watch", PORT, seconds) as receiver:
                    receiver.line()
                    with end(outside["hub"], "stream", INNER["van"], PORT, seconds, 8, "cubic"):
                        if without:
                            time.sleep(10)
                            with held[0].cut():
                                time.sleep(without)
                        result = receiver.result(seconds + 40)
            return {"Mbps": result["bytes"] * 8e-6 / seconds, "longest_gap_ms": result["longest_gap_ms"], "stalls": result["stalls"]}
        yield name, row


MEASURES = {measure.__name__: measure for measure in (pairs, hops, cut, calls, datagrams, flows, stream)}


def shown(value):
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else value


def main():
    parser = arguments(__doc__)
    parser.add_argument("--measure", choices=MEASURES, default="pairs", help="what to measure (default pairs)")
    parser.add_argument("--links", default="all", help="names, separated by commas (default all)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each transfer (default 1)")
    parser.add_argument("--seconds", type=float, help="duration of a transfer (default 16, or on a hop the time of the size in long_hops.py)")
    parser.add_argument("--rate", default=None, help='rate of each path, e.g. "auto" (default 97 %% of the line\'s)')
    parser.add_argument("--multipath", default="bond", help='use of two lines: "bond", "redundant" or "failover" (default "bond")')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lateness", default="8ms", help="maximum lateness of a line (default 8ms)")
    parser.add_argument("--details", action="store_true", help="print the hub's status after each transfer")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    check_machine(args)
    rows = dict(MEASURES[args.measure](args))
    names = list(rows) if args.links == "all" else args.links.split(",")
    if unknown := [name for name in names if name not in rows]:
        fail(f"unknown: {', '.join(unknown)}; there are {', '.join(rows)}")
    go_first()
    results = []
    for name in names:
        results.append({"link": name, **rows[name]()})
        note(json.dumps(results[-1]))
    if args.json:
        print(json.dumps(results))
    else:
        table(list(results[0]), [list(map(shown, row.values())) for row in results])
    return 0


if __name__ == "__main__":
    end_with(main)

#!/usr/bin/env python3
"""Measures what a tunnel costs: `lasthop tunnel`, the minimal program between a TUN device and a socket, and WireGuard,
on the same path in one call.

    near -- veth, MTU 1500, offloads on -- far          network namespaces of this machine: connections begin and end at the tunnel's ends

    kernel      no tunnel
    bare        packets of a TUN device in UDP, in the tunnel's own batches, neither sealed nor numbered (crates/lasthop-tunneld/examples/bare_tunnel.rs)
    wireguard   the kernel's; skipped where it has none
    tunnel      lasthop tunnel at 10 Gbps; tunnel-none: with security = "none"

    Gbit/s      one TCP connection from near to far
    kpps        the same in segments of 300 bytes, some hundreds of them under way; acknowledgments not counted
    p50, p99    us that a message of 64 bytes takes to far and back over TCP, one after the other
    CPU us      of the worker at near and of that at far for each packet of data, system calls included
    lossy       over a hop of 1 ms that loses 5 % each way (crates/lasthop-gateway/examples/hop.rs); one TCP connection through the tunnel at 345 Mbps

    cargo build --release && cargo build --release -p lasthop-gateway -p lasthop-tunneld --examples
    sudo python3 benches/live/tunnel_speed.py                        # 2 minutes
    sudo python3 benches/live/tunnel_speed.py --modes bare,tunnel --only throughput --reps 5

Modes alternate; results are medians of all repetitions, with minimum and maximum. Both ends, their kernels and the
tunnel share this machine's processors: compare modes, not machines. CPU time is that of the program; WireGuard works in
the kernel, where it is not counted.
"""
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

from arena import real_time
from common import HERE, Program, arguments, check_built, check_machine, chosen, counters, end, end_with, example_argument, goal_arguments, note, percentile, run, skipped, table
from speed import cpu, spread

PORT, TUNNEL = 5001, 51900
OUTER = {"near": "10.0.0.1", "far": "10.0.0.2"}
INNER = {"near": "10.99.0.1", "far": "10.99.0.2"}
MEASURES = ["throughput", "rate", "latency", "lossy"]
# MTU of the tunnel over a path of 1500 bytes.
MTU = 1442
# Bytes of a segment in `rate`: a super-segment of 64 KiB may be cut to these, and the program has space for them. Then
# the receiver's buffer, which permits some hundreds in flight.
SMALL, BUFFER = 300, 1 << 18
HOP = "delay=1,loss=0.05"
FAST, LOSSY = "10 Gbps", "345 Mbps"
# Goals of the tunnel: CPU us of the busier end, for 150,000 packets per second and 1.5 Gbit/s on one core; Mbit/s with
# losses.
MOST_US, LEAST_LOSSY = 1e6 / 150_000, 300


class Path:
    """Two namespaces joined by a cable, or by an emulated hop with these settings
    (crates/lasthop-gateway/examples/hop.rs)."""

    def __init__(self, args, hop=None):
        self.args, self.hop = args, hop
        # Named like a lab's, so that `lasthop lab clean` finds what a killed benchmark left.
        self.names = {node: f"lh-{os.getpid()}-{node}" for node in OUTER}
        self.air = f"lh-{os.getpid()}-air"
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            for name in [self.air, *self.names.values()]:
                run("ip", "netns", "add", name)
                run("ip", "link", "set", "lo", "up", namespace=name)
            if self.hop:
                for node in OUTER:
                    self.cable(self.names[node], "eth", self.air, node)
            else:
                self.cable(self.names["near"], "eth", self.names["far"], "eth")
            for node, name in self.names.items():
                run("ip", "addr", "add", OUTER[node] + "/24", "dev", "eth", namespace=name)
            if self.hop:
                for name in self.names.values():
                    run(sys.executable, os.path.join(HERE, "transfers.py"), "plain", "eth", namespace=name)
                self.stack.enter_context(Program(self.air, *real_time(), self.args.hop, "1", f"near,far,{self.hop}")).line()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def cable(one, name, other, far):
        run("ip", "link", "add", name, "type", "veth", "peer", "name", far, "netns", other, namespace=one)
        for namespace, device in ((one, name), (other, far)):
            run("ip", "link", "set", device, "up", namespace=namespace)

    def __exit__(self, *_):
        self.stack.close()
        for name in [self.air, *self.names.values()]:
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "delete", name)


class Tunnel:
    """Programs in both namespaces: addresses of the ends, and processes whose CPU time counts."""

    def __init__(self, addresses, pids=(), status=None):
        self.near, self.far, self.pids, self.status = addresses["near"], addresses["far"], pids, status


@contextlib.contextmanager
def kernel(args, path, rate):
    del args, path, rate
    yield Tunnel(OUTER)


@contextlib.contextmanager
def bare(args, path, rate):
    del rate
    with contextlib.ExitStack() as stack:
        programs = []
        for node, name in path.names.items():
            other = OUTER["far" if node == "near" else "near"]
            programs.append(stack.enter_context(Program(name, args.bare_tunnel, f"{INNER[node]}/24", f"{OUTER[node]}:{TUNNEL}", f"{other}:{TUNNEL}")))
        for program in programs:
            program.line()
        yield Tunnel(INNER, [program.pid for program in programs])


@contextlib.contextmanager
def wireguard(args, path, rate):
    del rate
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder:
        keys = {node: run(args.lasthop, "tunnel", "keygen", f"{folder}/{node}.key").strip() for node in OUTER}
        try:
            for node, other in (("near", "far"), ("far", "near")):
                name = path.names[node]
                run("ip", "link", "add", "wg", "mtu", "1440", "type", "wireguard", namespace=name)
                run("wg", "set", "wg", "private-key", f"{folder}/{node}.key", "listen-port", str(TUNNEL), "peer", keys[other], "endpoint", f"{OUTER[other]}:{TUNNEL}",
                    "allowed-ips", f"{INNER[other]}/32", namespace=name)
                run("ip", "addr", "add", f"{INNER[node]}/24", "dev", "wg", namespace=name)
                run("ip", "link", "set", "wg", "up", namespace=name)
            yield Tunnel(INNER)
        finally:
            for name in path.names.values():
                with contextlib.suppress(RuntimeError):
                    run("ip", "link", "del", "wg", namespace=name)


def lasthop(security):
    @contextlib.contextmanager
    def installed(args, path, rate):
        with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, contextlib.ExitStack() as stack:
            keys = {node: run(args.lasthop, "tunnel", "keygen", f"{folder}/{node}.key").strip() for node in OUTER}
            for node, other in (("near", "far"), ("far", "near")):
                own, peer = {"noise": (f'private_key_file = "{folder}/{node}.key"', f'public_key = "{keys[other]}"'),
                             "none": (f'security = "none"\ntrusted_interface = "eth"\nname = "{node}"', "")}[security]
                with open(f"{folder}/{node}.toml", "w", encoding="utf-8") as out:
                    out.write(f'listen = "0.0.0.0:{TUNNEL}"\n{own}\naddress = ["{INNER[node]}/24"]\ncontrol = "{folder}/{node}.sock"\nlog = "warn"\n[[peer]]\nname = "{other}"\n{peer}\n'
                              f'allowed = ["{INNER[other]}"]\nendpoint = "{OUTER[other]}:{TUNNEL}"\nrate = "{rate}"\nkeepalive = "1 s"\n')
                stack.enter_context(Program(path.names[node], args.lasthop, "tunnel", "run", f"{folder}/{node}.toml"))

            def status(node):
                return json.loads(run(args.lasthop, "tunnel", "status", "--json", "--control", f"{folder}/{node}.sock"))

            yield Tunnel(INNER, [up(status, node)["worker"]["pid"] for node in OUTER], status)
    return installed


def up(status, node):
    """Returns the status of an end once there is a session over a path of 1500 bytes."""
    for _ in range(200):
        with contextlib.suppress(RuntimeError):
            answer = status(node)
            # The list is empty until the worker has reported.
            if any(peer["up"] and peer["mtu"] == MTU for peer in answer["peers"]):
                return answer
        time.sleep(0.05)
    raise RuntimeError("no session between the tunnel's ends")


MODES = {"kernel": kernel, "bare": bare, "wireguard": wireguard, "tunnel": lasthop("noise"), "tunnel-none": lasthop("none")}


def counted(path):
    """Returns the segments that the kernel of `near` sent, and the retransmitted ones."""
    counts = counters(path.names["near"], "Tcp")
    return counts["OutSegs"], counts["RetransSegs"]


def transfer(args, path, tunnel, segment):
    """Runs one connection from near to far, with this segment size if one is given."""
    names = path.names
    if segment:
        # MSS that `far` announces.
        run("ip", "route", "replace", tunnel.near, *way(path, tunnel), "advmss", str(segment), namespace=names["far"])
    with end(names["far"], "receive", PORT, args.seconds, *([BUFFER] if segment else [])) as reading:
        reading.line()
        (segments, again), begun, started = counted(path), [cpu(pid) for pid in tunnel.pids], time.monotonic()
        with end(names["near"], "send", tunnel.far, PORT, "cubic"):
            read = reading.result(args.seconds + 20)
            took = time.monotonic() - started
        used = [cpu(pid) - before for pid, before in zip(tunnel.pids, begun)]
        now = counted(path)
    sent = now[0] - segments
    found = {"gbps": 8e-9 * read["bytes"] / read["seconds"], "kpps": 1e-3 * sent / took, "again": now[1] - again}
    found |= {f"{node}_us": 1e6 * spent / sent for node, spent in zip(OUTER, used)}
    if tunnel.status:
        # The worker reports four times per second.
        time.sleep(0.5)
        near = tunnel.status("near")
        found |= {"unsent": near["unsent"]} | {key: near["peers"][0][key] for key in ("dropped", "loss", "given_up", "resent", "redundant")}
    return found


def way(path, tunnel):
    words = run("ip", "route", "get", tunnel.near, namespace=path.names["far"]).split()
    return ["dev", words[words.index("dev") + 1]]


def throughput(args, path, tunnel):
    return transfer(args, path, tunnel, None)


def rate(args, path, tunnel):
    return transfer(args, path, tunnel, SMALL)


def latency(args, path, tunnel):
    with end(path.names["far"], "echo", PORT) as echoing:
        echoing.line()
        with end(path.names["near"], "talk", tunnel.far, PORT, args.seconds) as talking:
            times = talking.result(args.seconds + 20)["us"]
    return {"p50_us": percentile(times, 50), "p99_us": percentile(times, 99)}


def main():
    parser = arguments(__doc__)
    example_argument(parser, "--bare-tunnel", "the bare forwarder")
    example_argument(parser, "--hop", "the emulated hop")
    parser.add_argument("--modes", help=f"which, separated by commas (default {','.join(MODES)})")
    parser.add_argument("--only", choices=MEASURES, help="measure only this")
    parser.add_argument("--reps", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default 3)")
    goal_arguments(parser)
    args = parser.parse_args()
    check_machine(args)
    modes = chosen(parser, args.modes, MODES) if args.modes else list(MODES)
    if args.only in (None, "lossy"):
        check_built(args.hop)
    if "bare" in modes:
        check_built(args.bare_tunnel)
    if "wireguard" in modes and not has_wireguard():
        skipped("wireguard: this kernel has none, or wg is not installed")
        modes.remove("wireguard")
    results = {mode: {} for mode in modes}
    for _ in range(args.reps):
        for mode in modes:
            for name, work in (("throughput", throughput), ("rate", rate), ("latency", latency), ("lossy", throughput)):
                if args.only not in (None, name) or (name == "lossy" and not mode.startswith("tunnel")):
                    continue
                with Path(args, HOP if name == "lossy" else None) as path, MODES[mode](args, path, LOSSY if name == "lossy" else FAST) as tunnel:
                    found = work(args, path, tunnel)
                results[mode].setdefault(name, []).append(found)
                note(f"{mode} {name}: " + ", ".join(f"{key} {value:.3g}" for key, value in found.items()))

    def values(mode, measure, key):
        return [found.get(key) for found in results.get(mode, {}).get(measure, [])]

    goals = []

    def goal(text, found, met):
        if found and None not in found:
            goals.append({"goal": text, "value": statistics.median(found), "met": met(statistics.median(found))})

    for measure in ("throughput", "rate"):
        for node in OUTER:
            goal(f"tunnel, {measure}: CPU us at {node}, at most {MOST_US:.2f}", values("tunnel", measure, f"{node}_us"), lambda value: value <= MOST_US)
        goal(f"tunnel, {measure}: packets dropped, none", values("tunnel", measure, "dropped"), lambda value: value == 0)
    goal("tunnel: Gbit/s that came, at least 1.5", values("tunnel", "throughput", "gbps"), lambda value: value >= 1.5)
    goal("tunnel: small packets that came, at least 150 kpps", values("tunnel", "rate", "kpps"), lambda value: value >= 150)
    goal(f"tunnel: Mbit/s with 5 % lost, at least {LEAST_LOSSY}", [1000 * value for value in values("tunnel", "lossy", "gbps")], lambda value: value >= LEAST_LOSSY)
    if args.json:
        print(json.dumps({"seconds": args.seconds, "reps": args.reps, "results": results, "goals": goals}, indent=2))
    else:
        print(f"{args.reps} repetitions of {args.seconds:g} s: median (lowest - highest)\n")
        cells = [("throughput", "gbps", 2), ("throughput", "near_us", 2), ("throughput", "far_us", 2), ("rate", "kpps", 0), ("rate", "near_us", 2), ("rate", "far_us", 2), ("latency", "p50_us", 0), ("latency", "p99_us", 0),
                 ("lossy", "gbps", 3), ("lossy", "near_us", 1), ("lossy", "far_us", 1)]
        table(["mode", "Gbit/s", "CPU us, near", "far", "kpps, small", "CPU us, near", "far", "p50 us", "p99 us", "Gbit/s, lossy", "CPU us, near", "far"],
              [[mode] + [spread(values(mode, measure, key), digits) for measure, key, digits in cells] for mode in modes])
        print()
        for one in goals:
            print(f"{one['goal']}: {one['value']:.2f} {'ok' if one['met'] else 'MISSED'}")
    return 1 if args.require and not all(one["met"] for one in goals) else 0


def has_wireguard():
    try:
        run("wg", "--version")
        run("ip", "link", "add", "lh-probe-wg", "type", "wireguard")
        run("ip", "link", "del", "lh-probe-wg")
    except (RuntimeError, FileNotFoundError):
        return False
    return True


if __name__ == "__main__":
    end_with(main)

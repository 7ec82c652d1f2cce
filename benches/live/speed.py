#!/usr/bin/env python3
"""Measures what a gateway costs: plain kernel forwarding, the minimal program behind a netfilter queue, and lasthop's
gateway, on the same path in one call.

    sender -- veth -- gateway -- veth -- receiver          network namespaces of this machine

    kernel     forwards; nothing else
    bare       every TCP packet goes through a netfilter queue to a program that accepts all and looks at none, in the gateway's own batches
               (crates/lasthop-gateway/examples/accept_all.rs)
    observe, snoop, snoop-fc, split        lasthop gateway: snoop without flow control, with it (the default), split connections

    Gbit/s     one TCP connection of the kernel's, offloads on; CPU seconds of the forwarding program for a gigabyte
    kpps       60-byte frames of 1 and of 1000 open connections with data in the cache, acknowledgments counted (crates/lasthop-gateway/examples/packet_rate.rs);
               CPU time of the forwarding program for each. A relay has no packets to forward
    us         a message of 64 bytes to the receiver and back over TCP: median and 99th percentile, and what of it is added to the kernel's forwarding

CPU time is that of the program, system calls included; the kernel's work on arriving packets counts for the interrupted
process. Modes alternate; results are medians of all repetitions, with minimum and maximum. A measurement in which
packets bypassed the program, or it was restarted, is repeated.

    cargo build --release && cargo build --release -p lasthop-gateway --examples
    sudo python3 benches/live/speed.py                        # 5 minutes
    sudo python3 benches/live/speed.py --modes kernel,bare,snoop --only rate --reps 5
    sudo python3 benches/live/speed.py --bridge
"""
import contextlib
import functools
import json
import os
import statistics

from common import Gateway, Program, arguments, bare_forwarder, check_built, check_machine, chosen, end, end_with, example_argument, fail, goal_arguments, note, percentile, run, table

PORT = 5001
ATTEMPTS = 3
RATES = [1, 1000]
# Bytes after 54 bytes of headers.
PAYLOAD = 6
MEASURES = ["throughput", "rate", "latency"]
SENDER, RECEIVER = "10.0.0.1", "10.1.0.1"


def parameter(namespace, name):
    """Enables a kernel parameter of a namespace."""
    run("sh", "-c", f"! [ -e /proc/sys/net/{name} ] || echo 1 > /proc/sys/net/{name}", namespace=namespace)


class Void(Exception):
    """Measurement that does not count."""


class Path:
    """Sender, gateway and receiver. For raw frames the two ends are one namespace without addresses, whose kernel does
    not interfere."""

    NUMBER = 0
    # Settings of the gateway's configuration.
    SETTINGS = ""

    def __init__(self, frames=False):
        self.frames = frames
        # Named like a lab's, so that `lasthop lab clean` finds what a killed benchmark left.
        prefix = f"lh-{os.getpid()}-{Path.NUMBER}-"
        Path.NUMBER += 1
        self.gateway = prefix + "gateway"
        self.ends = [prefix + "ends"] * 2 if frames else [prefix + "sender", prefix + "receiver"]

    def __enter__(self):
        try:
            for namespace in {self.gateway, *self.ends}:
                run("ip", "netns", "add", namespace)
                parameter(namespace, "ipv6/conf/all/disable_ipv6")
                parameter(namespace, "ipv6/conf/default/disable_ipv6")
                run("ip", "link", "set", "lo", "up", namespace=namespace)
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        parameter(self.gateway, "ipv4/ip_forward")
        for side, (name, namespace, address) in enumerate(zip(("wired", "wireless"), self.ends, (SENDER, RECEIVER))):
            run("ip", "link", "add", name, "address", self.mac(side), "type", "veth", "peer", "name", f"far-{name}",
                "address", f"02:00:00:00:01:0{side}", "netns", namespace, namespace=self.gateway)
            run("ip", "link", "set", f"far-{name}", "up", namespace=namespace)
            run("ip", "link", "set", name, "up", namespace=self.gateway)
            near = f"10.{side}.255.254"
            run("ip", "addr", "add", near + "/16", "dev", name, namespace=self.gateway)
            run("ip", "neigh", "add", address, "lladdr", f"02:00:00:00:01:0{side}", "dev", name, namespace=self.gateway)
            if self.frames:
                # All clients are the same device.
                run("ip", "neigh", "add", f"10.{side}.255.253", "lladdr", f"02:00:00:00:01:0{side}", "dev", name, namespace=self.gateway)
                run("ip", "route", "add", f"10.{side}.0.0/17", "via", f"10.{side}.255.253", "dev", name, namespace=self.gateway)
            else:
                run("ip", "addr", "add", address + "/16", "dev", f"far-{name}", namespace=namespace)
                run("ip", "route", "add", "default", "via", near, namespace=namespace)

    @staticmethod
    def mac(side):
        return f"02:00:00:00:00:0{side}"

    def __exit__(self, *_):
        for namespace in {self.gateway, *self.ends}:
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "delete", namespace)


class BridgedPath(Path):
    """Path whose gateway is a bridge."""

    SETTINGS = 'bridge.wired = "wired"\n'

    def build(self):
        # Skips the seconds of the listening state.
        run("ip", "link", "add", "bridge", "up", "type", "bridge", "forward_delay", "0", namespace=self.gateway)
        for name, namespace, address in zip(("wired", "wireless"), self.ends, (SENDER, RECEIVER)):
            run("ip", "link", "add", name, "type", "veth", "peer", "name", f"far-{name}", "netns", namespace, namespace=self.gateway)
            run("ip", "link", "set", name, "master", "bridge", "up", namespace=self.gateway)
            run("ip", "addr", "add", address + "/8", "dev", f"far-{name}", namespace=namespace)
            run("ip", "link", "set", f"far-{name}", "up", namespace=namespace)


@contextlib.contextmanager
def kernel(args, path):
    del args, path
    yield None


@contextlib.contextmanager
def bare(args, path):
    with bare_forwarder(args.accept_all, path.gateway, "iptables") as program:
        yield program


def gateway(mode, settings=""):
    @contextlib.contextmanager
    def installed(args, path):
        rule = f'mode = "{mode}"\ninterface = "wireless"\naddresses = ["10.1.0.0/16"]\n{settings}'
        with Gateway(args, path.gateway, rule, path.SETTINGS) as daemon:
            yield daemon.worker()
            status = daemon.status()
            if status["worker"]["restarts"]:
                raise Void(f"the worker was restarted: {daemon.program.said()}")
            if overflows := status["packets"]["overflows"]:
                raise Void(f"{overflows} times packets passed untreated, because the program was too slow")
    return installed


MODES = {
    "kernel": kernel,
    "bare": bare,
    "observe": gateway("observe"),
    "snoop": gateway("snoop", '[rule.snoop]\nflow_control = "none"'),
    "snoop-fc": gateway("snoop"),
    "split": gateway("split"),
}


ON_A_BRIDGE = ["kernel", "observe", "snoop", "snoop-fc"]


def cpu(pid):
    """Returns the CPU seconds of all threads of a process."""
    if pid is None:
        return 0.0
    total = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat:
                total += int(stat.read().split()[0])
    except FileNotFoundError as error:
        raise Void(f"the program that was measured (process {pid}) is gone") from error
    return total * 1e-9


def throughput(args, path, pid):
    sender, receiver = path.ends
    with end(receiver, "receive", PORT, args.seconds) as reading:
        reading.line()
        begun = cpu(pid)
        with end(sender, "send", RECEIVER, PORT, "cubic"):
            read = reading.result(args.seconds + 20)
        used = cpu(pid) - begun
    gigabytes = read["bytes"] * 1e-9
    if gigabytes == 0:
        raise Void("nothing arrived")
    return {"gbps": 8 * gigabytes / read["seconds"], "cpu_s_per_gb": used / gigabytes if pid else None}


def rate(args, path, flows, pid):
    ends = [f"far-{name}@{Path.mac(side)}" for side, name in enumerate(("wired", "wireless"))]
    with Program(path.ends[0], args.packet_rate, *ends, str(flows), str(PAYLOAD), str(args.seconds)) as program:
        program.line()
        begun = cpu(pid)
        # The process has not ended while its pipe is open.
        line = program.line()
        used = cpu(pid) - begun
        counts = json.loads(line)
    packets = counts["data"] + counts["acks"]
    if packets == 0:
        raise Void(f"nothing arrived: {counts}")
    return {"kpps": packets / counts["seconds"] / 1000, "cpu_us": 1e6 * used / packets if pid else None, "again": counts["again"],
            "resent": counts["resent"], "generator_busy": counts["busy"]}


def latency(args, path, pid):
    del pid
    sender, receiver = path.ends
    with end(receiver, "echo", PORT) as echoing:
        echoing.line()
        with end(sender, "talk", RECEIVER, PORT, args.seconds) as talking:
            times = talking.result(args.seconds + 20)["us"]
    return {"p50_us": percentile(times, 50), "p99_us": percentile(times, 99)}


def spread(values, digits):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} - {high})" if len(values) > 1 else middle


def main():
    parser = arguments(__doc__)
    example_argument(parser, "--accept-all", "the bare forwarder")
    example_argument(parser, "--packet-rate", "the source of frames")
    parser.add_argument("--modes", help=f"which, separated by commas (default {','.join(MODES)})")
    parser.add_argument("--bridge", action="store_true", help=f"the gateway is a bridge: {', '.join(ON_A_BRIDGE)}, without packet rates")
    parser.add_argument("--only", choices=MEASURES, help="measure only this")
    parser.add_argument("--reps", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement (default 2)")
    goal_arguments(parser)
    args = parser.parse_args()
    check_machine(args)
    possible = ON_A_BRIDGE if args.bridge else list(MODES)
    modes = chosen(parser, args.modes, possible) if args.modes else possible
    if args.bridge and args.only == "rate":
        parser.error("the generator of small packets needs a router")
    measures = [args.only] if args.only else [measure for measure in MEASURES if not (args.bridge and measure == "rate")]
    check_built(args.accept_all, args.packet_rate)

    results = {mode: {} for mode in modes}

    def keep(mode, measure, where, work):
        for _ in range(ATTEMPTS):
            try:
                with MODES[mode](args, where) as pid:
                    outcome = work(pid)
            except Void as reason:
                note(f"{mode} {measure} is void: {reason}")
                continue
            results[mode].setdefault(measure, []).append(outcome)
            note(f"{mode} {measure}: " + ", ".join(f"{key} {value:.2f}" for key, value in outcome.items() if value is not None))
            return
        fail(f"void in each of {ATTEMPTS} attempts; end other load on this machine")

    with (BridgedPath if args.bridge else Path)() as path, contextlib.ExitStack() as stack:
        frames = stack.enter_context(Path(frames=True)) if "rate" in measures else None
        for _ in range(args.reps):
            for mode in modes:
                for measure, work in (("throughput", throughput), ("latency", latency)):
                    if measure in measures:
                        keep(mode, measure, path, functools.partial(work, args, path))
                if "rate" in measures and mode != "split":
                    for flows in RATES:
                        keep(mode, f"rate-{flows}", frames, functools.partial(rate, args, frames, flows))

    def values(mode, measure, key):
        return [outcome[key] for outcome in results[mode].get(measure, [])]

    def median(mode, measure, key):
        found = [value for value in values(mode, measure, key) if value is not None] if mode in results else []
        return statistics.median(found) if found else None

    goals = []

    def goal(text, value, least):
        if value is not None and not args.bridge:
            goals.append({"goal": text, "value": value, "least": least, "met": value >= least})

    for mode in ("snoop", "snoop-fc"):
        goal(f"{mode}: Gbit/s", median(mode, "throughput", "gbps"), 10)
        own, least = median(mode, "rate-1000", "kpps"), median("bare", "rate-1000", "kpps")
        if own and least:
            goal(f"{mode}: packets of 1000 connections, as a share of bare's", own / least, 0.8)

    if args.json:
        print(json.dumps({"seconds": args.seconds, "reps": args.reps, "results": results, "goals": goals}, indent=2))
    else:
        print(f"{args.reps} repetitions of {args.seconds:g} s: median (lowest - highest)\n")
        rows = []
        for mode in modes:
            added = [None if median(mode, "latency", key) is None or median("kernel", "latency", key) is None
                     else median(mode, "latency", key) - median("kernel", "latency", key) for key in ("p50_us", "p99_us")]
            rows.append([mode, spread(values(mode, "throughput", "gbps"), 1), spread(values(mode, "throughput", "cpu_s_per_gb"), 2)]
                        + [cell for flows in RATES for cell in (spread(values(mode, f"rate-{flows}", "kpps"), 0), spread(values(mode, f"rate-{flows}", "cpu_us"), 2))]
                        + [spread(values(mode, "latency", key), 0) for key in ("p50_us", "p99_us")]
                        + [" / ".join("-" if value is None else f"{value:+.0f}" for value in added)])
        table(["mode", "Gbit/s", "CPU s/GB", *(cell for flows in RATES for cell in (f"kpps, {flows} open", "CPU us")), "p50 us", "p99 us", "added"], rows)
        print()
        for one in goals:
            print(f"{one['goal']}: {one['value']:.2f}, at least {one['least']} wanted: {'ok' if one['met'] else 'MISSED'}")
    return 1 if args.require and not all(one["met"] for one in goals) else 0


if __name__ == "__main__":
    end_with(main)

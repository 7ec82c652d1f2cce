#!/usr/bin/env python3
"""Measures what one client can do to others at the gateway: message exchanges of twelve connections beside a flood of
selective acknowledgments.

The attacker, which plays both ends, holds a connection of which the gateway caches 8,000 segments of one byte each. It
acknowledges only four blocks of them, different ones each time, 15,000 times per second (10 Mbit/s). Meanwhile another
host's twelve connections exchange messages of 64 bytes. The times of an exchange, and CPU seconds of the gateway's
worker per second, are measured with and without the gateway, with and without the flood.

    sudo python3 benches/live/flood.py
    sudo python3 benches/live/flood.py --modes none,snoop --pace 15000 --segments 8000 --require
"""
import argparse
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import struct
import sys
import time

from arena import MAC, Arena
from attacks import Variant
from common import Program, arguments, check_built, check_machine, chosen, end, end_with, example_argument, note, percentile, run, table
from forge import ACK, SYN, Flow, blocks_option
from speed import cpu

PORT = 5001
CONNECTIONS = 12
# Both ends of the attacker's connection, with addresses of no host.
WIRED, HOP = ("10.1.0.99", 443), ("10.2.0.99", 40_000)
NOBODY = "02:00:00:00:0a:99"
MOST = 1.5
MODES = {"none": Variant("none"), "snoop": Variant("snoop", "snoop", "fast"), "snoop-none": Variant("snoop none", "snoop", "none")}


def attacker(seed, pace, segments):
    """Runs at the links: opens its connection, fills the cache, floods until SIGTERM."""
    dice, over = random.Random(seed), []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    outlets = {}
    for side, device in (("wired", "w1"), ("hop", "l0")):
        outlets[side] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        outlets[side].bind((device, 0))
    flow = Flow(4)
    for way, own, other, near in ((flow.down, WIRED, HOP, "wired"), (flow.up, HOP, WIRED, "wireless")):
        way.source, way.destination = socket.inet_aton(own[0]), socket.inet_aton(other[0])
        way.ports, way.window = (own[1], other[1]), 65_535
        way.frame = bytes.fromhex(MAC[near].replace(":", "") + NOBODY.replace(":", "")) + b"\x08\x00"
    options = struct.pack("!BBHBBBBBBBB", 2, 4, 1460, 1, 1, 4, 2, 1, 3, 3, 4)
    outlets["hop"].send(flow.segment("up", 999, 0, SYN, options=options))
    time.sleep(0.1)
    outlets["wired"].send(flow.segment("down", 999, 1000, SYN | ACK, options=options))
    time.sleep(0.1)
    outlets["hop"].send(flow.segment("up", 1000, 1000, ACK))
    time.sleep(0.1)
    for index in range(segments):
        outlets["wired"].send(flow.segment("down", 1000 + index, 1000, ACK, b"x"))
        if index % 100 == 99:
            time.sleep(0.005)

    def blocks():
        # Each covers nearly all segments, with new left edges: processing all covered segments is as expensive as
        # possible.
        return blocks_option([(start, 1000 + segments) for start in dice.sample(range(1001, 1001 + segments // 4), 4)])

    frames = [flow.segment("up", 1000, 1000, ACK, options=blocks()) for _ in range(4000)]
    print("ready", flush=True)
    begun, sent = time.monotonic(), 0
    while not over:
        due = int((time.monotonic() - begun) * pace)
        for _ in range(min(due - sent, 500)):
            with contextlib.suppress(OSError):
                outlets["hop"].send(frames[sent % len(frames)])
            sent += 1
        time.sleep(0.001)
    return {"sent": sent, "seconds": time.monotonic() - begun}


def measure(args, mode, flooded, seed):
    """Returns the times of all exchanges in microseconds, and the worker's share of a processor."""
    with contextlib.ExitStack() as stack:
        arena = stack.enter_context(Arena(args, "routed", seed, "rate=100,delay=1,queue=1000", "rate=50,delay=1,queue=1000"))
        for address, device in ((WIRED[0], "wired"), (HOP[0], "wireless")):
            run("ip", "neigh", "replace", address, "lladdr", NOBODY, "dev", device, "nud", "permanent", namespace=arena.namespace("gateway"))
        gateway = stack.enter_context(MODES[mode].installed(args, arena, 4))
        worker = gateway.worker() if gateway else None
        server = stack.enter_context(end(arena.namespace("sender"), "answer", PORT))
        server.line()
        flood = None
        if flooded:
            flood = stack.enter_context(Program(arena.namespace("air"), sys.executable, os.path.abspath(__file__), "--attacker", str(seed), "--pace", str(args.pace), "--segments", str(args.segments)))
            flood.line()
        begun = cpu(worker)
        times = stack.enter_context(end(arena.namespace("receiver"), "ask", arena.address("sender", 4), PORT, CONNECTIONS, args.seconds)).result(args.seconds + 60)["us"]
        used = (cpu(worker) - begun) / args.seconds
        sent = json.loads(flood.stop()) if flood else None
        restarts = gateway.status()["worker"]["restarts"] if gateway else 0
    return {"mode": mode, "flooded": flooded, "exchanges": len(times), "mean_us": statistics.mean(times), "p50_us": percentile(times, 50), "p99_us": percentile(times, 99),
            "max_us": max(times), "worker_cpu": used, "acks_per_s": sent["sent"] / sent["seconds"] if sent else 0, "restarts": restarts}


def main():
    parser = arguments(__doc__)
    example_argument(parser, "--hop", "the emulated links")
    parser.add_argument("--modes", default=",".join(MODES), help=f"which, separated by commas (default {','.join(MODES)})")
    parser.add_argument("--pace", type=int, default=15_000, help="acknowledgments a second (default 15000)")
    parser.add_argument("--segments", type=int, default=8_000, help="of a byte each, in the cache (default 8000)")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default 5)")
    parser.add_argument("--reps", type=int, default=1, help="repetitions (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--require", action="store_true", help=f"exit 1 when an exchange under the flood takes more than {MOST} times as long as without it")
    parser.add_argument("--attacker", metavar="SEED", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.offloads = False
    if args.attacker:
        print(json.dumps(attacker(args.attacker, args.pace, args.segments)))
        return 0
    check_machine(args)
    modes = chosen(parser, args.modes, MODES)
    check_built(args.hop)
    if not 9 <= args.segments <= 60_000:
        parser.error(f"--segments {args.segments}: 9 to 60000")
    found = {(mode, flooded): [] for mode in modes for flooded in (False, True)}
    for seed in range(args.reps):
        for mode, flooded in found:
            one = measure(args, mode, flooded, seed)
            found[mode, flooded].append(one)
            note(f"{mode}, {'flood' if flooded else 'quiet'}: " + ", ".join(f"{key} {value:.2f}" for key, value in one.items() if isinstance(value, float)))

    def median(mode, flooded, key):
        return statistics.median(one[key] for one in found[mode, flooded])

    worse, rows = False, []
    for mode, flooded in found:
        factor = median(mode, True, "mean_us") / median(mode, False, "mean_us")
        worse |= mode != "none" and factor > MOST
        said = f"{factor:.2f} times" + ("" if mode == "none" else " ok" if factor <= MOST else f" MISSED (<= {MOST})") if flooded else ""
        rows.append([mode, "flood" if flooded else "quiet", f"{median(mode, flooded, 'acks_per_s'):.0f}", *(f"{median(mode, flooded, key):.0f}" for key in ("mean_us", "p50_us", "p99_us", "max_us")),
                     f"{100 * median(mode, flooded, 'worker_cpu'):.0f}", sum(one["restarts"] for one in found[mode, flooded]), said])
    if args.json:
        print(json.dumps([one for runs in found.values() for one in runs], indent=2))
    else:
        print(f"exchanges of {CONNECTIONS} connections, median of {args.reps}\n")
        table(["gateway", "", "ACKs/s", "mean us", "p50", "p99", "longest", "CPU %", "restarts", "mean, to quiet"], rows)
    return 1 if worse and args.require else 0


if __name__ == "__main__":
    end_with(main)

#!/usr/bin/env python3
"""Tests whether lasthop's preset ns2 sends the same segments as ns-2.35, at the same times.

Every drop list below runs in both programs, for Reno, NewReno and SACK, with and without delayed acknowledgments and
limited transmit, over source --10 Mbps, 0.2 ms-- base --1.5 Mbps, 1 ms-- mobile or another of the paths below. Every
segment of the source must be the same packet, in the same order, within 0.1 ms.

    python3 benches/peers/compare.py                          # the fixed lists
    python3 benches/peers/compare.py --random 200 --seed 7    # and 200 random ones
    python3 benches/peers/compare.py --random 200 --paths wan,slow --windows 8,31 --queues 10
    python3 benches/peers/compare.py --data 5:1,6:1,5:2 --acks 9   # just this one
    python3 benches/peers/compare.py --only Reno/1/0 --keep out/  # one variant/delack/limited transmit; scenarios and both outputs are kept

In a drop list, `N:K` is the K-th transmission of data segment N, counted from 1, or of the SYN, which is segment 0. An
ACK is identified by its number; 0 is the SYN's. A lost frame has occupied the link: it is lost at the far end of the
last hop. Exits with status 1 if anything differs.
"""
import argparse
import concurrent.futures
import csv
import io
import itertools
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOLERANCE = 100e-6
SEGMENT = 1400

# ns-2's agent, lasthop's scheme
VARIANTS = {"Reno": "E2E", "Newreno": "E2E-NEWRENO", "Sack1": "E2E-IETF-SACK"}
# variant, delayed acknowledgments, limited transmit
SETTINGS = list(itertools.product(VARIANTS, (0, 1), (0, 1)))


# Rate and delay of the wired link, rate and delay of the last hop. On a slow one, whole windows are retransmitted
# spuriously. The wired link delivers a packet within a transmission time of the last hop: otherwise an arrival at a
# full queue that coincides with a departure comes first in ns-2, second in lasthop.
PATHS = {
    "lan": ("10 Mbps", "0.2 ms", "1.5 Mbps", "1 ms"),
    "wan": ("10 Mbps", "1 ms", "1.35 Mbps", "66 ms"),
    "slow": ("10 Mbps", "0.2 ms", "64 kbps", "20 ms"),
    "satellite": ("10 Mbps", "1 ms", "2 Mbps", "270 ms"),
}


@dataclass(frozen=True)
class DropList:
    """Losses: data as (segment, transmission), acknowledgments by number. Segment 0 is the SYN, acknowledgment 0 its
    first answer."""

    name: str
    data: tuple = ()
    acks: tuple = ()
    packets: int = 100
    window: int = 23
    queue: int = 10000
    path: str = "lan"

    def describe(self):
        text = ",".join(f"{n}:{k}" for n, k in self.data)
        if self.acks:
            text += (" " if text else "") + "acks " + ",".join(map(str, self.acks))
        extra = [f"{key}={value}" for key, value, usual in (
            ("window", self.window, 23), ("packets", self.packets, 100), ("queue", self.queue, 10000), ("path", self.path, "lan")) if value != usual]
        return " ".join([text or "none"] + extra)


def firsts(*segments):
    return tuple((n, 1) for n in segments)


FIXED = [
    DropList("no loss"),
    # one to eight losses in a window
    DropList("1 in slow start", firsts(5)),
    DropList("1 of the first two", firsts(1)),
    DropList("1 at full window", firsts(60)),
    DropList("2 adjacent", firsts(60, 61)),
    DropList("2 apart", firsts(55, 68)),
    DropList("2 at the window's ends", firsts(50, 72)),
    DropList("3 adjacent", firsts(60, 61, 62)),
    DropList("3 spread", firsts(51, 58, 66)),
    DropList("4 alternate", firsts(60, 62, 64, 66)),
    DropList("4 in slow start", firsts(14, 15, 17, 20)),
    DropList("5 in pairs", firsts(52, 53, 60, 61, 70)),
    DropList("6 adjacent", firsts(60, 61, 62, 63, 64, 65)),
    DropList("7 alternate", firsts(55, 57, 59, 61, 63, 65, 67)),
    DropList("8 adjacent", firsts(*range(60, 68))),
    DropList("8 every third", firsts(*range(48, 70, 3))),
    # in consecutive windows, so that one recovery meets the next
    DropList("a loss soon after recovery", firsts(30, 56, 60, 84)),
    DropList("a loss of what recovery sends", firsts(40, 41, 63, 64, 66)),
    # lost retransmissions
    DropList("a lost retransmission", ((60, 1), (60, 2))),
    DropList("lost three times", ((60, 1), (60, 2), (60, 3))),
    DropList("the second hole's retransmission", ((60, 1), (63, 1), (63, 2))),
    DropList("5 losses, two of them twice", ((50, 1), (51, 1), (54, 1), (54, 2), (58, 1), (58, 2), (59, 1))),
    DropList("RTO backed off to 16", tuple((20, k) for k in range(1, 6))),
    # too few duplicates
    DropList("the third of four", firsts(3)),
    DropList("a whole small window", firsts(3, 4, 5)),
    DropList("the last packet", firsts(100)),
    DropList("the last four", firsts(97, 98, 99, 100)),
    DropList("near the end", firsts(96)),
    DropList("window 4", firsts(30), window=4),
    DropList("window 6, two", firsts(30, 32), window=6),
    DropList("window 40, six", firsts(100, 101, 104, 110, 119, 125), packets=200, window=40),
    # the handshake
    DropList("the SYN", firsts(0)),
    DropList("two SYNs and the first segment", ((0, 1), (0, 2), (1, 1))),
    DropList("the SYN's answer", (), (0,)),
    # losses before anything but the SYN is acknowledged
    DropList("the first, three times", ((1, 1), (1, 2), (1, 3))),
    # another path
    DropList("wan, four", firsts(40, 44, 45, 60), (52,), path="wan"),
    DropList("slow, the first", firsts(1), path="slow"),
    DropList("slow, two", firsts(20, 22), path="slow"),
    DropList("satellite, three", firsts(30, 31, 40), path="satellite"),
    # a queue that overflows
    DropList("queue 10, two", firsts(30, 33), queue=10),
    DropList("queue 5", queue=5),
    # acknowledgments
    DropList("lost ACKs only", (), (3, 7, 8, 15, 16, 17, 30)),
    DropList("an ACK of slow start's beginning", (), (1,)),
    DropList("a loss and lost duplicates", firsts(60), tuple(range(58, 70))),
    DropList("a loss and some lost duplicates", firsts(60, 64), (60, 62, 63, 66, 70)),
    DropList("the last ACKs", (), tuple(range(47, 51)) + tuple(range(97, 101))),
    DropList("losses everywhere", ((4, 1), (9, 1), (21, 1), (22, 1), (22, 2), (35, 1), (47, 1), (48, 1), (61, 1), (61, 2), (77, 1), (90, 1)), (5, 13, 29, 44)),
]


def random_list(number, seed, windows, queues, paths):
    """Returns drop list `number` of `seed`: clustered in one window, spread over the transfer, or with repeated
    losses."""
    rng = random.Random(f"{seed}/{number}")
    packets = rng.choice([30, 60, 100, 200, 300])
    window = rng.choice(windows)
    data = set()
    kind = rng.randrange(3)
    if kind == 0:
        start = rng.randint(1, packets)
        for _ in range(rng.randint(1, 8)):
            data.add((min(packets, start + rng.randrange(window)), 1))
    elif kind == 1:
        start = rng.randint(1, packets)
        for _ in range(rng.randint(1, 8)):
            n = min(packets, start + rng.randrange(12))
            data.update((n, k) for k in range(1, rng.choice([1, 1, 1, 2, 3]) + 1))
    else:
        rate = rng.choice([0.01, 0.03, 0.1])
        data = {(n, k) for n in range(1, packets + 1) for k in range(1, 4) if rng.random() < rate}
    acks = ()
    if rng.random() < 0.4:
        rate = rng.choice([0.03, 0.1, 0.3])
        acks = tuple(k for k in range(1, 2 * packets) if rng.random() < rate)
    # A lost SYN or a lost answer, not both: lasthop's acceptor retransmits its answer on its own, ns-2's does not.
    handshake = rng.random()
    if handshake < 0.06:
        data.update((0, k) for k in range(1, rng.choice([1, 1, 2, 3]) + 1))
    elif handshake < 0.09:
        acks = (0, *acks)
    return DropList(f"random {seed}/{number}", tuple(sorted(data)), acks, packets, window, rng.choice(queues), rng.choice(paths))


class Failure(Exception):
    """Failure of a program."""


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        sys.exit(f"compare.py: '{command[0]}' not found")
    except subprocess.TimeoutExpired:
        raise Failure(f"did not end within 120 s: {shlex.join(command)}") from None
    if done.returncode != 0:
        raise Failure(f"status {done.returncode}: {shlex.join(command)}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


# ---------------------------------------------------------------- ns-2

def ns_command(args, drops, setting):
    variant, delack, limited = setting
    rate, delay, rate2, delay2 = (value.replace(" ", "").replace("bps", "b") for value in PATHS[drops.path])
    return shlex.split(args.ns) + [
        os.path.join(HERE, "ns2_trace.tcl"), f"variant={variant}", f"delack={delack}", f"lt={limited}", f"packets={drops.packets}",
        f"window={drops.window}", f"queue={drops.queue}", f"rate={rate}", f"delay={delay}", f"rate2={rate2}", f"delay2={delay2}",
        "drop=" + (",".join(f"{n}:{k}" for n, k in drops.data) or "-"),
        # The script counts the SYN's ACKs too; a lost one adds one.
        "ackdrop=" + (",".join(str(k + 1 + (0 in drops.acks and k > 0)) for k in drops.acks) or "-"), "verbose=1",
    ]


def ns_trace(args, drops, setting, keep):
    """Returns the segments of ns-2 as (seconds, packet), the phase of its RTT clock in seconds, and the data packets in
    the order in which they first reach the last hop's end: usually ascending, but an overflowing queue changes it, and
    lasthop numbers segments in this order."""
    text = run(ns_command(args, drops, setting))
    if keep:
        with open(keep + ".ns", "w", encoding="utf-8") as out:
            out.write(text)
    phase, segments, order, finished = None, [], {}, False
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["#", "phase"]:
            phase = float(words[2])
        elif words[0] == "#":
            finished |= words[1] == "done"
            if len(words) > 3 and words[2] == "data":
                packet = int(words[3].split(":")[0])
                if packet > 0:
                    order.setdefault(packet, len(order) + 1)
        else:
            segments.append((float(words[0]), int(words[1])))
    if not finished:
        raise Failure("ns-2 did not finish the transfer")
    return segments, phase, order


# ---------------------------------------------------------------- lasthop: what depends on its command line, scenario files and CSV

def lasthop_scenario(drops, setting, phase, order):
    """Returns the scenario file. `phase` is the start of ns-2's RTT clock between two 10 ms ticks, in seconds."""
    _, delack, limited = setting
    down = [f"{{ syn = {k} }}" if n == 0 else f"{{ data = {order[n]}, transmission = {k} }}" for n, k in drops.data if n == 0 or n in order]
    up = [f"{{ ack = {k} }}" if k > 0 else "{ syn = 1 }" for k in drops.acks]
    rate, delay, rate2, delay2 = PATHS[drops.path]
    # ns-2's limit counts the arriving packet as well: at most limit - 1 wait.
    queue = drops.queue - 1
    return f"""\
runs = 1
seed = 1
limit = "3600 s"

[tcp]
preset = "ns2"
mss = {SEGMENT}
socket_buffer = "{drops.window * SEGMENT} B"
{'window_scale = 3' if drops.window * SEGMENT > 0xffff else ''}
{'delayed_ack = "ns2"' if delack else 'delayed_ack = "off"'}
{'delayed_ack_timeout = "100 ms"' if delack else ''}
limited_transmit = {'true' if limited else 'false'}
tick_phase = "{(0.01 - phase) * 1e9:.0f} ns"

[hosts.source]
[hosts.mobile]
[routers.base]

[flows.bulk]
from = "source"
to = "mobile"
size = "{drops.packets * SEGMENT} B"
close = false

[links.wired]
between = ["source", "base"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue} packets"

[links.wireless]
between = ["base", "mobile"]
rate = "{rate2}"
delay = "{delay2}"
queue = "{queue} packets"
errors_down = {{ model = "list", drop = [{', '.join(down)}] }}
errors_up = {{ model = "list", drop = [{', '.join(up)}] }}
"""


def lasthop_command(args, path, setting):
    return shlex.split(args.lasthop) + ["trace", path, "--csv", "--scheme", VARIANTS[setting[0]]]


def lasthop_segments(text):
    """Returns the segments that the source sends as (seconds, packet), from `lasthop trace --csv`; packet 0 is the SYN.

    Acknowledgments without data are omitted: ns-2's one-way agents send none.
    """
    segments, first = [], None
    for row in csv.DictReader(io.StringIO(text)):
        if row["point"] != "source" or row["event"] not in ("sent", "retransmitted") or row["from"] != "initiator":
            continue
        seq = int(row["seq"])
        if "SYN" in row["flags"].split("|"):
            first = (seq + 1) % 2**32
            segments.append((float(row["time"]), 0))
        elif int(row["len"]) > 0:
            if first is None:
                raise Failure("lasthop sends data before a SYN")
            packet, rest = divmod((seq - first) % 2**32, SEGMENT)
            if rest or int(row["len"]) != SEGMENT:
                raise Failure(f"lasthop sends a segment of {row['len']} bytes at offset {packet * SEGMENT + rest}")
            segments.append((float(row["time"]), packet + 1))
    return segments


def lasthop_trace(args, drops, setting, phase, order, path, keep):
    """Returns the segments of lasthop as (seconds, packet). Writes the scenario to `path`."""
    with open(path, "w", encoding="utf-8") as out:
        out.write(lasthop_scenario(drops, setting, phase, order))
    text = run(lasthop_command(args, path, setting))
    if keep:
        with open(keep + ".csv", "w", encoding="utf-8") as out:
            out.write(text)
    return lasthop_segments(text)


# ---------------------------------------------------------------- comparison

def difference(ours, theirs):
    """Returns the index of the first segment that differs, and the reason; None if all agree."""
    for index, (a, b) in enumerate(zip(ours, theirs)):
        if a[1] != b[1]:
            return index, "another packet"
        if abs(a[0] - b[0]) > TOLERANCE:
            return index, f"{1e3 * (a[0] - b[0]):+.3f} ms"
    if len(ours) != len(theirs):
        return min(len(ours), len(theirs)), f"{len(ours)} segments instead of {len(theirs)}"
    return None


def side_by_side(ours, theirs, index):
    def cell(segments, i):
        return f"{segments[i][0]:14.9f} {segments[i][1]:6d}" if i < len(segments) else f"{'-':>14} {'':6}"

    lines = [f"      {'':4} {'ns-2':>21}   {'lasthop':>21}"]
    for i in range(max(0, index - 3), index + 4):
        if i < max(len(ours), len(theirs)):
            lines.append(f"    {'>' if i == index else ' '} {i:4} {cell(theirs, i)}   {cell(ours, i)}")
    return "\n".join(lines)


def record(args, lists, settings):
    """Writes the segments of ns-2 for each list in one setting, in turn, and the scenario for lasthop: the cases of
    crates/lasthop-scenario/tests/ns2.rs."""
    with open(args.record, "w", encoding="utf-8") as out:
        out.write("# Written by benches/peers/compare.py --record. After each scenario: microseconds and number of each packet that ns-2.35 sends.\n")
        for number, drops in enumerate(lists):
            setting = settings[number % len(settings)]
            segments, phase, order = ns_trace(args, drops, setting, None)
            scenario = lasthop_scenario(drops, setting, phase, order)
            scenario = "\n".join(line for line in scenario.splitlines() if line)
            sent = "\n".join(f"{1e6 * time:.1f} {packet}" for time, packet in segments)
            out.write(f"=== {VARIANTS[setting[0]]}, delayed ACKs {setting[1]}, limited transmit {setting[2]}: {drops.name}\n{scenario}\n---\n{sent}\n")


def check(job):
    """Checks one drop list in one setting; returns (cell of the table, report of a difference or None, segments,
    largest time difference)."""
    args, drops, setting, number, directory = job
    name = f"{number:04d}-{setting[0]}-{setting[1]}-{setting[2]}"
    path = os.path.join(directory, name + ".toml")
    keep = os.path.join(directory, name) if args.keep else None
    heading = f"{drops.name}: {drops.describe()}\n    {setting[0]}, delayed ACKs {setting[1]}, limited transmit {setting[2]}"
    try:
        theirs, phase, order = ns_trace(args, drops, setting, keep)
        ours = lasthop_trace(args, drops, setting, phase, order, path, keep)
    except Failure as failure:
        return "fail", f"{heading}\n    {failure}", 0, 0.0
    found = difference(ours, theirs)
    gap = max((abs(a[0] - b[0]) for a, b in zip(ours, theirs)), default=0.0) if found is None else 0.0
    if found is None:
        return "ok", None, len(theirs), gap
    index, why = found
    report = f"{heading}: {why}\n    {shlex.join(ns_command(args, drops, setting))}\n"
    report += f"    {shlex.join(lasthop_command(args, path, setting))}\n{side_by_side(ours, theirs, index)}"
    return f"@{index}", report, len(theirs), gap


def parse_data(text):
    pairs = [part.split(":") for part in text.split(",") if part]
    return tuple((int(p[0]), int(p[1]) if len(p) > 1 else 1) for p in pairs)


def numbers(text):
    return tuple(int(part) for part in text.split(",") if part)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0, metavar="N", help="random drop lists besides the fixed ones")
    parser.add_argument("--seed", default="1", help="of the random lists (default 1)")
    parser.add_argument("--windows", type=numbers, default=(4, 6, 8, 12, 20, 23, 31, 40),
                        help="windows of the random lists (default 4,6,8,12,20,23,31,40)")
    parser.add_argument("--paths", type=lambda text: tuple(text.split(",")), default=("lan",), help=f"paths of the random lists, of {','.join(PATHS)} (default lan)")
    parser.add_argument("--queues", type=numbers, default=(10000, 10000, 10000, 10, 5), help="queue limits of the random lists (default 10000,10000,10000,10,5)")
    parser.add_argument("--no-fixed", action="store_true", help="leave the fixed lists out")
    parser.add_argument("--data", type=parse_data, help="just this list of data losses: N:K,N:K,...")
    parser.add_argument("--acks", type=numbers, default=(), help="with --data: these ACK losses")
    parser.add_argument("--packets", type=int, default=100, help="with --data: length of the transfer")
    parser.add_argument("--window", type=int, default=23, help="with --data: window")
    parser.add_argument("--path", choices=PATHS, default="lan", help="with --data: path")
    parser.add_argument("--queue", type=int, default=10000, help="with --data: queue limit")
    parser.add_argument("--only", metavar="VARIANT/DELACK/LT", help="one setting, such as Sack1/0/1; parts may be left empty")
    parser.add_argument("--show", type=int, default=5, help="differences shown in full (default 5)")
    parser.add_argument("--keep", metavar="DIR", help="keep scenarios and outputs here")
    parser.add_argument("--record", metavar="FILE", help="run ns-2 only, and write the cases of lasthop's own test")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parallel comparisons")
    parser.add_argument("--ns", default="ns", help="ns-2's command")
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")),
                        help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    return parser, parser.parse_args()


def main():
    parser, args = arguments()
    if shutil.which(shlex.split(args.ns)[0]) is None:
        sys.exit("compare.py: ns-2 not found; on Debian: apt-get install ns2")
    if not set(args.paths) <= set(PATHS):
        parser.error(f"--paths takes {', '.join(PATHS)}")
    settings = SETTINGS
    if args.only:
        wanted = (args.only.split("/") + ["", ""])[:3]
        settings = [s for s in SETTINGS if all(w in ("", str(part)) for w, part in zip(wanted, s))]
        if not settings:
            parser.error(f"--only: no such setting; variants are {', '.join(VARIANTS)}")
    if args.data is not None:
        lists = [DropList("given", args.data, args.acks, args.packets, args.window, args.queue, args.path)]
    else:
        lists = [] if args.no_fixed else list(FIXED)
        lists += [random_list(i, args.seed, args.windows, args.queues, args.paths) for i in range(args.random)]

    if args.record:
        record(args, lists, settings)
        return 0
    with tempfile.TemporaryDirectory(prefix="lasthop-compare-") as scratch:
        directory = args.keep or scratch
        os.makedirs(directory, exist_ok=True)
        jobs = [(args, drops, setting, number, directory) for number, drops in enumerate(lists) for setting in settings]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(check, jobs))

    short = {"Reno": "Reno", "Newreno": "NewR", "Sack1": "SACK"}
    width = max([len(d.name) for d in lists] + [9])
    heads = [f"{short[v]}{' d' if d else ''}{' l' if t else ''}" for v, d, t in settings]
    print("columns: d = delayed ACKs, l = limited transmit; ok, or @ and the index of the first segment that differs")
    print(f"{'drop list':{width}} " + " ".join(f"{h:>8}" for h in heads))
    for number, drops in enumerate(lists):
        row = results[number * len(settings):(number + 1) * len(settings)]
        print(f"{drops.name:{width}} " + " ".join(f"{r[0]:>8}" for r in row))
    wrong = [r for r in results if r[1] is not None]
    for result in wrong[:args.show]:
        print(f"\n{result[1]}")
    if len(wrong) > args.show:
        print(f"\n(and {len(wrong) - args.show} more)")
    gap = max((r[3] for r in results), default=0.0)
    print(f"\n{len(lists)} drop lists, {len(results)} comparisons, {sum(r[2] for r in results)} segments; largest time difference where all agree {1e6 * gap:.3f} us")
    print(f"{len(results) - len(wrong)} alike, {len(wrong)} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

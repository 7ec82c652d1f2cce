#!/usr/bin/env python3
"""Tests whether simulator, lasthop's own TCP on real packets, and this kernel's TCP send the same segments.

Each script defines which segments and acknowledgments of a transfer are lost, late or marked. It is applied to the
simulator, to the lab with lasthop's TCP, and to the lab with the kernel's. The sender must send the same segments in
the same order, each at the same time within 2 ms, plus a tick of the kernel's clock if a timer sent it or the
acknowledgment that triggered it. Clocks may drift by 1 %, the time of devices and programs beside the links. Counters
of probes, timeouts, recoveries and undone recoveries must be equal.

    sudo python3 benches/agreement/scripts.py
    sudo python3 benches/agreement/scripts.py --congestion cubic,reno,bbr --link 20,100,100
    sudo python3 benches/agreement/scripts.py --only "tail" --keep out/   # scripts with that in their name; everything is kept
    sudo python3 benches/agreement/scripts.py --random 50 --seed 7
    sudo python3 benches/agreement/scripts.py --lose 40:1,40:2 --lose-acks 20 --late 60:1:10   # just this one
    sudo python3 benches/agreement/scripts.py --page docs/agreement.md   # store the results and summarise them on the page
    python3 benches/agreement/scripts.py --only-page                # the page from the stored results; needs no lasthop

In these options, `N:K` is the Kth transmission of segment N, which begins at byte N * 1448 of the stream;
acknowledgments count from 1. Requires root and some 3 s per script. Exits with status 1 if anything differs.
"""
import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "live")]
import common  # noqa: E402
import packets as pkts  # noqa: E402
import page  # noqa: E402
from call import call  # noqa: E402
from links import CONGESTION, Link  # noqa: E402

MSS = 1448
TOLERANCE = 0.002
# Time that real devices and programs add per elapsed second, and to the first segment.
DRIFT = 0.01
START = 0.005
# Columns of the stored results; SAME stands for no difference, nothing for a comparison that was not made.
FIELDS = ("link", "congestion", "script", "own", "kernel")
SAME = "same"


@dataclass(frozen=True)
class Script:
    """Events of segments (number, transmission) and acknowledgments (number). Late ones have a delay in milliseconds,
    and say whether later ones wait."""

    name: str
    lose: tuple = ()
    late: tuple = ()
    mark: tuple = ()
    lose_acks: tuple = ()
    late_acks: tuple = ()
    lose_syn: tuple = ()
    lose_syn_ack: tuple = ()
    segments: int = 150

    def errors(self):
        """Returns the keys of the lossy link."""
        def segment(number, transmission):
            return f"byte = {number * MSS}, transmission = {transmission}"

        def late(frame, by, behind):
            return f'{{ {frame}, by = "{by} ms", behind = "{behind}" }}'

        down = {
            "lose": [f"{{ {segment(*place)} }}" for place in self.lose] + [f"{{ syn = {n} }}" for n in self.lose_syn],
            "late": [late(segment(number, transmission), by, behind) for number, transmission, by, behind in self.late],
            "mark": [f"{{ {segment(*place)} }}" for place in self.mark],
        }
        up = {
            "lose": [f"{{ ack = {n} }}" for n in self.lose_acks] + [f"{{ syn = {n} }}" for n in self.lose_syn_ack],
            "late": [late(f"ack = {n}", by, behind) for n, by, behind in self.late_acks],
        }
        lines = []
        for key, script in (("errors_down", down), ("errors_up", up)):
            lists = [f"{name} = [{', '.join(entries)}]" for name, entries in script.items() if entries]
            if lists:
                lines.append(f'{key} = {{ model = "script", {", ".join(lists)} }}')
        return "\n".join(lines)

    @property
    def tcp(self):
        return 'ecn = "on"' if self.mark else ""


def firsts(*numbers):
    return tuple((n, 1) for n in numbers)


def alone(by, *numbers):
    return tuple((n, 1, by, "overtake") for n in numbers)


SCRIPTS = [
    Script("nothing lost"),
    # One to eight losses in a window.
    Script("the first segment", firsts(0)),
    Script("the fourth of the first window", firsts(3)),
    Script("the last of the first window", firsts(9)),
    Script("1 in slow start", firsts(40)),
    Script("2 in a row", firsts(40, 41)),
    Script("3 in a row", firsts(40, 41, 42)),
    Script("4 in a row", firsts(*range(40, 44))),
    Script("5 in a row", firsts(*range(40, 45))),
    Script("6 in a row", firsts(*range(40, 46))),
    Script("7 in a row", firsts(*range(40, 47))),
    Script("8 in a row", firsts(*range(40, 48))),
    Script("every second of 8", firsts(*range(40, 48, 2))),
    Script("8 spread over the window", firsts(*range(32, 64, 4))),
    Script("2 a window apart", firsts(40, 80)),
    Script("the first of new data in recovery", firsts(40, 72)),
    Script("the whole first window", firsts(*range(10))),
    # Tails.
    Script("tail: 1", firsts(49), segments=50),
    Script("tail: 2", firsts(48, 49), segments=50),
    Script("tail: 3", firsts(47, 48, 49), segments=50),
    Script("tail: 8", firsts(*range(42, 50)), segments=50),
    Script("tail: the one before the last", firsts(48), segments=50),
    Script("tail: a transfer of one segment", firsts(0), segments=1),
    Script("tail: the last of three segments", firsts(2), segments=3),
    Script("tail: the probe as well", ((49, 1), (49, 2)), segments=50),
    Script("tail: probe and timeout", ((49, 1), (49, 2), (49, 3)), segments=50),
    Script("tail: three timeouts in a row", ((49, 1), (49, 2), (49, 3), (49, 4)), segments=50),
    # Lost retransmissions.
    Script("a retransmission", ((40, 1), (40, 2))),
    Script("a retransmission twice", ((40, 1), (40, 2), (40, 3))),
    Script("two retransmissions of two", ((40, 1), (41, 1), (40, 2), (41, 2))),
    Script("one retransmission of four", (*firsts(40, 41, 42, 43), (41, 2))),
    Script("a retransmission in a small window", ((3, 1), (3, 2)), segments=40),
    Script("a retransmission four times", tuple((40, n) for n in range(1, 6))),
    # Acknowledgments.
    Script("acks: 1", lose_acks=(8,)),
    Script("acks: 6 in a row", lose_acks=tuple(range(12, 18))),
    Script("acks: the first window's", lose_acks=tuple(range(1, 11))),
    Script("acks: all but one of a window", lose_acks=tuple(range(11, 30))),
    Script("acks: the last", lose_acks=(50, 51, 52), segments=50),
    Script("acks: in recovery", firsts(40), lose_acks=tuple(range(42, 50))),
    Script("acks: every second late by 3 ms", late_acks=tuple((n, 3, "overtake") for n in range(10, 40, 2))),
    # The handshake.
    Script("handshake: the SYN", lose_syn=(1,), segments=30),
    Script("handshake: the answer", lose_syn_ack=(1,), segments=30),
    # Stalls.
    Script("stall of 300 ms", late=((40, 1, 300, "wait"),)),
    Script("stall of 300 ms of acknowledgments", late_acks=((20, 300, "wait"),)),
    Script("stall of 300 ms, then a loss", firsts(60), late=((40, 1, 300, "wait"),)),
    Script("stall of 300 ms at the end", late=((45, 1, 300, "wait"),), segments=50),
    Script("stall of 1 s", late=((40, 1, 1000, "wait"),)),
    Script("stall of 100 ms", late=((40, 1, 100, "wait"),)),
    # Reordering.
    Script("reordering by 1 ms", late=alone(1, 40)),
    Script("reordering by 3 ms", late=alone(3, 40)),
    Script("reordering by 5 ms", late=alone(5, 40)),
    Script("reordering by 10 ms", late=alone(10, 40)),
    Script("reordering by 20 ms", late=alone(20, 40)),
    Script("reordering of four by 10 ms", late=alone(10, 40, 44, 48, 52)),
    Script("reordering by 20 ms, then a loss", firsts(90), late=alone(20, 40)),
    Script("reordering by 70 ms", late=alone(70, 40)),
    Script("a retransmission late by 20 ms", firsts(40), late=((40, 2, 20, "overtake"),)),
    # Marks.
    Script("marks: 1", mark=firsts(40)),
    Script("marks: 3 in a window", mark=firsts(40, 45, 50)),
    Script("marks: two windows", mark=firsts(40, 90)),
    Script("marks: and a loss", firsts(44), mark=firsts(40)),
]


def random_script(rng, number):
    """Returns a script with random losses, late segments and lost acknowledgments."""
    segments = rng.choice((20, 60, 150))
    lose = set()
    for _ in range(rng.randint(0, 6)):
        first = rng.randrange(segments)
        lose |= {(n, 1) for n in range(first, min(segments, first + rng.choice((1, 1, 1, 2, 4))))}
    for place in sorted(lose):
        if rng.random() < 0.2:
            lose.add((place[0], 2))
    late = tuple((rng.randrange(segments), 1, rng.choice((1, 3, 10, 20)), "overtake") for _ in range(rng.choice((0, 0, 1, 2))))
    if rng.random() < 0.1:
        late += ((rng.randrange(segments), 1, 300, "wait"),)
    acks = tuple(sorted({rng.randrange(1, segments) for _ in range(rng.choice((0, 0, 2, 6)))}))
    return Script(f"random {number}", tuple(sorted(lose)), late, lose_acks=acks, segments=segments)


# Common counters of the simulator's events and the kernel.
COUNTERS = {
    "timeouts": (("timeout",), ("TCPTimeouts",)),
    "probes": (("tail-probe",), ("TCPLossProbes",)),
    "recoveries": (("recovery-entered",), ("TCPSackRecovery",)),
    "undone": (("undone-by-duplicates", "undone-by-timestamps", "undone-by-frto"), ("TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo")),
    "spurious timeouts": (("undone-by-frto",), ("TCPSpuriousRTOs",)),
}


def simulate(args, path):
    """Returns packets and counters of the simulator."""
    text = call(args.lasthop, "trace", "--csv", path, "--seed", str(args.seed))
    packets, events = pkts.from_trace(text)
    names = [event for _, point, event in events if point == "sender"]
    counters = {name: sum(names.count(event) for event in ours) for name, (ours, _) in COUNTERS.items()}
    return pkts.relative(packets), counters


def measure(args, path, endpoints, folder):
    """Returns packets and counters of the lab; for lasthop's own TCP those that the lab counts."""
    os.makedirs(folder, exist_ok=True)
    out = call(args.lasthop, "lab", path, "--runs", "1", "--json", "--pcapng", folder, "--set", f"lab.endpoints={endpoints}",
                     "--set", f"lab.lateness={args.lateness}", "--seed", str(args.seed))
    row = json.loads(out)["schemes"][0]
    packets = pkts.relative(pkts.from_pcapng(os.path.join(folder, "E2E-0.pcapng")))
    kernel = row["kernels"][0].get("sender")
    if kernel is None:
        counters = {name: round(row["measures"][name]["mean"]) for name in ("timeouts", "recoveries")}
    else:
        counters = {name: sum(kernel.get(counter, 0) for counter in theirs) for name, (_, theirs) in COUNTERS.items()}
    return packets, counters


def sent(packets):
    """Returns packets with data or a SYN, as the sender passes them to its link."""
    return [packet for packet in packets if packet.point == "sender" and packet.outbound and (packet.length or packet.flags & pkts.SYN)]


def ticks(wait):
    """Returns the maximum delay of a kernel's timer after `wait` seconds: a tick of 4 ms, from 63 ticks eight, from 504
    sixty-four."""
    return 0.004 if wait < 0.252 else 0.032 if wait < 2.016 else 0.256


class Timers:
    """Timers in the simulation: segments that a timer of the sender triggered, or an acknowledgment that a timer of the
    receiver triggered."""

    def __init__(self, packets):
        self.sender = [packet for packet in packets if packet.point == "sender"]
        self.receiver = [packet for packet in packets if packet.point == "receiver"]

    def slack(self, packet):
        """Returns by how much the clock's ticks may shift this segment; 0 if no timer is involved."""
        before = [other for other in self.sender if not other.outbound and other.time <= packet.time]
        if not before:
            # The first SYN, or a retransmitted one.
            return ticks(packet.time) if packet.time > 0 else 0.0
        last = before[-1]
        if packet.time - last.time > 1e-6:
            return ticks(packet.time - last.time)
        acks = [other for other in self.receiver if other.outbound and other.is_ack and (other.ack, other.sack) == (last.ack, last.sack) and other.time < last.time]
        arrived = [other for other in self.receiver if not other.outbound and acks and other.time <= acks[-1].time]
        if acks and arrived and acks[-1].time - arrived[-1].time > 1e-6:
            # Delayed acknowledgments, and compressed ones, whose timer has a fine resolution.
            return ticks(acks[-1].time - arrived[-1].time)
        return 0.0


def compare(simulated, measured):
    """Returns the first difference in order, or None; and the greatest difference in time that ticks do not explain,
    with its place."""
    ours, theirs = sent(simulated), sent(measured)
    timers = Timers(simulated)
    offset, worst, before = 0.0, (0.0, None), 0.0
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if (one.seq, one.length) != (other.seq, other.length):
            return f"{show(one)} / {show(other)} as number {number + 1}", worst
        beyond = other.time - one.time - offset
        # A tick shifts everything after it. So does the time that an application takes from its connection to its first
        # byte.
        slack = START if one.seq == 0 and before == 0.0 else timers.slack(one)
        slack += DRIFT * (one.time - before)
        moved = max(-slack, min(slack, beyond))
        offset, beyond, before = offset + moved, beyond - moved, one.time
        if abs(beyond) > abs(worst[0]):
            worst = (beyond, one)
    if len(ours) != len(theirs):
        longer = ours if len(ours) > len(theirs) else theirs
        whose = "simulated" if longer is ours else "measured"
        return f"only {whose}: {show(longer[min(len(ours), len(theirs))])}", worst
    return None, worst


def show(packet):
    number = "SYN" if packet.flags & pkts.SYN else f"segment {packet.seq / MSS:g}"
    return f"{number} at {packet.time * 1000:.1f} ms" + (f" ({packet.why})" if packet.why and packet.why != "new" else "")


def judge(ours, theirs):
    """Describes the differences between two runs; empty if they are the same."""
    differs = []
    order, (beyond, place) = compare(ours[0], theirs[0])
    if order:
        differs.append(f"order: {order}")
    if abs(beyond) > TOLERANCE:
        differs.append(f"time: {beyond * 1000:+.1f} ms at {show(place)}")
    for name, count in theirs[1].items():
        if ours[1][name] != count:
            differs.append(f"{name}: {ours[1][name]} / {count}")
    return differs


def gravity(differs):
    """Returns a sort key: order weighs more than counters, these more than times."""
    return [sum(text.startswith(what) for text in differs) for what in ("order:", *COUNTERS, "time:")]


def story(args, link, congestion, script, folder):
    path = os.path.join(folder, "scenario.toml")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(link.scenario(congestion, script.segments * MSS, script.errors(), limit=60, tcp=script.tcp))
    simulated = simulate(args, path)
    result = {"script": script.name, "congestion": congestion}
    if "own" in args.against:
        result["own"] = judge(simulated, measure(args, path, "own", os.path.join(folder, "own")))
    if "kernel" in args.against:
        # A kernel's behaviour varies if a tick decides; one of its variants must equal ours.
        for attempt in range(args.attempts):
            differs = judge(simulated, measure(args, path, "kernel", os.path.join(folder, f"kernel-{attempt}")))
            if "kernel" not in result or gravity(differs) < gravity(result["kernel"]):
                result["kernel"] = differs
            if not differs:
                break
    return result


def places(text):
    """Parses `40:1,41` into ((40, 1), (41, 1))."""
    return tuple((int(part.split(":")[0]), int((part.split(":") + ["1"])[1])) for part in text.split(",") if part)


def late(text):
    """Parses `60:1:10,70:1:300:wait`."""
    entries = [part.split(":") for part in text.split(",") if part]
    return tuple((int(number), int(transmission), float(by), (rest + ["overtake"])[0]) for number, transmission, by, *rest in entries)


def arguments():
    parser = common.arguments(__doc__)
    parser.add_argument("--congestion", default="cubic", help="which, separated by commas (default cubic)")
    parser.add_argument("--link", default="10,60,100", help="Mbps, round trip in ms, packets in the queue (default 10,60,100)")
    parser.add_argument("--only", default="", help="scripts with this in their name")
    parser.add_argument("--random", type=int, default=0, help="so many random scripts in place of the fixed ones")
    parser.add_argument("--seed", type=int, default=1, help="of random scripts, and of the clocks' phases")
    parser.add_argument("--lose", default="", help="a script of one's own: segments N:K")
    parser.add_argument("--late", default="", help="segments N:K:MS or N:K:MS:wait")
    parser.add_argument("--lose-acks", default="", help="acknowledgments N")
    parser.add_argument("--segments", type=int, default=150, help="of a script of one's own (default 150)")
    parser.add_argument("--against", default="own,kernel", help="own, kernel, or both (default)")
    parser.add_argument("--attempts", type=int, default=3, help="how often the kernel may try (default 3)")
    parser.add_argument("--lateness", default="1 ms", help="how late the lab's links may be (default 1 ms)")
    parser.add_argument("--keep", help="a folder for scenarios and captures")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", help="store the results (--results), and write the summary of scripts on this page")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "docs", "data", "scripts.csv"), help="file of results (default docs/data/scripts.csv)")
    parser.add_argument("--only-page", action="store_true", help="measure nothing: write the page (default docs/agreement.md) from the stored results")
    return parser


def main():
    parser = arguments()
    args = parser.parse_args()
    congestion = common.chosen(parser, args.congestion, CONGESTION)
    args.against = common.chosen(parser, args.against, ("own", "kernel"))
    if args.only_page:
        return write_page(args, page.read_rows(args.results))
    common.check_machine(args)
    try:
        link = Link(*map(float, args.link.split(",")))
        own = Script("the script given", places(args.lose), late(args.late), lose_acks=tuple(n for n, _ in places(args.lose_acks)), segments=args.segments)
    except (ValueError, TypeError):
        parser.error("--link takes three numbers, --lose and the like N:K, separated by commas")
    link = Link(link.mbps, link.rtt_ms, int(link.queue))
    scripts = [script for script in SCRIPTS if args.only in script.name]
    if args.random:
        rng = random.Random(args.seed)
        scripts = [random_script(rng, number + 1) for number in range(args.random)]
    if args.lose or args.late or args.lose_acks:
        scripts = [own]
    if args.page and (args.random or own in scripts):
        parser.error("--page is for the fixed scripts")
    keep = args.keep or tempfile.mkdtemp(prefix="lasthop-scripts-")
    results, left_out = [], []
    try:
        for name in congestion:
            for number, script in enumerate(scripts):
                folder = os.path.join(keep, f"{name}-{number + 1}")
                try:
                    result = story(args, link, name, script, folder)
                except RuntimeError as error:
                    # Most likely the links were late in each attempt, which is inconclusive for this script.
                    common.note(f"{name}, {script.name}: left out: {error}")
                    left_out.append(f"{name}, {script.name}")
                    continue
                results.append(result)
                text = "; ".join(f"{who}: {', '.join(differs)}" for who in args.against if (differs := result[who]))
                common.note(f"{len(results) + len(left_out)}/{len(congestion) * len(scripts)} {name}, {script.name}: {text or 'the same'}")
    except KeyboardInterrupt:
        common.note("interrupted")
    finally:
        if not args.keep:
            shutil.rmtree(keep)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print(table(results, args.against, left_out))
    if args.page and results:
        store(args, results)
        write_page(args, page.read_rows(args.results))
    return 1 if left_out or any(result[who] for result in results for who in args.against) else 0


def link_name(text):
    """Returns the name of a link in the stored results."""
    return ",".join(f"{float(part):g}" for part in text.split(","))


def store(args, results):
    """Stores the results; those of the same scripts are replaced."""
    rows = {(row["link"], row["congestion"], row["script"]): row for row in page.read_rows(args.results)}
    for result in results:
        texts = {who: "; ".join(result[who]) or SAME for who in args.against}
        key = (link_name(args.link), result["congestion"], result["script"])
        rows[key] = {**rows.get(key, {}), **dict(zip(FIELDS, key)), **texts}
    page.write_rows(args.results, FIELDS, rows.values())


def write_page(args, rows):
    """Writes the summary of the stored results of the link and congestion controls; returns 1 if something is missing."""
    wanted = [row for row in rows if row["link"] == link_name(args.link) and row["congestion"] in args.congestion.split(",")]
    missing = [script.name for script in SCRIPTS if script.name not in {row["script"] for row in wanted}]
    lines = ["| compared with | scripts | same order | same counters | same times | largest difference in time |", "|---|--:|--:|--:|--:|--:|"]
    named = []
    for who, title in (("own", "lasthop's TCP on the lab's links"), ("kernel", "the kernel's TCP")):
        results = {f"{row['congestion']}, {row['script']}": [] if row[who] == SAME else row[who].split("; ") for row in wanted if row[who]}
        in_order, counted, same = totals(results.values())
        times = [abs(float(text.split()[1])) for differs in results.values() for text in differs if text.startswith("time:")]
        lines.append(f"| {title} | {len(results)} | {in_order} | {counted} | {same} | {max(times, default=0.0):.1f} ms |")
        named += [f"* {title}: {script}: {differs[0]}" for script, differs in results.items() if totals([differs])[:2] != (1, 1)]
    if named:
        lines += ["", "Different in order or counters:", "", *named]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    page.replace(args.page or os.path.join(common.ROOT, "docs", "agreement.md"), "scripts", "\n".join(lines))
    return 1 if missing else 0


def totals(results):
    """Returns how many results have the same order, the same counters, and no difference."""
    results = list(results)
    in_order = sum(not any(text.startswith("order:") for text in differs) for differs in results)
    counted = sum(all(text.startswith(("order:", "time:")) for text in differs) for differs in results)
    return in_order, counted, sum(not differs for differs in results)


def table(results, against, left_out):
    lines = [f"| script | {' | '.join(f'simulated / {who}' for who in against)} |", "|---|" + "---|" * len(against)]
    for result in results:
        cells = ["; ".join(result[who]) or "the same" for who in against]
        lines.append(f"| {result['congestion']}, {result['script']} | {' | '.join(cells)} |")
    lines.append("")
    for who in against:
        in_order, counted, same = totals(result[who] for result in results)
        lines.append(f"* {who}: of {len(results)} scripts the same segments in the same order in {in_order}, the same counters in {counted}, times too in {same}.")
    if left_out:
        lines.append(f"* Not measured, for the links were late in each attempt: {', '.join(left_out)}.")
    return "\n".join(lines)


if __name__ == "__main__":
    common.end_with(main)

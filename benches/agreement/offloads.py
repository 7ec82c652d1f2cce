#!/usr/bin/env python3
"""Tests whether the simulator predicts this machine's kernel with segmentation and receive offload.

A cell is a link as in grid.py (Mbps, round-trip time in ms, loss in percent, packets in the queue) and an offload. The
sender is at the lossy hop, whose losses affect whole super-segments. Each transfer runs for a fixed time, several times
in the lab and many more times in the simulator, beside the same transfer without the offload.

    sudo python3 benches/agreement/offloads.py                        # all cells: some 50 minutes
    sudo python3 benches/agreement/offloads.py --cells 20,50,1,100/tso --runs 4
    python3 benches/agreement/offloads.py --only-page                 # the page from the stored data

Runs are saved as soon as they finish, and are not repeated.
"""
import concurrent.futures
import csv
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "live")]
import common  # noqa: E402
import page  # noqa: E402
from call import call  # noqa: E402
from estimate import ratio  # noqa: E402
from grid import ENDLESS, Cell, digest  # noqa: E402

# Keys of sender and receiver, and the unit of losses.
OFFLOADS = {
    "none": (("", ""), "packet"),
    "tso": (('tso = "on"', ""), "super-segment"),
    "gro": (("", 'gro = "on", gro_flush_timeout = "1 ms"'), "packet"),
    "tso+gro": (('tso = "on"', 'gro = "on", gro_flush_timeout = "1 ms"'), "super-segment"),
}
CELLS = [f"{link}/{offload}" for link, offloads in (
    ("20,50,1,1000", ("none", "tso", "tso+gro")), ("5,50,3,1000", ("none", "tso")), ("100,50,0.1,1000", ("none", "tso", "gro", "tso+gro")),
    ("100,10,1,1000", ("none", "tso")),
) for offload in offloads]
CONGESTION = ("cubic", "bbr")
FIELDS = ("how", "cell", "congestion", "seconds", "number", "throughput", "source_retransmissions", "timeouts", "lateness_us", "void", "date", "kernel", "program")
KEY = FIELDS[:4]


def read(cell):
    """Returns the link and the offload of a cell."""
    link, _, offload = cell.partition("/")
    if offload not in OFFLOADS:
        raise ValueError(cell)
    return Cell.read(link), offload


def scenario(cell, congestion, seconds):
    """Returns the TOML of a cell."""
    link, offload = read(cell)
    hosts, unit = OFFLOADS[offload]
    errors = link.errors.replace(" }", f', unit = "{unit}" }}')
    return link.link.scenario(congestion, ENDLESS, errors, limit=seconds, hosts=hosts, upload=True)


class Runs:
    """Stored runs. Simulated runs are valid for one program."""

    def __init__(self, path, program):
        self.path, self.rows = path, []
        self.rows = [row for row in page.read_rows(path) if row["how"] == "measured" or row["program"] == program or not program]

    def of(self, **key):
        return [row for row in self.rows if all(row[name] == str(key[name]) for name in KEY)]

    def add(self, row):
        fresh = not os.path.exists(self.path)
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append({name: str(row.get(name, "")) for name in FIELDS})

    def values(self, measure, **key):
        return {int(row["number"]): float(row[measure]) for row in self.of(**key)}


def work(args, runs, cells, about):
    """Simulates and measures what is missing."""
    with tempfile.TemporaryDirectory(prefix="lasthop-offloads-") as folder:
        path = os.path.join(folder, "cell.toml")
        for number in range(max(args.runs, 1)):
            for cell in cells:
                for congestion in CONGESTION:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(scenario(cell, congestion, args.seconds))
                    key = {"cell": cell, "congestion": congestion, "seconds": args.seconds}
                    if number == 0 and args.only != "measured":
                        simulate(args, runs, path, read(cell)[0].link, {**key, "how": "simulated"}, about)
                    if number < args.runs and args.only != "simulated":
                        measure(args, runs, path, {**key, "how": "measured"}, number, about)


def simulate(args, runs, path, link, key, about):
    there = len(runs.of(**key))

    def one(number):
        out = call(args.lasthop, "run", path, "--json", "--runs", "1", "--seed", str(args.seed * 1000 + number), *link.as_late())
        return number, json.loads(out)["measures"]

    with concurrent.futures.ThreadPoolExecutor(args.jobs or os.cpu_count()) as pool:
        for number, measures in pool.map(one, range(there, args.simulations)):
            runs.add({**key, **about, "number": number, **{name: measures[name]["mean"] for name in FIELDS[5:8]}})


def measure(args, runs, path, key, number, about):
    if any(row["number"] == str(number) for row in runs.of(**key)):
        return
    common.note(f"measuring {key['cell']} {key['congestion']} run {number + 1}")
    try:
        out = call(args.lasthop, "lab", path, "--runs", "1", "--json", "--seed", str(args.seed * 1000 + number), "--set", f"lab.lateness={args.lateness}")
    except RuntimeError as error:
        # The next call tries it again.
        common.note(f"left out: {error}")
        return
    row = json.loads(out)["schemes"][0]
    measures = {name: row["measures"][name]["mean"] for name in FIELDS[5:8]}
    runs.add({**key, **about, "number": number, **measures, "lateness_us": row["lateness_us"]["p99"], "void": row["void"]})


def table(runs, cells, seconds):
    """Returns the table of the page."""
    lines = [
        "| link | congestion control | offload | runs | lab, Mbps | simulated, Mbps | ratio (90 %) | retransmissions, lab / simulated |",
        "|---|---|---|--:|--:|--:|---|--:|",
    ]
    for cell in cells:
        for congestion in CONGESTION:
            link, offload = read(cell)
            key = {"cell": cell, "congestion": congestion, "seconds": seconds}
            ours, theirs = (runs.values("throughput", how=how, **key) for how in ("simulated", "measured"))
            if not ours or not theirs:
                continue
            found = ratio(ours, theirs)
            if found is None:
                continue
            between = "" if found[1] is None else f" ({found[1]:.2f} – {found[2]:.2f})"
            counts = [statistics.fmean(runs.values("source_retransmissions", how=how, **key).values()) for how in ("measured", "simulated")]
            name = f"{link.mbps:g} Mbps, {link.rtt_ms:g} ms, {link.loss:g} %"
            means = [statistics.fmean(values.values()) for values in (theirs, ours)]
            lines.append(
                f"| {name} | {congestion} | {offload} | {len(theirs)} | {means[0]:.3g} | {means[1]:.3g} | {found[0]:.3f}{between} | "
                f"{counts[0]:.0f} / {counts[1]:.0f} |"
            )
    return "\n".join(lines)


def main():
    parser = common.arguments(__doc__)
    docs = os.path.join(common.ROOT, "docs")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="CELL", help=f"cells MBPS,RTT,LOSS,QUEUE/OFFLOAD; offloads: {', '.join(OFFLOADS)}")
    parser.add_argument("--runs", type=int, default=8, help="measured runs of a cell (default 8)")
    parser.add_argument("--seconds", type=int, default=20, help="duration of each (default 20)")
    parser.add_argument("--simulations", type=int, default=100, help="simulated runs of a cell (default 100)")
    parser.add_argument("--jobs", type=int, default=0, help="threads of the simulator (default: one per core)")
    parser.add_argument("--seed", type=int, default=1, help="other errors and clocks (default 1)")
    parser.add_argument("--lateness", default="1 ms", help="how late the lab's links may be (default 1 ms)")
    parser.add_argument("--data", default=os.path.join(docs, "data", "offloads.csv"), help="file of runs (default docs/data/offloads.csv)")
    parser.add_argument("--page", default=os.path.join(docs, "agreement.md"), help="page whose table is written (default docs/agreement.md)")
    parser.add_argument("--only", choices=("simulated", "measured"), help="do only one of the two")
    parser.add_argument("--only-page", action="store_true", help="measure and simulate nothing: write the page from the stored data")
    args = parser.parse_args()
    for cell in args.cells:
        try:
            read(cell)
        except ValueError:
            parser.error(f"--cells: '{cell}' is no cell; give MBPS,RTT,LOSS,QUEUE/OFFLOAD as 20,50,1,1000/tso")
    runs = Runs(args.data, "" if args.only_page else digest(args.lasthop))
    if not args.only_page:
        common.check_machine(args)
        about = {"date": datetime.date.today().isoformat(), "kernel": platform.release().split("-")[0], "program": digest(args.lasthop)}
        work(args, runs, args.cells, about)
    shown = list(dict.fromkeys([*CELLS, *(row["cell"] for row in runs.rows)]))
    text = table(runs, shown, args.seconds)
    page.replace(args.page, "offloads", text)
    print(text)
    return 0


if __name__ == "__main__":
    common.end_with(main)

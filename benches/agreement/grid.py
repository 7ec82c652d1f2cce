#!/usr/bin/env python3
"""Tests whether the simulator predicts this machine's kernel: simulates and measures a grid of links in the lab, and
summarises the agreement on a page.

A cell is a link: Mbps, round-trip time in ms, loss in percent (independent, in both directions), packets in the queue;
with /4 after the loss, losses come in bursts of 4 packets on average. For each cell and scheme the lab runs a transfer
between kernels for a fixed time, several times, and the simulator does the same many more times. 100 kB and 1 MB
transfers are timed as well.

    sudo make agreement                                             # all cells: hours
    sudo python3 benches/agreement/grid.py --cells 20,50,1,100 20,50,3/4,100 --runs 8
    sudo python3 benches/agreement/grid.py --list                   # the cells there are
    python3 benches/agreement/grid.py --only-page                   # the page from the stored data; needs no lasthop

Each run is saved in a file (--measured, --simulated) as soon as it finishes, and is not repeated: after Ctrl-C the next
call continues. The rows behind the page, one per cell and scheme, are stored in a third (--data).
"""
import argparse
import concurrent.futures
import csv
import datetime
import hashlib
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "live")]
import common  # noqa: E402
import page  # noqa: E402
from call import call  # noqa: E402
from links import Link  # noqa: E402

# Name of a scheme in the grid: lasthop's scheme, and the congestion control of the sender.
SCHEMES = {
    "CUBIC": ("E2E", "cubic"),
    "RENO": ("E2E", "reno"),
    "BBR": ("E2E", "bbr"),
    "SNOOP": ("SNOOP", "cubic"),
    "SPLIT-BBR": ("SPLIT-BBR", "cubic"),
}
BASE_STATION = '[base_station]\nrouter = "gateway"\nlink = "lossy"'
# Transfers: for a time, or a number of bytes.
SHORT = {"100 kB": 100_000, "1 MB": 1_000_000}
SUSTAINED = "sustained"
# More than any link here carries in a run.
ENDLESS = 1 << 40
MOST_RUNS = 1000
MEASURES = ("throughput", "timeouts", "source_retransmissions", "recoveries")


@dataclass(frozen=True)
class Cell:
    """Link with its losses."""

    mbps: float
    rtt_ms: float
    loss: float
    queue: int
    burst: int = 1

    @classmethod
    def read(cls, text):
        mbps, rtt_ms, loss, queue = text.split(",")
        loss, _, burst = loss.partition("/")
        cell = cls(float(mbps), float(rtt_ms), float(loss), int(queue), int(burst or 1))
        if not (cell.mbps > 0 and cell.rtt_ms > 0 and 0 <= cell.loss < 100 and cell.queue > 0 and cell.burst >= 1):
            raise ValueError(text)
        return cell

    def __str__(self):
        burst = f"/{self.burst}" if self.burst > 1 else ""
        return f"{self.mbps:g},{self.rtt_ms:g},{self.loss:g}{burst},{self.queue}"

    @property
    def link(self):
        return Link(self.mbps, self.rtt_ms, self.queue)

    @property
    def errors(self):
        share = self.loss / 100
        if share == 0:
            return ""
        if self.burst == 1:
            return f'errors = {{ model = "uniform", frame_loss = {share:.6f} }}'
        leave = 1 / self.burst
        return f'errors = {{ model = "two-state-packet", good_to_bad = {share * leave / (1 - share):.9f}, bad_to_good = {leave} }}'


# The most informative cells come first: an evening suffices for half of them.
CELLS = [Cell.read(text) for text in (
    "20,50,1,100", "20,50,3,100", "20,50,10,100", "5,50,10,100", "5,50,3,20", "20,50,0.1,100", "5,10,1,20", "5,10,10,20",
    "20,50,1,20", "20,50,10,20", "5,50,1,100", "5,150,3,100", "100,50,1,100", "100,10,10,100", "100,10,1,20", "100,50,3,20",
    "20,50,0,100", "20,50,0,20", "5,50,0.1,20", "5,150,0.1,20", "100,10,0.1,100", "100,50,0.1,100", "100,150,1,100", "100,150,0,100",
)]
BURSTS = [Cell.read(text) for text in ("20,50,1/4,100", "20,50,3/4,100", "20,50,10/4,100", "5,150,3/4,20", "5,10,10/4,20", "100,10,3/4,100")]


class Results:
    """Runs in two files, one per line. Measurements remain valid when the simulator changes; simulations are valid for
    one program, whose digest is in each line."""

    KEY = ("how", "cell", "scheme", "what", "limit")
    FIELDS = ("cell", "scheme", "what", "limit", "number", *MEASURES, "lateness_us", "void", "date", "kernel", "program")
    TEXTS = ("cell", "scheme", "what", "date", "kernel", "program")

    def __init__(self, measured, simulated, about):
        self.paths = {"measured": measured, "simulated": simulated}
        self.about = about
        self.index = {}
        self.lock = threading.Lock()
        for how, path in self.paths.items():
            if os.path.exists(path):
                self.read(how, path)

    def read(self, how, path):
        with open(path, encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                try:
                    run = {field: row[field] if field in self.TEXTS else float(row[field]) if row[field] else None for field in self.FIELDS}
                except (TypeError, ValueError):
                    # The last line of a run that was killed while writing.
                    common.note(f"{path}:{number}: not a whole line; left out")
                    continue
                if how == "measured" or run["program"] == self.about["program"]:
                    self.keep({**run, "how": how})

    def keep(self, run):
        """Adds a run to the index for `of`, with the duration of a transfer."""
        if run["what"] != SUSTAINED:
            run = {**run, "seconds": SHORT[run["what"]] * 8 / 1e6 / run["throughput"]}
        self.index.setdefault(tuple(run.get(key) for key in self.KEY), []).append(run)

    def of(self, **wanted):
        """Returns the runs of one kind: `wanted` has a value for each of KEY."""
        return self.index.get(tuple(wanted[key] for key in self.KEY), [])

    def measured(self):
        """Returns all measured runs."""
        return [run for runs in self.index.values() for run in runs if run["how"] == "measured"]

    def add(self, **run):
        run = {**run, **self.about}
        path = self.paths[run["how"]]
        with self.lock:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            line = io.StringIO()
            writer = csv.DictWriter(line, self.FIELDS, extrasaction="ignore", lineterminator="\n")
            size = os.path.getsize(path) if os.path.exists(path) else 0
            if size == 0:
                writer.writeheader()
            elif not ends_whole(path):
                line.write("\n")
            writer.writerow(run)
            with open(path, "a", encoding="utf-8") as file:
                file.write(line.getvalue())
            self.keep(run)


def ends_whole(path):
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def digest(program):
    """Identifies a build of lasthop; empty if there is none."""
    if not os.path.exists(program):
        return ""
    with open(program, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def scenario(cell, name, what, seconds):
    """Returns the TOML of a cell under a scheme."""
    scheme, congestion = SCHEMES[name]
    size, limit = (ENDLESS, seconds) if what == SUSTAINED else (SHORT[what], 600)
    station = "" if scheme == "E2E" else BASE_STATION
    return cell.link.scenario(congestion, size, cell.errors, limit=limit, scheme=scheme, base_station=station)


def ended(path, what, values):
    """Returns the metrics of a run. In a sustained run nothing may arrive if all SYNs are lost; a transfer must
    complete."""
    if not values.get("throughput") and what != SUSTAINED:
        raise RuntimeError(f"{path}: nothing arrived")
    return values


def seed(args, number):
    """Returns the seed of a run's errors, which are the same in simulator and lab."""
    return str(args.seed * MOST_RUNS + number)


def simulate(args, results, cell, name, what, folder):
    """Simulates the missing runs of a cell."""
    key = {"how": "simulated", "cell": str(cell), "scheme": name, "what": what, "limit": args.seconds if what == SUSTAINED else None}
    there = len(results.of(**key))
    if there >= args.simulations:
        return
    path = os.path.join(folder, "simulated.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario(cell, name, what, args.seconds))

    def one(number):
        out = call(args.lasthop, "run", path, "--json", "--runs", "1", "--seed", seed(args, number), *cell.link.as_late())
        values = {measure: json.loads(out)["measures"][measure]["mean"] for measure in MEASURES}
        return {**ended(path, what, values), "number": number}

    # One process per run, so that failures are reported individually.
    with concurrent.futures.ThreadPoolExecutor(args.jobs or os.cpu_count()) as pool:
        for run in pool.map(one, range(there, args.simulations)):
            results.add(**key, **run)


def measure(args, results, cell, name, what, number, folder):
    """Measures one run in the lab."""
    key = {"how": "measured", "cell": str(cell), "scheme": name, "what": what, "limit": args.seconds if what == SUSTAINED else None, "number": number}
    path = os.path.join(folder, f"measured-{threading.get_ident()}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario(cell, name, what, args.seconds))
    out = call(args.lasthop, "lab", path, "--runs", "1", "--json", "--seed", seed(args, number), "--set", f"lab.lateness={args.lateness}")
    row = json.loads(out)["schemes"][0]
    values = {measure: row["measures"][measure]["mean"] for measure in MEASURES}
    results.add(**key, **ended(path, what, values), lateness_us=row["lateness_us"]["p99"], void=row["void"])


def plan(args, results, cells, schemes):
    """Returns the remaining measurements: the first run of everything in a cell before the second of anything."""
    left = []
    for cell in cells:
        for number in range(max(args.runs, args.short_runs)):
            for what in (SUSTAINED, *SHORT):
                if number >= (args.runs if what == SUSTAINED else args.short_runs):
                    continue
                for name in schemes:
                    limit = args.seconds if what == SUSTAINED else None
                    done = results.of(how="measured", cell=str(cell), scheme=name, what=what, limit=limit)
                    if all(run["number"] != number for run in done):
                        left.append((cell, name, what, number))
    return left


def seconds_of(args, results, cell, name, what):
    """Estimates the duration of a run from simulations."""
    if what == SUSTAINED:
        return args.seconds + 1.5
    runs = results.of(how="simulated", cell=str(cell), scheme=name, what=what, limit=None)
    return 1.5 + (statistics.fmean(run["seconds"] for run in runs) if runs else 5.0)


def rough(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def work(args, results, cells, schemes):
    """Simulates and measures what is missing."""
    with tempfile.TemporaryDirectory(prefix="lasthop-agreement-") as folder:
        if args.only != "measured":
            kinds = [(cell, name, what) for cell in cells for what in (SUSTAINED, *SHORT) for name in schemes]
            for number, (cell, name, what) in enumerate(kinds, 1):
                if what != SUSTAINED and not args.short_runs:
                    continue
                common.note(f"simulating {number}/{len(kinds)}: {cell} {name} {what}")
                simulate(args, results, cell, name, what, folder)
        left = plan(args, results, cells, schemes) if args.only != "simulated" else []
        measure_all(args, results, left, folder)


def measure_all(args, results, left, folder):
    """Measures what is left, in several labs at the same time; stops early after too many failures, the given time, or
    Ctrl-C."""
    takes = [seconds_of(args, results, cell, name, what) / args.at_once for cell, name, what, _ in left]
    failures, ends = [], threading.Event()

    def one(at):
        cell, name, what, run = left[at]
        rest = rough(sum(takes[at:]))
        if args.minutes and time.monotonic() - args.begun > args.minutes * 60:
            ends.set()
        if ends.is_set():
            return 0
        common.note(f"measuring {at + 1}/{len(left)}: {cell} {name} {what} run {run + 1}; some {rest} left")
        try:
            measure(args, results, cell, name, what, run, folder)
        except RuntimeError as error:
            failures.append(error)
            common.note(f"left out: {error}")
            if len(failures) > 10:
                ends.set()
        return 1

    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        try:
            begun = sum(pool.map(one, range(len(left))))
        except BaseException:
            ends.set()
            raise
    if len(failures) > 10:
        raise RuntimeError("more than ten runs failed")
    if begun < len(left):
        common.note(f"{args.minutes:g} minutes are over; {len(left) - begun} runs are left ({rough(sum(takes[begun:]))})")


def arguments():
    parser = common.arguments(__doc__)
    parser.add_argument("--cells", nargs="+", default=["all"], metavar="CELL", help="cells MBPS,RTT,LOSS,QUEUE or MBPS,RTT,LOSS/BURST,QUEUE; or all, single, bursts")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help=f"of {', '.join(SCHEMES)} (default: all)")
    parser.add_argument("--runs", type=int, default=10, help="measured runs of a cell and scheme (default 10)")
    parser.add_argument("--seconds", type=float, default=20, help="duration of each (default 20)")
    parser.add_argument("--short-runs", type=int, default=10, help="measured transfers of 100 kB and of 1 MB (default 10)")
    parser.add_argument("--simulations", type=int, default=200, help="simulated runs of each (default 200)")
    parser.add_argument("--jobs", type=int, default=0, help="threads of the simulator (default: one per core)")
    parser.add_argument("--seed", type=int, default=1, help="other errors and clocks (default 1)")
    parser.add_argument("--minutes", type=float, help="begin no run after so many minutes")
    parser.add_argument("--lateness", default="1 ms", help="how late the lab's links may be (default 1 ms)")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="labs that run beside each other (default 1); up to five a core at 20 Mbps, but one where there is a gateway or a faster link")
    parser.add_argument("--measured", default=os.path.join(common.ROOT, "docs", "data", "agreement.csv"), help="file of measured runs (default docs/data/agreement.csv)")
    parser.add_argument("--simulated", default=os.path.join(common.ROOT, "target", "agreement.csv"), help="file of simulated runs (default target/agreement.csv)")
    parser.add_argument("--data", default=os.path.join(common.ROOT, "docs", "data", "grid.csv"), help="file of the page's rows (default docs/data/grid.csv)")
    parser.add_argument("--page", default=os.path.join(common.ROOT, "docs", "agreement.md"), help="page whose tables are written (default docs/agreement.md)")
    parser.add_argument("--only", choices=("simulated", "measured"), help="do only one of the two")
    parser.add_argument("--only-page", action="store_true", help="measure and simulate nothing: write the page from the stored data")
    parser.add_argument("--list", action="store_true", help="print the cells and end")
    return parser


def cells_of(parser, given):
    known = {"all": CELLS + BURSTS, "single": CELLS, "bursts": BURSTS}
    cells = []
    for text in given:
        try:
            cells += known[text] if text in known else [Cell.read(text)]
        except ValueError:
            parser.error(f"--cells: '{text}' is no cell; give MBPS,RTT,LOSS,QUEUE as 20,50,1,100, or 20,50,1/4,100 for bursts of 4")
    return list(dict.fromkeys(cells))


def main():
    parser = arguments()
    args = parser.parse_args()
    args.begun = time.monotonic()
    if not all(0 <= number <= MOST_RUNS for number in (args.runs, args.short_runs, args.simulations)):
        parser.error(f"--runs, --short-runs and --simulations go to {MOST_RUNS}: seeds follow from their numbers")
    cells = cells_of(parser, args.cells)
    schemes = common.chosen(parser, args.schemes, SCHEMES)
    if args.list:
        print("\n".join(map(str, cells)))
        return 0
    if args.at_once < 1:
        parser.error("--at-once: give 1 or more")
    about = {"date": datetime.date.today().isoformat(), "kernel": platform.release().split("-")[0], "program": digest(args.lasthop)}
    results = Results(args.measured, args.simulated, about)
    status = 0
    if not args.only_page:
        common.check_machine(args)
        try:
            work(args, results, cells, schemes)
        except KeyboardInterrupt:
            common.note("interrupted; the next call goes on from here")
            status = 130
    # All measurements stay on the page.
    shown = dict.fromkeys([*map(str, CELLS + BURSTS), *map(str, cells), *(run["cell"] for run in results.measured())])
    passed = page.write(args.page, args.data, results, list(shown), list(SCHEMES), args.seconds)
    if not args.only_page:
        print("\n" + page.table(page.collect(args.data, results, list(map(str, cells)), schemes, args.seconds)))
    return status or (0 if passed else 1)


if __name__ == "__main__":
    common.end_with(main)

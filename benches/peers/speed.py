#!/usr/bin/env python3
"""Measures lasthop beside ns-2, ns-3 and a bare event loop: processor time and instructions of transfers of 8 MiB over a
lossy last hop, and the throughput that lasthop and ns-3 simulate on five links.

Each program runs K transfers in one process for a small and for a large K, in turns; the slope of user + system time
over K is the time of a transfer, without start-up and the reading of scripts. The best figure of a program is the slope
between its fastest runs; the spread is that of the turns. Equal work shows in the frames that the lossy hop transmits,
which every program counts. Instructions are the same slope of one run each, by `perf stat`, or by valgrind where the
processor counts nothing.

    cargo build --release --package lasthop && cargo build --release --package lasthop-sim --example bare_loop
    python3 benches/peers/speed.py                          # whatever is installed; some minutes
    python3 benches/peers/speed.py --require ns-2=6 --require ns-3=50     # exit 1 when lasthop is not so many times as fast
    python3 benches/peers/speed.py --page docs/notes/simulator-speed.md   # and put the tables there
    python3 benches/peers/speed.py --only lasthop,ns-2 --schemes Reno,SACK --json

ns-2 and ns-3 are Debian's packages ns2 and libns3-dev, ns-3's wheel is the package of that name on PyPI (`pip install
ns3` for the Python that runs this, or --ns3-wheel), and --ns3-build names a folder into which you installed an ns-3 of
your own. The programs of ns-3 need g++.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import sys
import tempfile

import measure
import programs
import report
from measure import fail


def parse():
    """Returns the arguments."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(programs.ROOT, "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5, help="turns (default 5)")
    parser.add_argument("--only", metavar="NAMES", help="programs that begin with one of these names, separated by commas (lasthop, ns-2, ns-3, bare)")
    names = ",".join(case.name for case in programs.CASES)
    parser.add_argument("--schemes", default=names, help=f"which, separated by commas (default {names})")
    parser.add_argument("--ns", default="ns", help="ns-2's command")
    parser.add_argument("--ns3-wheel", metavar="DIR", help="folder of an unpacked wheel of ns-3, with ns3/include and ns3/lib64 (default: the installed one)")
    parser.add_argument("--ns3-build", metavar="DIR", help="folder into which ns-3 was installed, with include/ns3 and lib")
    parser.add_argument("--keep", metavar="DIR", help="folder for the compiled programs of ns-3 (default: a temporary one)")
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(target, "release", "lasthop")),
                        help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    parser.add_argument("--bare", default=os.path.join(target, "release", "examples", "bare_loop"), help="program of the bare event loop")
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    parser.add_argument("--no-results", action="store_true", help="do not compare throughputs")
    parser.add_argument("--transfers", type=int, default=20, help="transfers of ns-3 for a throughput, five times as many of lasthop (default 20)")
    parser.add_argument("--require", action="append", default=[], metavar="NAME=TIMES",
                        help="exit 1 if the time of a program that begins with NAME is less than TIMES lasthop's; may be repeated")
    parser.add_argument("--page", metavar="FILE", help="write the tables between the marks of this page")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    args = parser.parse_args()
    if args.reps < 1 or args.transfers < 1:
        parser.error("--reps and --transfers must be positive")
    chosen = args.schemes.split(",")
    args.cases = [case for case in programs.CASES if case.name in chosen]
    if len(args.cases) != len(chosen):
        parser.error(f"--schemes takes {names}")
    if args.page and (args.only or args.no_instructions or args.no_results or len(args.cases) < len(programs.CASES)):
        parser.error("--page needs everything: it does not go with --only, --schemes, --no-instructions or --no-results")
    args.required = {}
    for text in args.require:
        name, _, value = text.partition("=")
        try:
            args.required[name] = float(value)
        except ValueError:
            parser.error(f"--require {text}: give a name and a number, as in ns-2=6")
    return args


def everything(args):
    """Returns all programs, present or not."""
    folders = (os.path.join(args.ns3_wheel, "ns3", "include"), os.path.join(args.ns3_wheel, "ns3", "lib64")) if args.ns3_wheel else programs.wheel()
    found = [
        programs.Lasthop(args.lasthop), programs.Ns2(args.ns),
        programs.Ns3("wheel", "pip install ns3, or --ns3-wheel", *folders),
        programs.Ns3("package", "Debian: apt-get install libns3-dev", None, programs.debian()),
    ]
    if args.ns3_build:
        found.append(programs.Ns3("build", "--ns3-build", *programs.own(args.ns3_build)))
    found.append(programs.Bare(args.bare))
    if args.only:
        wanted = args.only.split(",")
        for name in wanted:
            if not any(program.name.startswith(name) for program in found):
                fail(f"--only {name}: there are {', '.join(program.name for program in found)}")
        found = [program for program in found if program.name.startswith(tuple(wanted))]
    return found


def counts(counter, present, cases):
    """Returns the instructions of a transfer, by case and program. Runs as many at a time as there are processors: they
    do not change a count."""
    jobs = [(case, program) for case in cases for program in present if program.supports(case)]

    def one(job):
        case, program = job
        few, many = program.counted(case)
        least, most = (counter.instructions(program.command(case, size)) for size in (few, many))
        return (most - least) / (many - few)

    with concurrent.futures.ThreadPoolExecutor(measure.machine()["processors"]) as pool:
        return {(case.name, program.name): (count, program.frames(case, program.counted(case)).total())
                for (case, program), count in zip(jobs, pool.map(one, jobs))}


def run_case(case, present, reps):
    """Measures one case: every program in turns. Returns its costs and ratios."""
    taking_part = [program for program in present if program.supports(case)]
    turns = {program.name: [] for program in taking_part}
    for _ in range(reps):
        for program in taking_part:
            turns[program.name].append(measure.Turn(*(measure.cpu_seconds(program.command(case, size)) for size in program.sizes(case))))
    rows, nanos, ratios = {}, {}, {}
    for program in taking_part:
        sizes = program.sizes(case)
        cost, frames = measure.cost(turns[program.name], sizes), program.frames(case, sizes)
        scale = 1e9 / frames.total()
        nanos[program.name] = [scale * one for one in measure.slopes(turns[program.name], sizes)], scale * cost.best
        rows[program.name] = {
            "seconds": cost._asdict(), "frames": frames._asdict(),
            "ns_per_frame": {"best": scale * cost.best, "low": scale * cost.low, "median": scale * cost.median, "high": scale * cost.high},
        }
    for name in rows:
        if name != "lasthop" and "lasthop" in rows:
            ratios[name] = measure.ratio(nanos[name], nanos["lasthop"])._asdict()
    return {"case": case.name, "title": case.title, "programs": rows, "ratios": ratios}


def compare(present, cases, transfers):
    """Returns the throughputs of lasthop and of each version of ns-3 on the links."""
    ours = next((program for program in present if isinstance(program, programs.Lasthop)), None)
    versions = {}
    for program in present:
        if isinstance(program, programs.Ns3):
            versions.setdefault(f"ns-3 {program.version()}", program)
    if ours is None or not versions:
        return []

    def row(job):
        link, case = job
        mean, half = ours.throughput(case, link, 5 * transfers)
        found = {"lasthop": {"mbps": mean, "half": half, "failed": 0}}
        for name, program in versions.items():
            values, failed = program.throughputs(case, link, transfers)
            mean, half = measure.mean_interval(values) if values else (None, None)
            found[name] = {"mbps": mean, "half": half, "failed": failed}
        return {"link": link.describe(), "name": link.name, "scheme": case.title, "programs": found}

    jobs = [(link, case) for link in programs.LINKS for case in cases if case.ns3]
    with concurrent.futures.ThreadPoolExecutor(measure.machine()["processors"]) as pool:
        return list(pool.map(row, jobs))


def missed(required, cases):
    """Returns a line for each ratio that is below what is required, and for each program that was not measured."""
    lines = []
    for wanted, least in required.items():
        found = [(case["case"], name, ratio["best"]) for case in cases for name, ratio in case["ratios"].items() if name.startswith(wanted)]
        lines += [f"{case}: {name} takes {value:.2f} times lasthop's time, at least {least:g} wanted" for case, name, value in found if value < least]
        if not found:
            lines.append(f"{wanted} was not measured")
    return lines


def main():
    args = parse()
    machine = measure.machine()
    all_programs = everything(args)
    absent = {program.name: reason for program in all_programs if (reason := program.missing())}
    present = [program for program in all_programs if program.name not in absent]
    if "lasthop" in absent:
        fail(absent["lasthop"])
    if not present:
        fail("; ".join(f"{name}: {reason}" for name, reason in absent.items()))
    counter = None if args.no_instructions else measure.Counter()
    result = {
        "machine": machine, "date": datetime.date.today().isoformat(), "turns": args.reps, "counter": counter.name if counter else None,
        "programs": {program.name: {"missing": absent[program.name]} if program.name in absent else {"about": program.about()} for program in all_programs},
    }
    with tempfile.TemporaryDirectory(prefix="lasthop-peers-") as folder:
        if args.keep:
            folder = args.keep
            os.makedirs(folder, exist_ok=True)
        for program in present:
            if isinstance(program, programs.Ns3):
                program.build(folder)
        # Times first: counting keeps all processors busy.
        measured = [run_case(case, present, args.reps) for case in args.cases]
        if counter and counter.name:
            add_counts(measured, counts(counter, present, args.cases))
        result["speed"] = measured
        result["results"] = [] if args.no_results else compare(present, args.cases, args.transfers)
    tables = {"speed": report.speed(result), "results": report.results(result)}
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n\n".join([tables["speed"]] + ([tables["results"]] if result["results"] else [])))
    if args.page:
        try:
            report.write(args.page, tables)
        except (OSError, ValueError) as error:
            fail(f"--page {args.page}: {error}")
    failures = missed(args.required, result["speed"])
    for line in failures:
        print(f"speed.py: {line}", file=sys.stderr)
    return 1 if failures else 0


def add_counts(cases, counted):
    """Adds instructions a frame to the measured cases, and their ratios."""
    for case in cases:
        for name, row in case["programs"].items():
            count, frames = counted[case["case"], name]
            row["instructions_per_frame"] = count / frames
        for name, ratio in case["ratios"].items():
            ratio["instructions"] = case["programs"][name]["instructions_per_frame"] / case["programs"]["lasthop"]["instructions_per_frame"]


if __name__ == "__main__":
    sys.exit(main())

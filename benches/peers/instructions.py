#!/usr/bin/env python3
"""Counts the instructions that the simulator executes for a frame, by scheme.

Two counts of frames are reported. A frame on the hop is a transmission on the lossy hop, in either direction:
acknowledgments and feedback count, and so do repeated transmissions. On all links, a frame counts once for each link
that is handed it, as in the example throughput of lasthop-sim. The second count is nearly twice the first where a flow
crosses two links, and less with frames that only the ends of the hop send. --base compares the counts on all links.

valgrind counts the instructions of `lasthop run` for few and for many runs of a scenario on one thread. The slope over
the number of frames excludes start-up and the reading of the scenario; the measurement of delays, which `run` includes
and the example does not, counts. The count is the same for the same binary, whatever else the machine does.

    python3 benches/peers/instructions.py                              # all cases
    python3 benches/peers/instructions.py --only LINK --json           # those whose names contain LINK
    python3 benches/peers/instructions.py --only LINK-ARQ --functions 30   # where they are spent
    python3 benches/peers/instructions.py --base ./old --require 0.7   # exit 1 above 0.7 of another binary's, or if
                                                                       # its results differ

lasthop must have been built (`cargo build --release`); another binary is chosen by --lasthop or $LASTHOP. Requires
valgrind.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from measure import NO_STRINGS, machine

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

TRANSFER = {"scenario": "peer-transfer", "link": "wireless", "sets": []}
TODAY = {"scenario": "atlas-link", "link": "hop", "sets": []}
QUIC = {"scenario": "atlas-link", "link": "hop", "sets": ['flows.download.app="quic"']}

# Name, scenario with the link whose frames are counted and the keys set, scheme.
CASES = [
    ("TCP Reno", TRANSFER, "E2E"),
    ("TCP SACK", TRANSFER, "E2E-IETF-SACK"),
    ("CUBIC", TODAY, "E2E-CUBIC"),
    ("BBR", TODAY, "E2E-BBR"),
    ("BBR3", TODAY, "E2E-BBR3"),
    ("SNOOP", TODAY, "SNOOP"),
    ("SPLIT-BBR", TODAY, "SPLIT-BBR"),
    ("LINK-ARQ", TODAY, "LINK-ARQ"),
    ("LINK-FEC", TODAY, "LINK-FEC"),
    ("LINK-HYBRID", TODAY, "LINK-HYBRID"),
    ("AIRMAIL", TODAY, "AIRMAIL"),
    ("QUIC", QUIC, "E2E"),
]


def command(program, case, runs):
    _, settings, scheme = case
    scenario = os.path.join(ROOT, "scenarios", f"{settings['scenario']}.toml")
    sets = [word for value in settings["sets"] for word in ("--set", value)]
    return shlex.split(program) + ["run", scenario, "--scheme", scheme, "--runs", str(runs), "--jobs", "1", "--json"] + sets


def frames(text, settings):
    """Returns the numbers of transmissions in all runs: on the lossy hop, and on all links."""
    answer = json.loads(text)
    counts = [(link["link"], answer["runs"] * link["measures"]["frames"]["mean"]) for link in answer["links"]]
    return sum(count for link, count in counts if link == settings["link"]), sum(count for _, count in counts)


def counted(args, program, case, runs, profile):
    """Returns the instructions that `runs` runs take, and their results."""
    valgrind = shlex.split(args.valgrind) + ["--tool=callgrind", f"--callgrind-out-file={profile}"]
    whole = valgrind + command(program, case, runs)
    environment = os.environ | {"GLIBC_TUNABLES": NO_STRINGS}
    done = subprocess.run(whole, env=environment, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        sys.exit(f"instructions.py: '{shlex.join(whole)}' ended with status {done.returncode}\n{done.stderr}")
    return int(collected.group(1)), done.stdout


def functions(args, profile):
    """Returns the functions with the most instructions of their own, as callgrind_annotate lists them."""
    done = subprocess.run(["callgrind_annotate", profile], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if re.match(r"\s*[\d,]+ \(\s*[\d.]+%\)\s+\S", line)]
    # The first one is the total.
    return lines[1 : 1 + args.functions]


def measure(args, program, case):
    """Returns the instructions a frame of a case on the hop and on all links, the frames a run on both, the results of the
    larger number of runs, and the functions in which they are spent."""
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "callgrind.out")
        (few, before), (many, results) = (counted(args, program, case, runs, profile) for runs in (args.small, args.large))
        hot = functions(args, profile) if args.functions else []
    counts = [more - fewer for more, fewer in zip(frames(results, case[1]), frames(before, case[1]))]
    costs = [(many - few) / count for count in counts]
    return costs, [round(count / (args.large - args.small)) for count in counts], results, hot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="measure cases whose names contain TEXT")
    parser.add_argument("--small", type=int, default=1, help="fewer runs (default 1)")
    parser.add_argument("--large", type=int, default=5, help="more runs (default 5)")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N functions with most instructions")
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")),
                        help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    parser.add_argument("--base", help="lasthop's command of another version, to compare with")
    parser.add_argument("--valgrind", default="valgrind", help="valgrind's command")
    parser.add_argument("--require", type=float, metavar="RATIO",
                        help="exit 1 if a case takes more than RATIO times as many instructions as --base, or has other results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if not 0 < args.small < args.large:
        parser.error("--small must be positive and less than --large")
    if args.require is not None and args.base is None:
        parser.error("--require needs --base, the command of the version to compare with")
    cases = [case for case in CASES if (args.only or "") in case[0]]
    if not cases:
        parser.error(f"--only takes a part of one of {', '.join(case[0] for case in CASES)}")
    build = "build it with cargo build --release"
    needed = [(args.valgrind, "install valgrind"), (args.lasthop, build)] + ([(args.base, build)] if args.base else [])
    for program, remedy in needed:
        if shutil.which(shlex.split(program)[0]) is None:
            sys.exit(f"instructions.py: {program} not found; {remedy}")

    if not args.json:
        print(f"Instructions a frame, {args.large} runs less {args.small}, on one thread; {machine()['processor']}")
        print(f"{'':42} {'on the hop':>25} {'on all links':>25}")
        print(f"{'case':12} {'scenario':14} {'scheme':14} " + f"{'frames a run':>12} {'instructions':>12} " * 2
              + f"{'base':>8} {'ratio':>6}  results")
    rows, missed = [], False
    for case in cases:
        name, settings, scheme = case
        costs, counts, results, hot = measure(args, args.lasthop, case)
        row = {"case": name, "scenario": settings["scenario"], "set": settings["sets"], "scheme": scheme,
               "frames_a_run": counts[0], "instructions_a_frame": round(costs[0], 1),
               "frames_on_all_links": counts[1], "instructions_a_frame_on_all_links": round(costs[1], 1)}
        line = f"{name:12} {settings['scenario']:14} {scheme:14}"
        line += "".join(f" {count:12} {cost:12.0f}" for count, cost in zip(counts, costs))
        if args.base:
            (_, base), _, expected, _ = measure(args, args.base, case)
            ratio, same = costs[1] / base, results == expected
            missed |= args.require is not None and (ratio > args.require or not same)
            row |= {"base": round(base, 1), "ratio": round(ratio, 3), "same_results": same}
            line += f" {base:8.0f} {ratio:6.3f}  {'same' if same else 'DIFFERENT'}"
        rows.append(row)
        if not args.json:
            print(line, *hot, sep="\n", flush=True)
    if args.json:
        print(json.dumps({"processor": machine()["processor"], "runs": [args.small, args.large], "cases": rows}, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

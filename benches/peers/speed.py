#!/usr/bin/env python3
"""Measures the CPU time of one 8 MiB transfer over a lossy last hop, and of 2000 s of web browsing, in ns-2 and in
lasthop, in the same call.

Each program runs K transfers in one process for a small and for a large K, in turns; the slope of user + system time
over K is the time of a transfer, without start-up and the reading of scripts. The median over the repetitions is
reported. Equal work shows in the number of packets per transfer, 5992 plus the cost of losses, and in the number of
pages per user.

    python3 benches/peers/speed.py                       # both programs, or lasthop alone if ns-2 is not installed
    python3 benches/peers/speed.py --only ns --reps 3
    python3 benches/peers/speed.py --require 0.2         # exit 1 when lasthop takes more than a fifth of ns-2's time

lasthop must have been built (`cargo build --release`); another binary is chosen by --lasthop or $LASTHOP.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# name in the table, ns-2's agent, lasthop's scheme
SCHEMES = [("Reno", "Reno", "E2E"), ("SACK", "Sack1", "E2E-IETF-SACK"), ("web", "Reno", "Reno/Raw")]


# Packets of one transfer.
PACKETS = 5992


def ns_command(args, name, variant, transfers, quiet=1):
    if name == "web":
        # Sessions of 2000 s, one after the other.
        return shlex.split(args.ns) + [os.path.join(HERE, "ns2_web.tcl"), f"variant={variant}", f"runs={transfers}", f"quiet={quiet}"]
    return shlex.split(args.ns) + [
        os.path.join(HERE, "ns2_speed.tcl"), f"variant={variant}", f"transfers={transfers}", f"quiet={quiet}",
    ]


def lasthop_command(args, name, scheme, transfers):
    scenario = os.path.join(ROOT, "scenarios", "multilayer-web-lan.toml") if name == "web" else args.scenario
    return shlex.split(args.lasthop) + [
        "run", scenario, "--scheme", scheme, "--runs", str(transfers), "--jobs", "1", "--json",
    ]


def cpu_seconds(command):
    """Returns user plus system time of one child process, whose output is discarded."""
    null = os.open(os.devnull, os.O_RDWR)
    with tempfile.TemporaryFile() as errors:
        try:
            pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
            ])
        except OSError as error:
            sys.exit(f"speed.py: cannot start {command[0]}: {error.strerror}")
        finally:
            os.close(null)
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            errors.seek(0)
            message = errors.read().decode(errors="replace")
            sys.exit(f"speed.py: '{shlex.join(command)}' ended with status {code}\n{message}")
    return usage.ru_utime + usage.ru_stime


def packets_sent(args, program, case, transfers):
    """Returns the mean number of packets that a program sends for a transfer; all transfers must complete. For a web
    session, returns its pages."""
    name, variant, scheme = case
    if program == "ns":
        command = ns_command(args, name, variant, transfers, quiet=0)
    else:
        command = lasthop_command(args, name, scheme, transfers)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"speed.py: '{shlex.join(command)}' ended with status {done.returncode}\n{done.stderr}")
    if program == "ns" and name == "web":
        return statistics.mean(int(pages) for pages in re.findall(r"(\d+) pages", done.stdout))
    if program == "ns":
        return float(re.search(r"([0-9.]+) packets sent each", done.stdout).group(1))
    measures = json.loads(done.stdout)["measures"]
    if name == "web":
        return measures["pages"]["mean"]
    if measures["incomplete"]["mean"] > 0:
        sys.exit(f"speed.py: '{shlex.join(command)}' did not finish every transfer")
    return PACKETS + measures["source_retransmissions"]["mean"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5, help="repetitions (default 5)")
    parser.add_argument("--small", type=int, default=20, help="fewer transfers (default 20)")
    parser.add_argument("--large", type=int, default=220, help="more transfers (default 220)")
    parser.add_argument("--only", choices=["ns", "lasthop"], help="measure one program only")
    parser.add_argument("--schemes", default="Reno,SACK,web", help="which, separated by commas (default Reno,SACK,web)")
    parser.add_argument("--ns", default="ns", help="ns-2's command")
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")),
                        help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    parser.add_argument("--scenario", default=os.path.join(ROOT, "scenarios", "peer-transfer.toml"))
    parser.add_argument("--require", type=float, metavar="RATIO", help="exit 1 if lasthop / ns-2 is above this")
    args = parser.parse_args()
    if not 0 < args.small < args.large:
        parser.error("--small must be positive and less than --large")
    names = args.schemes.split(",")
    chosen = [s for s in SCHEMES if s[0] in names]
    if len(chosen) != len(names):
        parser.error(f"--schemes takes {', '.join(s[0] for s in SCHEMES)}")
    programs = [args.only] if args.only else ["ns", "lasthop"]
    if "ns" in programs and shutil.which(shlex.split(args.ns)[0]) is None:
        missing = "ns-2 is not installed (on Debian: apt-get install ns2)"
        if args.only or args.require is not None:
            sys.exit(f"speed.py: {missing}")
        print(f"speed.py: {missing}; measuring lasthop alone")
        programs = ["lasthop"]
    if "lasthop" in programs and shutil.which(shlex.split(args.lasthop)[0]) is None:
        sys.exit(f"speed.py: {args.lasthop} not found; build it with cargo build --release")

    print(f"CPU time of a transfer of 8 MiB, or of 2000 s of web browsing: slope between {args.small} and {args.large} transfers, {args.reps} repetitions, taking turns")
    print(f"{'scheme':8} {'program':8} {'median ms':>10} {'min':>8} {'max':>8} {'packets':>9}   seconds at {args.small} / {args.large}")
    failed = False
    for name, variant, scheme in chosen:
        packets = {p: packets_sent(args, p, (name, variant, scheme), args.large) for p in programs}
        slopes = {p: [] for p in programs}
        totals = {p: ([], []) for p in programs}
        for _ in range(args.reps):
            for program in programs:
                times = []
                for transfers in (args.small, args.large):
                    if program == "ns":
                        command = ns_command(args, name, variant, transfers)
                    else:
                        command = lasthop_command(args, name, scheme, transfers)
                    times.append(cpu_seconds(command))
                slopes[program].append(1000 * (times[1] - times[0]) / (args.large - args.small))
                totals[program][0].append(times[0])
                totals[program][1].append(times[1])
        for program in programs:
            s = slopes[program]
            few, many = (statistics.median(t) for t in totals[program])
            print(f"{name:8} {program:8} {statistics.median(s):10.3f} {min(s):8.3f} {max(s):8.3f} {packets[program]:9.1f}   {few:.3f} / {many:.3f}")
        if len(programs) == 2:
            ratio = statistics.median(slopes["lasthop"]) / statistics.median(slopes["ns"])
            verdict = ""
            if args.require is not None:
                verdict = "  ok" if ratio <= args.require else f"  MISSED, at most {args.require} wanted"
                failed |= ratio > args.require
            print(f"{name:8} lasthop / ns = {ratio:.3f}, {1 / ratio:.1f} times as fast{verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

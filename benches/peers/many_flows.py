#!/usr/bin/env python3
"""Measures what a segment costs in lasthop with 1 to 100,000 TCP flows at once: CPU time, instructions, and memory.

Scenario many-flows. Its flows share the load: each transfers 64 KiB, or its part of 64 MiB if that is more. Rates and
queues are proportional to the number of flows, so that a flow behaves the same regardless of it: 100 kbps and 10 packets
for each (at least 100), as the scenario has for 10,000. --fixed keeps the scenario's links instead. The slope
of user + system time over the number of runs is the time of a run, without start-up; the least of the repetitions is
reported. A segment is a packet that the sources send, with its acknowledgments. Memory is the process's maximum, at
least that of this program, about 15 MiB.

    python3 benches/peers/many_flows.py
    python3 benches/peers/many_flows.py --flows 1,100000 --reps 1
    python3 benches/peers/many_flows.py --instructions      # also counted, by perf or valgrind

lasthop must have been built (`cargo build --release`); another binary is chosen by --lasthop or $LASTHOP.
"""
import argparse
import json
import os
import shlex

from measure import Counter, cpu_seconds, fail, output, resources

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

LEAST_KIB = 64
SHARED_KIB = 64 << 10
# For each flow: rates of the wireless and of the wired link in bps, and packets in their queues. All flows start within
# OPENING_US.
WIRELESS_BPS, WIRED_BPS, QUEUED = 100_000, 1_000_000, 10
LEAST_QUEUE = 100
OPENING_US = 100_000


def command(args, flows, runs, *more):
    """Returns the command of `runs` runs with this number of flows."""
    keys = {"flows.bulk.count": str(flows), "flows.bulk.size": f"{max(LEAST_KIB, SHARED_KIB // flows)} KiB"}
    if not args.fixed:
        queue = f"{max(LEAST_QUEUE, QUEUED * flows)} packets"
        keys |= {
            "links.wireless.rate": f"{WIRELESS_BPS * flows} bps", "links.wireless.queue": queue,
            "links.wired.rate": f"{WIRED_BPS * flows} bps", "links.wired.queue": queue,
            "flows.bulk.spacing": f"{OPENING_US * 1000 // flows} ns", "limit": "10000 s",
        }
    sets = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    return shlex.split(args.lasthop) + [
        "run", os.path.join(ROOT, "scenarios", "many-flows.toml"), "--scheme", args.scheme, "--jobs", "1", "--runs", str(runs), *sets, *more,
    ]


def segments(args, flows):
    """Returns the number of packets that the sources send in the first run."""
    report = json.loads(output(command(args, flows, 1, "--json")))
    wired = next(link for link in report["links"] if (link["link"], link["from"]) == ("wired", "source"))
    unfinished = report["measures"].get("incomplete", {}).get("mean", 0)
    if unfinished:
        fail(f"{unfinished} of {flows} transfers are incomplete")
    return wired["measures"]["frames"]["mean"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop"))
    parser.add_argument("--lasthop", default=default, help="binary, with arguments before its command")
    parser.add_argument("--flows", default="1,100,10000,100000", help="numbers of flows, separated by commas")
    parser.add_argument("--scheme", default="E2E-IETF-SACK")
    parser.add_argument("--fixed", action="store_true", help="keep the links of the scenario, which are made for 10,000 flows")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3, help="runs beyond the first over which the slope is taken")
    parser.add_argument("--instructions", action="store_true", help="count instructions by perf or valgrind, which takes minutes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    counter = Counter() if args.instructions else None
    if counter and not counter.name:
        fail("--instructions needs perf with the processor's counters, or valgrind")
    numbers = [int(number) for number in args.flows.split(",")]
    # All runs that are measured come first: a process's maximum memory includes that of the one that starts it, and this
    # one reads large reports of all flows to count segments.
    alone = {flows: [resources(command(args, flows, 1)) for _ in range(args.reps)] for flows in numbers}
    times = {flows: [cpu_seconds(command(args, flows, 1 + args.runs)) for _ in range(args.reps)] for flows in numbers}
    rows = []
    for flows in numbers:
        count = segments(args, flows)
        few = command(args, flows, 1)
        seconds = (min(times[flows]) - min(usage.ru_utime + usage.ru_stime for usage in alone[flows])) / args.runs
        mib = max(usage.ru_maxrss for usage in alone[flows]) / 1024
        row = {"flows": flows, "segments": count, "ns_per_segment": 1e9 * seconds / count, "mib": mib}
        if counter:
            row["instructions_per_segment"] = (counter.instructions(command(args, flows, 2)) - counter.instructions(few)) / count
        rows.append(row)
        if not args.json:
            counted = f"{row['instructions_per_segment']:9.0f} instructions" if args.instructions else ""
            print(f"{flows:7} flows  {count:9.0f} segments  {row['ns_per_segment']:6.0f} ns each  {row['mib']:6.0f} MiB  {counted}".rstrip(), flush=True)
    if args.json:
        print(json.dumps({"scheme": args.scheme, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()

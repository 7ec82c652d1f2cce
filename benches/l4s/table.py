#!/usr/bin/env python3
"""Runs `l4s-lossy` at several losses under several cures, and prints the table of docs/models/l4s.md.

    python3 benches/l4s/table.py               # 10 runs each
    python3 benches/l4s/table.py --runs 20 --set 'links.bottleneck.queue.step="2 ms"'

A cell of the first table shows the total throughput of the two Prague flows and of the two CUBIC flows in Mbps; one of
the second the 99th percentile of the time in queues of each, in ms, over the whole path (behind a relay it begins
anew); one of the third the median and the 99th percentile in the bottleneck's queue, over all packets.
"""
import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benches", "agreement"))
from call import call  # noqa: E402

LOSSES = ("0", "0.5", "2")
SCHEMES = ("E2E-CUBIC", "SNOOP", "SPLIT-BBR", "LINK-ARQ", "LINK-HYBRID")
NAMES = {"E2E-CUBIC": "none"}


def measure(args, loss):
    """Returns for each scheme the three cells of a loss in percent."""
    words = [args.lasthop, "compare", "l4s-lossy", "--schemes", ",".join(SCHEMES), "--runs", str(args.runs), "--json"]
    for value in [f'links.radio.errors.frame_loss="{loss} %"', *args.set]:
        words += ["--set", value]
    told = json.loads(call(*words))
    cells = {}
    for row in told["schemes"]:
        rates, delays = [], []
        for kind in ("prague", "cubic"):
            flows = [flow["measures"] for flow in row["flows"] if flow["flow"].startswith(kind)]
            rates.append(sum(flow["throughput"]["mean"] for flow in flows))
            delays.append(sum(flow["queue_delay_p99"]["mean"] for flow in flows) / len(flows))
        way = next(link["measures"] for link in row["links"] if link["link"] == "bottleneck" and link["from"] == "core")
        queue = [way[key]["mean"] for key in ("queue_delay_p50", "queue_delay_p99")]
        cells[row["scheme"]] = [" / ".join(f"{value:.1f}" for value in values) for values in (rates, delays, queue)]
        if row["scheme"].startswith("SPLIT"):
            cells[row["scheme"]][1] = "–"
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--runs", type=int, default=10, help="runs of each (default 10)")
    parser.add_argument("--set", action="append", default=[], help="a key of the scenario, as lasthop's --set")
    args = parser.parse_args()
    try:
        results = [measure(args, loss) for loss in LOSSES]
    except RuntimeError as error:
        sys.exit(f"error: {error}")
    titles = ("Mbps, Prague / CUBIC", "p99 of queueing in ms, Prague / CUBIC", "bottleneck's queue in ms, median / p99")
    for cell, title in enumerate(titles):
        print(f"| {title} | " + " | ".join(f"{loss} %" for loss in LOSSES) + " |\n|---|" + "--:|" * len(LOSSES))
        for scheme in SCHEMES:
            row = " | ".join(result[scheme][cell] for result in results)
            print(f"| {NAMES.get(scheme, scheme)} | {row} |")
        print()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the cures over the ready-made scenarios of radios, and prints a row for each.

    python3 benches/moving/radios.py                        # all, 5 runs each
    python3 benches/moving/radios.py --runs 10 starlink     # one
    python3 benches/moving/radios.py --set 'base_station.two_ended.rate="auto"'

A cell shows the throughput in Mbps and the 95th percentile of the round trip in ms.
"""
import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benches", "agreement"))
from call import call  # noqa: E402

SCENARIOS = ("home-wifi-1", "home-wifi-5", "home-wifi-20", "full-wifi", "train-lte", "5g-fwa", "starlink", "satellite-rain", "satellite-handover", "farm-radio")
SCHEMES = ("E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR", "LINK-HYBRID")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, help="scenarios (default: all radios)")
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--set", action="append", default=[], help="a key of the scenarios, as lasthop's --set")
    args = parser.parse_args()
    print("| scenario | " + " | ".join(SCHEMES) + " |\n|---|" + "--:|" * len(SCHEMES))
    for name in args.scenarios:
        words = [args.lasthop, "compare", name, "--schemes", ",".join(SCHEMES), "--runs", str(args.runs), "--json"]
        for value in args.set:
            words += ["--set", value]
        try:
            told = json.loads(call(*words))
        except RuntimeError as error:
            sys.exit(f"error: {error}")
        cells = {}
        for row in told["schemes"]:
            measures = row["measures"]
            cells[row["scheme"]] = f"{measures['throughput']['mean']:.3g}, {measures['rtt_p95']['mean']:.0f}"
        print(f"| `{name}` | " + " | ".join(cells[scheme] for scheme in SCHEMES) + " |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints a Markdown table of the simulator's results for some schemes, from `lasthop compare ... --json` on standard
input, beside the lab's measurements of the same link (FILE, which scripts/farm-lab.sh writes).

    lasthop compare farm.toml --json | python3 scripts/lab-table.py FILE
"""
import json
import sys


def cell(measures):
    throughput = measures["throughput"]
    interval = "" if throughput["ci95"] is None else f" ± {throughput['ci95']:.2f}"
    return f"{throughput['mean']:.2f}{interval}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: lab-table.py FILE")
    with open(sys.argv[1], encoding="utf-8") as source:
        measured = json.load(source)
    lab = {scheme["scheme"]: scheme for scheme in measured["lab"]["schemes"]}
    print("| scheme | simulated, Mbps | lab, Mbps | lab's endpoints |")
    print("|---|--:|--:|---|")
    for scheme in json.load(sys.stdin)["schemes"]:
        name = scheme["scheme"]
        live = lab.get(name)
        ends = "" if live is None else " and ".join(sorted(set(live["endpoints"].values())))
        print(f"| `{name}` | {cell(scheme['measures'])} | {cell(live['measures']) if live else ''} | {ends} |")
    runs = measured["lab"]["runs"]
    late = max(scheme["lateness_us"]["p99"] for scheme in lab.values()) / 1000
    print(f"\nThe lab: {runs} runs each, Linux {measured['kernel']}, {measured['date']}; 99 % of the frames at most {late:.1f} ms late.")


if __name__ == "__main__":
    main()

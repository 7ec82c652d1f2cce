#!/usr/bin/env python3
"""Prints the answers in the README, from standard input and FILE.

    lasthop compare farm-radio --json | python3 scripts/answer.py              # which cure helps?
    lasthop compare farm-radio --json | python3 scripts/answer.py --lab FILE   # is that true? FILE is what scripts/farm-lab.sh wrote
"""
import json
import sys


def throughputs(compared):
    return {scheme["scheme"]: scheme["measures"]["throughput"]["mean"] for scheme in compared["schemes"]}


def main():
    simulated = throughputs(json.load(sys.stdin))
    cubic, bbr, snoop, split = (simulated[name] for name in ("E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR"))
    if len(sys.argv) == 1:
        print(
            f"Linux by default (CUBIC) gets {cubic:.1f} Mbps, a server with BBR {bbr:.1f}. A gateway on the mast that\n"
            f"repairs what the radio lost (snoop) gets {snoop:.1f}, {snoop / cubic:.0f} times as much as plain Linux; "
            f"one that splits the connection {split:.1f}."
        )
        return
    with open(sys.argv[2], encoding="utf-8") as source:
        measured = json.load(source)
    lab = throughputs(measured["lab"])
    pairs = ", ".join(f"{name} {lab[name]:.1f} ({simulated[name]:.1f} simulated)" for name in ("E2E-CUBIC", "SNOOP", "SPLIT-BBR"))
    kernel = ".".join(measured["kernel"].split(".")[:2])
    print(f"With Linux {kernel} at both ends and the gateway on the mast it measured, in Mbps:\n{pairs}.")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Cross-validates the calibration of the 1997 study: tests the fit on cells that it has not seen.

    cargo build --release -p lasthop-study --example calibrate
    scripts/leave-one-out.py [--runs N] [--seed N]

Three values are fitted (docs/calibration.md): the minimum timeout of either testbed and the base station's threshold.
Each is fitted again, from the values below, to a part of the published throughputs, and tested on the rest. Prints the
tables of docs/notes/calibration-1997.md."""

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUTS = [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6]
THRESHOLDS = [1, 2, 3]
CALIBRATED = {"LAN": 3, "WAN": 5, "threshold": 2}
TESTBEDS = ["LAN/8", "LAN/32", "WAN/32"]


def measured(program, arguments, settings):
    """Returns deviations in percent, by scheme and testbed."""
    out = subprocess.run([program, "--tables", *arguments, *settings], check=True, capture_output=True, text=True).stdout
    cells = {}
    for line in out.splitlines():
        words = line.split()
        if len(words) == 4 and all(word == "." or word[0] in "+-" for word in words[1:]):
            for testbed, word in zip(TESTBEDS, words[1:]):
                if word != ".":
                    cells[words[0], testbed] = float(word)
    if len(cells) != 29:
        sys.exit(f"leave-one-out: {program} gave {len(cells)} cells instead of 29")
    return cells


def mean(values):
    values = [abs(value) for value in values]
    return sum(values) / len(values)


class Grid:
    """All combinations of the fitted values. A minimum timeout affects its testbed only, the threshold only the
    link-layer schemes, which never time out: one run for each value gives all combinations."""

    def __init__(self, program, arguments):
        self.by_timeout = {
            value: measured(program, arguments, [f'all:tcp.rto_min="{value} s"']) for value in TIMEOUTS
        }
        base = [f'lan:tcp.rto_min="{CALIBRATED["LAN"]} s"', f'wan:tcp.rto_min="{CALIBRATED["WAN"]} s"']
        self.by_threshold = {
            value: measured(program, arguments, [*base, f"all:base_station.dupack_threshold={value}"])
            for value in THRESHOLDS
        }

    def cell(self, cell, choice):
        scheme, testbed = cell
        if scheme.startswith("LL"):
            return self.by_threshold[choice["threshold"]][cell]
        return self.by_timeout[choice[testbed.split("/")[0]]][cell]

    def cells(self):
        return list(self.by_threshold[CALIBRATED["threshold"]])

    def deviation(self, cells, choice):
        return mean(self.cell(cell, choice) for cell in cells)

    def fit(self, cells):
        choices = (
            {"LAN": lan, "WAN": wan, "threshold": threshold}
            for lan, wan, threshold in itertools.product(TIMEOUTS, TIMEOUTS, THRESHOLDS)
        )
        return min(choices, key=lambda choice: self.deviation(cells, choice))


def words(choice):
    return f"{choice['LAN']} s, {choice['WAN']} s, {choice['threshold']}"


def main():
    parser = argparse.ArgumentParser(description="Leave-one-out check of the 1997 study's calibration.")
    parser.add_argument("--program", default=ROOT / "target/release/examples/calibrate")
    parser.add_argument("--runs", default="30")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    grid = Grid(options.program, ["--runs", options.runs, "--seed", options.seed])
    cells = grid.cells()

    print("| fitted to | LAN, WAN, threshold | these cells | the others |")
    print("|---|---|--:|--:|")
    print(f"| as calibrated | {words(CALIBRATED)} | {grid.deviation(cells, CALIBRATED):.1f} % | |")
    best = grid.fit(cells)
    print(f"| all 29 cells | {words(best)} | {grid.deviation(cells, best):.1f} % | |")
    # One timeout for both testbeds: fitted to one, tested on the other.
    for seen, unseen in [("LAN", "WAN"), ("WAN", "LAN")]:
        inside = [cell for cell in cells if cell[1].startswith(seen)]
        outside = [cell for cell in cells if not cell[1].startswith(seen)]
        choices = [{"LAN": timeout, "WAN": timeout, "threshold": threshold}
                   for timeout, threshold in itertools.product(TIMEOUTS, THRESHOLDS)]
        choice = min(choices, key=lambda choice: grid.deviation(inside, choice))
        print(f"| the {seen} | {words(choice)} | {grid.deviation(inside, choice):.1f} % "
              f"| {grid.deviation(outside, choice):.1f} % |")

    print("\n| left out | LAN, WAN, threshold | its cells | its cells, as calibrated |")
    print("|---|---|--:|--:|")
    left_out = []
    for scheme in sorted({cell[0] for cell in cells}):
        outside = [cell for cell in cells if cell[0] == scheme]
        choice = grid.fit([cell for cell in cells if cell[0] != scheme])
        left_out += [grid.cell(cell, choice) for cell in outside]
        print(f"| {scheme} | {words(choice)} | {grid.deviation(outside, choice):.1f} % "
              f"| {grid.deviation(outside, CALIBRATED):.1f} % |")
    print(f"| all, each left out once | | {mean(left_out):.1f} % | {grid.deviation(cells, CALIBRATED):.1f} % |")


if __name__ == "__main__":
    main()

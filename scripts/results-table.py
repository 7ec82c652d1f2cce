#!/usr/bin/env python3
"""Prints the tables of docs/results.md, from the output of `lasthop reproduce`.

    lasthop reproduce balakrishnan1997 --out out --json > out/study.json
    python3 scripts/results-table.py out/cells.csv out/study.json

Without the second file, claims are omitted.
"""
import argparse
import csv
import json
import textwrap

TABLES = {"2": "Link-layer schemes (Table 2)", "3": "End-to-end schemes (Table 3)", "4": "Split connections (Table 4)"}
TESTBEDS = ("LAN/8", "LAN/32", "WAN/32")


def read_cells(path):
    """Returns throughputs as {(table, scheme): {testbed: (published or None, measured, ci95)}}, in the file's order."""
    cells = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scheme, _, testbed = row["cell"].partition("/")
            if row["metric"] == "throughput" and testbed in TESTBEDS and row["table"] in TABLES:
                published = float(row["published"]) if row["published"] else None
                value = (published, float(row["measured"]), float(row["ci95"] or 0))
                cells.setdefault((row["table"], scheme), {})[testbed] = value
    return cells


def runs_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return next(csv.DictReader(file))["runs"]


def throughputs(cells):
    yield "| | LAN, 8 KB | | LAN, 32 KB | | WAN, 32 KB | |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    yield "| **Mbps** | published | measured | published | measured | published | measured |"
    for table, title in TABLES.items():
        yield f"| *{title}* | | | | | | |"
        for (of, scheme), testbeds in cells.items():
            if of != table:
                continue
            words = [f"`{scheme}`"]
            for testbed in TESTBEDS:
                published, measured, ci95 = testbeds[testbed]
                words += ["–" if published is None else f"{published:.2f}", f"{measured:.3f} ± {ci95:.3f}"]
            yield "| " + " | ".join(words) + " |"


def deviation(cells):
    """Describes the deviations of the published cells in one sentence."""
    off = [
        (measured / published - 1, f"`{scheme}/{testbed}`")
        for (_, scheme), testbeds in cells.items()
        for testbed, (published, measured, _) in testbeds.items()
        if published is not None
    ]
    mean = 100 * sum(abs(share) for share, _ in off) / len(off)
    far = [f"{name} ({'−' if share < 0 else '+'}{100 * abs(share):.0f} %)" for share, name in off if abs(share) > 0.3]
    beyond = f"{len(far)} beyond 30 %: {', '.join(far)}" if far else "none beyond 30 %"
    return f"Mean absolute deviation over the {len(off)} published throughputs: {mean:.1f} %; {beyond}."


def marked(claim, mark):
    """Returns the comparisons of a claim that begin with a mark."""
    return "; ".join(part.removeprefix(mark) for part in claim["evidence"].split("; ") if part.startswith(mark))


def claims(path):
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["claims"]
    held, undecided = (sum(claim["holds"] is verdict for claim in found) for verdict in (True, None))
    still = f", {undecided} undecided" if undecided else ""
    yield f"{held} of the paper's {len(found)} conclusions that are checked hold{still}, by 95 % intervals of differences run by run:"
    yield ""
    yield "| | conclusion | |"
    yield "|---|---|---|"
    for claim in found:
        verdict = "holds"
        if claim["holds"] is None:
            verdict = "*undecided*: an interval contains its bound: " + marked(claim, "OPEN: ")
        elif not claim["holds"]:
            verdict = "**missed**, for these do not hold: " + marked(claim, "MISSED: ")
        yield f"| ({claim['claim']}) | {claim['text']} | {verdict} |"


def markdown(arguments):
    cells = read_cells(arguments.cells)
    summary = f"{deviation(cells)} {runs_of(arguments.cells)} runs per cell, ± is the 95 % interval."
    lines = [*throughputs(cells), "", textwrap.fill(summary, 120, break_on_hyphens=False)]
    if arguments.study:
        lines += ["", *claims(arguments.study)]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", help="cells.csv")
    parser.add_argument("study", nargs="?", help="what --json printed")
    print(markdown(parser.parse_args()))


if __name__ == "__main__":
    main()

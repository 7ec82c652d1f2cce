#!/usr/bin/env python3
"""Prints the file of `lasthop sweep --out FILE.csv` as a Markdown table: a row per value of KEY, a column per scheme,
throughput in Mbps.

    python3 scripts/sweep-table.py FILE.csv KEY NAME
"""
import csv
import sys


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: sweep-table.py FILE.csv KEY NAME")
    file, key, name = sys.argv[1:]
    with open(file, encoding="utf-8", newline="") as source:
        rows = list(csv.DictReader(source))
    values = list(dict.fromkeys(row[key] for row in rows))
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    cells = {(row[key], row["scheme"]): f"{float(row['throughput']):.2f} ± {float(row['throughput_ci95'] or 0):.2f}" for row in rows}
    print(f"| {name} | " + " | ".join(f"`{scheme}`" for scheme in schemes) + " |")
    print("|--:|" + "--:|" * len(schemes))
    for value in values:
        print(f"| {value} | " + " | ".join(cells[value, scheme] for scheme in schemes) + " |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints the tables of docs/lasthop2026.md, from the output of `lasthop reproduce lasthop2026`.

    lasthop reproduce lasthop2026 --out out --json > study.json
    python3 scripts/lasthop2026-table.py out/cells.csv TABLE      bulk, page, call, video, overhead or lab
    python3 scripts/lasthop2026-table.py study.json claims
    python3 scripts/lasthop2026-table.py study.json summary       what docs/data/lasthop2026.json keeps of it
    python3 scripts/lasthop2026-table.py out/cells.csv digest     SHA-256 of the simulated numbers

`lab` needs a cells.csv of a run with --lab.
"""

import argparse
import csv
import hashlib
import json
import re
from collections.abc import Iterator

LINKS = {
    "wifi": "home Wi-Fi",
    "busy-wifi": "lossy Wi-Fi",
    "mesh": "mesh",
    "lte": "LTE, train",
    "5g": "5G, home",
    "starlink": "Starlink",
    "geo": "GEO",
    "farm": "farm radio",
}
# Metrics of each table, in the order of a cell.
TABLES = {
    "bulk": ("bulk", ["throughput"]),
    "page": ("page", ["page_time"]),
    "call": ("call", ["opinion", "call_delay"]),
    "video": ("video", ["frames_missed"]),
    "overhead": ("bulk", ["overhead"]),
}
VERDICTS = {True: "holds", False: "**fails**", None: "*open*"}

Rows = dict[tuple[str, str, str, str], dict[str, str]]


def read(path: str) -> Rows:
    """Returns the rows by use, link, line and metric, in the file's order."""
    with open(path, encoding="utf-8", newline="") as file:
        return {(*row["cell"].split("/"), row["metric"]): row for row in csv.DictReader(file)}


def number(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value:.0f}"
    if unit == "MOS" or abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}"


def shown(row: dict[str, str]) -> str:
    """Returns a number with its interval, which opinion scores and delays beside them lack."""
    value = number(float(row["measured"]), row["unit"])
    if row["unit"] in ("MOS", "ms"):
        return value
    return f"{value} ± {number(float(row['ci95'] or 0), row['unit'])}"


def table(rows: Rows, name: str) -> Iterator[str]:
    use, metrics = TABLES[name]
    lines = list(dict.fromkeys(line for of, _, line, _ in rows if of == use))
    if name == "overhead":
        lines = [line for line in lines if line == "CUBIC" or "LINK" in line or line in ("AIRMAIL", "QUIC-HYBRID")]
    yield "| | " + " | ".join(LINKS.values()) + " |"
    yield "|---|" + "--:|" * len(LINKS)
    for line in lines:
        cells = []
        for link in LINKS:
            found = [rows.get((use, link, line, metric)) for metric in metrics]
            cells.append("–" if None in found else ", ".join(shown(row) for row in found if row))
        yield f"| `{line}` | " + " | ".join(cells) + " |"


CELL = re.compile(r"(?:bulk|page|call|video)/([^/ ]+)/([^ ]+)")


def places(parts: list[str]) -> str:
    """Names the links of comparisons, with their lines: `geo (BBR, CUBIC)`."""
    links: dict[str, list[str]] = {}
    for part in parts:
        cells = CELL.findall(part) or [(part.split(": ")[1], "")]
        for link, line in cells:
            lines = links.setdefault(link, [])
            if line and line not in lines:
                lines.append(line)
    return ", ".join(f"{link} ({', '.join(lines)})" if lines else link for link, lines in links.items())


def claims(study: dict) -> Iterator[str]:
    """Yields a row per claim, with the comparisons that fail or stay open."""
    verdicts = [claim["holds"] for claim in study["claims"]]
    held, failed, undecided = (verdicts.count(verdict) for verdict in (True, False, None))
    yield f"Of {len(verdicts)} claims, {held} hold, {failed} fail, and the intervals leave {undecided} open."
    yield ""
    yield "| | claim | | which comparisons fail or stay open |"
    yield "|---|---|---|---|"
    for claim in study["claims"]:
        parts = claim["evidence"].split("; ")
        words = []
        for mark, word in (("MISSED: ", "fails"), ("OPEN: ", "open")):
            if found := [part for part in parts if part.startswith(mark)]:
                words.append(f"{word}: {len(found)} of {len(parts)}, {places(found)}")
        yield f"| {claim['claim']} | {claim['text']} | {VERDICTS[claim['holds']]} | {'; '.join(words)} |"


# The metric of each use on which the lab is judged.
JUDGED = {"bulk": "throughput", "page": "page_time", "call": "opinion", "video": "frames_missed"}


def lab(rows: Rows) -> Iterator[str]:
    """Yields the agreement of the lab with the simulator by use, and the cells that differ by more than 10 %."""
    found: dict[str, list[tuple[str, float, float, str]]] = {}
    for (use, link, line, metric), row in rows.items():
        if metric == JUDGED[use] and row.get("lab"):
            pair = (float(row["measured"]), float(row["lab"]))
            found.setdefault(use, []).append((f"{link}/{line}", *pair, row["unit"]))
    yield "| use | cells | within 10 % | others: simulated, lab |"
    yield "|---|--:|--:|---|"
    for use, cells in found.items():
        far = [cell for cell in cells if abs(cell[2] - cell[1]) > 0.1 * cell[1]]
        others = [f"{name} {number(sim, unit)}, {number(own, unit)}" for name, sim, own, unit in far]
        yield f"| {use} | {len(cells)} | {len(cells) - len(far)} | {'; '.join(others)} |"


def summary(study: dict) -> Iterator[str]:
    kept = {key: study[key] for key in ("study", "command", "claims")}
    yield json.dumps(kept, ensure_ascii=False, indent=1)


def digest(path: str) -> Iterator[str]:
    """Yields the digest of the columns up to `runs`: those of the lab differ from run to run."""
    with open(path, encoding="utf-8", newline="") as file:
        text = "\n".join(",".join(row[:9]) for row in csv.reader(file))
    yield hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="cells.csv, or what --json printed")
    parser.add_argument("table", choices=[*TABLES, "lab", "claims", "summary", "digest"])
    arguments = parser.parse_args()
    if arguments.table in ("claims", "summary"):
        with open(arguments.file, encoding="utf-8") as file:
            study = json.load(file)
        lines = claims(study) if arguments.table == "claims" else summary(study)
    elif arguments.table == "digest":
        lines = digest(arguments.file)
    elif arguments.table == "lab":
        lines = lab(read(arguments.file))
    else:
        lines = table(read(arguments.file), arguments.table)
    print("\n".join(lines))


if __name__ == "__main__":
    main()

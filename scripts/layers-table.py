#!/usr/bin/env python3
"""Prints the deviations of the second study's throughputs, for docs/multiple-layers.md, from
docs/data/multiple-layers.csv.

These commands regenerate the file in some minutes:

    for table in I II III IV V VI VII VIII; do
        lasthop reproduce xylomenos-kokkinakis --table $table --runs 30 --seed 1 --out out/$table >/dev/null
    done
    python3 scripts/layers-table.py --collect out/*/cells.csv > docs/data/multiple-layers.csv
"""
import argparse
import csv
import io

TABLES = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"]
APPLICATIONS = {"file-transfer": "file transfer", "web-browsing": "web"}
CONGESTION = {"none": "", "udp-on-off": ", bursts"}


def collect(paths):
    """Returns the published throughputs of several cells.csv as CSV, in the order of the tables."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            rows += [row for row in csv.DictReader(file) if row["metric"] == "throughput" and row["published"]]
    rows.sort(key=lambda row: TABLES.index(row["table"]))
    out = io.StringIO()
    writer = csv.DictWriter(out, ["table", "cell", "published", "measured", "ci95", "runs"], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def percent(share):
    return f"{'−' if share < 0 else '+'}{abs(share):.1%}".replace("%", " %")


def mean(shares):
    return f"{sum(abs(share) for share in shares) / len(shares):.1%}".replace("%", " %")


def most(shares):
    return f"{max(abs(share) for share in shares):.1%}".replace("%", " %")


def markdown(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    runs = {row["runs"] for row in rows}
    off = {}
    for row in rows:
        application, errors, congestion, loss, *combination = row["cell"].split("/")
        share = float(row["measured"]) / float(row["published"]) - 1
        off.setdefault(row["table"], []).append((share, application, errors, congestion, loss, "/".join(combination)))
    yield f"{' and '.join(sorted(runs))} runs per cell, seed 1; deviation of throughput from the published value, on average and at worst:"
    yield ""
    yield "| table | | mean | worst |"
    yield "|---|---|--:|--:|"
    for table in TABLES:
        shares = [cell[0] for cell in off[table]]
        worst = max(off[table], key=lambda cell: abs(cell[0]))
        _, application, errors, congestion, _, _ = off[table][0]
        words = f"{APPLICATIONS[application]}, {errors}{CONGESTION[congestion]}"
        unit = " %" if errors == "uniform" else ""
        yield f"| {table} | {words} | {mean(shares)} | {percent(worst[0])} ({worst[4]}{unit}, {worst[5]}) |"
    cells = [cell for table in off.values() for cell in table]
    raw = [cell[0] for cell in cells if cell[1] == "file-transfer" and cell[5].endswith("Raw")]
    repeat = [cell[0] for cell in cells if cell[1] == "file-transfer" and cell[5].endswith("SR")]
    web = [cell[0] for cell in cells if cell[1] == "web-browsing"]
    yield ""
    yield f"Over the bare link file transfers come within {most(raw)} everywhere ({mean(raw)} on average), over SR within {most(repeat)}"
    yield f"({mean(repeat)}); web browsing within {most(web)} ({mean(web)})."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", action="store_true", help="print what goes to docs/data/multiple-layers.csv")
    parser.add_argument("files", nargs="+", help="docs/data/multiple-layers.csv, or with --collect the files cells.csv")
    arguments = parser.parse_args()
    if arguments.collect:
        print(collect(arguments.files), end="")
    else:
        print("\n".join(markdown(arguments.files[0])))


if __name__ == "__main__":
    main()

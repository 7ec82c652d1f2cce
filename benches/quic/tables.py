#!/usr/bin/env python3
"""Writes the tables of docs/notes/quic-stacks.md from the CSV files in docs/data that analyse.py and frames.py write.

    benches/quic/tables.py [--check]
"""
import argparse
import collections
import csv
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "notes", "quic-stacks.md")
DATA = os.path.join(ROOT, "docs", "data")
BEGIN, END = "<!-- {}: written by benches/quic -->", "<!-- end of {} -->"
# Stacks in the order of the tables, with the names of their projects.
NAMES = {"quinn": "quinn", "quicgo": "quic-go", "quiche": "quiche", "ngtcp2": "ngtcp2", "firefox": "Firefox (neqo)", "chromium": "Chromium", "xnet": "x/net/quic",
         "aioquic": "aioquic", "msquic": "MsQuic", "s2n": "s2n-quic", "picoquic": "picoquic"}
# Those that the criterion for a live device names.
SIX = ("quinn", "quicgo", "quiche", "ngtcp2", "picoquic", "msquic")
NEEDED = 0.65
# Normal quantile of 95 % intervals.
Z = 1.96
RULES = ("single", "pair", "level", "shift", "flowlets")
# Round trips of the hop, ms.
HOPS = ("2", "10", "20")


def read(name):
    with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(heads, rows):
    """Returns a table: the first column to the left, the others to the right."""
    lines = [f"| {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def percent(part, whole):
    return f"{100 * part / whole:.0f}" if whole else "–"


def interval(part, whole):
    """Returns Wilson's 95 % interval of a share in percent, such as `61–76`; a dash of nothing."""
    if not whole:
        return "–"
    share = part / whole
    middle, half = share + Z * Z / (2 * whole), Z * math.sqrt(share * (1 - share) / whole + Z * Z / (4 * whole * whole))
    low, high = (100 * max(0.0, bound) / (1 + Z * Z / whole) for bound in (middle - half, middle + half))
    return f"{low:.0f}–{high:.0f}"


class Sum(collections.Counter):
    """Counts of several rows of the outcomes."""

    def __init__(self, rows):
        super().__init__()
        for row in rows:
            for name in ("data_packets", "lost", "rank_1", "in_time", "steps", "hits"):
                self[name] += int(row[name])
            self["found"] += sum(int(row[f"rank_{rank}"]) for rank in range(1, 7))
            self["chance"] += float(row["chance"]) * int(row["data_packets"])

    def recall(self, name="rank_1"):
        return self[name] / self["lost"] if self["lost"] else 0.0


def grouped(rows):
    """Returns the rows of each stack, in the order of NAMES."""
    groups = {name: [row for row in rows if row["stack"] == name] for name in NAMES}
    return {name: some for name, some in groups.items() if some}


def chosen(groups, stack, **wanted):
    """Returns the sum of a stack's rows that have these values."""
    return Sum(row for row in groups[stack] if all(row[name] == value for name, value in wanted.items()))


def shapes(returns, frames):
    """Returns the table of what returning datagrams look like, for downloads with 1 % loss."""
    lines = []
    for name in grouped(returns):
        row = next((row for row in returns if (row["stack"], row["way"], row["loss_percent"]) == (name, "down", "1")), None)
        if row is None:
            continue
        bare, count = int(row["bare"]), int(row["returns"])
        lengths = [one.split(":") for one in row["lengths"].split()[:3]]
        shown = ", ".join(f"{length} ({percent(int(number), bare)})" for length, number in lengths)
        inside = next((one for one in frames if (one["stack"], one["way"]) == (name, "down")), None)
        kinds, ranges, asks = "–", "–", "–"
        as_client = next((one for one in frames if (one["stack"], one["way"]) == (name, "up")), None)
        skipped = f"{1000 * int(as_client['skipped']) / int(as_client['sent']):.1f}" if as_client else "–"
        if inside:
            total = int(inside["returns"])
            combinations = [one.rsplit(":", 1) for one in inside["frames"].split()]
            kinds = "; ".join(f"{kind.replace('+', ' + ')} ({percent(int(number), total)})" for kind, number in combinations if int(number) >= 0.02 * total)
            ranges = f"{inside['ranges_p50']} / {inside['ranges_p90']} / {inside['ranges_max']}"
            asks = "yes" if int(inside["ack_frequency"]) else "no"
        sending = next((one for one in returns if (one["stack"], one["way"], one["loss_percent"]) == (name, "up", "1")), None)
        burst = f"{int(sending['data_packets']) / int(sending['bursts']):.1f}" if sending else "–"
        lines.append([NAMES[name], row["version"], row["mbps"], burst, f"{int(row['data_packets']) / count:.1f}", percent(int(row["prompt"]), int(row["alone"])), shown, percent(int(row["changes_by_1"]), bare),
                      percent(int(row["rises_by_2"]), bare), kinds, ranges, asks, skipped])
    return markdown(["stack", "version", "Mbps", "packets per burst", "data packets per return", "gaps acknowledged at once, %", "commonest lengths (%)", "changes by 1 byte, %", "rises by 2 or more, %",
                     "frames (% of returns)", "ACK ranges p50 / p90 / max", "sender asks for ACK frequency", "numbers skipped per 1000"], lines)


def recall(rows):
    """Returns the table of all rules, for downloads with 1 % loss without jitter."""
    lines = []
    for name in rows:
        cells = [NAMES[name]]
        for rule in RULES:
            total = chosen(rows, stack=name, way="down", loss_percent="1", jitter_ms="0", return_loss_percent="0", rule=rule)
            if rule == "single":
                cells.append(total["lost"])
            first = percent(total["rank_1"], total["lost"])
            if rule in ("single", "shift"):
                first += f" ({interval(total['rank_1'], total['lost'])})"
            cells.append(first + ("" if rule == "flowlets" else f" / {percent(total['found'], total['lost'])}"))
            cells.append(percent(total["hits"], total["steps"]))
            if rule == "shift":
                chance = percent(total["chance"], total["data_packets"])
        lines.append([*cells, chance])
    return markdown(["stack", "lost", *(f"{rule}: {what}" for rule in RULES for what in ("recall", "precision")), "by chance"], lines)


def conditions(rows, rule):
    """Returns the table of one rule for downloads by loss, jitter, and loss of returns."""
    heads, wanted = ["stack"], []
    for loss in ("0.1", "1", "3", "5"):
        heads.append(f"{loss} %")
        wanted.append({"loss_percent": loss, "jitter_ms": "0", "return_loss_percent": "0"})
    for jitter in ("1", "4"):
        heads.append(f"1 %, jitter {jitter} ms")
        wanted.append({"loss_percent": "1", "jitter_ms": jitter, "return_loss_percent": "0"})
    for loss in ("1", "5"):
        heads.append(f"{loss} % both ways")
        wanted.append({"loss_percent": loss, "jitter_ms": "0", "return_loss_percent": loss})
    lines = []
    for name in rows:
        sums = [chosen(rows, stack=name, way="down", rule=rule, **one) for one in wanted]
        lines.append([NAMES[name], *(f"{percent(one['rank_1'], one['lost'])} / {percent(one['found'], one['lost'])}" for one in sums)])
    return markdown(heads, lines)


def delays(rows, rule):
    """Returns the table of round trips: recall in time, and the time until a loss is known, for downloads with 1 % loss."""
    lines = []
    for name in rows:
        cells = [NAMES[name]]
        for rtt in HOPS:
            keys = {"stack": name, "way": "down", "loss_percent": "1", "rule": rule, "hop_rtt_ms": rtt, "return_loss_percent": "0"}
            sums = {jitter: chosen(rows, jitter_ms=jitter, **keys) for jitter in ("0", "1", "4")}
            cells.append(" / ".join(percent(one["in_time"], one["lost"]) for one in sums.values()))
            quiet = next((row for row in rows[name] if row["jitter_ms"] == "0" and all(row[key] == value for key, value in keys.items())), None)
            cells.append(f"{quiet['known_p50_ms'] or '–'} / {quiet['known_p90_ms'] or '–'}" if quiet else "–")
        lines.append(cells)
    return markdown(["stack", *(head for rtt in HOPS for head in (f"{rtt} ms: in time, %", "known, ms"))], lines)


def uploads(rows):
    """Returns the table of uploads with 1 % loss."""
    lines = []
    for name in rows:
        sums = {rule: chosen(rows, stack=name, way="up", loss_percent="1", jitter_ms="0", return_loss_percent="0", rule=rule) for rule in ("single", "shift", "flowlets")}
        known = [row for row in rows[name] if (row["way"], row["loss_percent"], row["jitter_ms"], row["rule"], row["return_loss_percent"])
                 == ("up", "1", "0", "single", "0") and row["known_p50_ms"]]
        lines.append([NAMES[name], sums["single"]["lost"], *(f"{percent(one['rank_1'], one['lost'])} / {percent(one['found'], one['lost'])}" for one in sums.values()),
                      percent(sums["single"]["hits"], sums["single"]["steps"]), " / ".join(row["known_p50_ms"] for row in known) or "–"])
    return markdown(["stack", "lost", "single", "shift", "flowlets", "precision of single", "known after p50, ms (hop 2 / 10 / 20 ms)"], lines)


def reordering(rows):
    """Returns the table of spurious retransmissions by displacement, in the first and the second half of the runs."""
    classes = (("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("5–8", "5 6 7 8"), ("9–15", "9 10 11 12 13 14 15"), ("16 or more", "16"))
    lines = []
    for name, some in grouped(rows).items():
        mine = {row["displacement"]: row for row in some}
        cells = [NAMES[name], next(iter(mine.values()))["mbps"]]
        for _, numbers in classes:
            one = [mine[number] for number in numbers.split() if number in mine]
            parts = [(sum(int(row[f"{half}_retransmitted"]) for row in one), sum(int(row[f"{half}_events"]) for row in one)) for half in ("early", "late")]
            cells.append(", ".join(f"{part} of {whole}" if whole else "–" for part, whole in parts))
        lines.append(cells)
    return markdown(["stack", "Mbps", *(head for head, _ in classes)], lines)


def verdict(rows):
    """Returns the numbers of stacks that meet the criterion for downloads with 1 % loss: by the first candidate over all
    hops, and in time for each."""
    lines = []
    for rule in ("single", "level", "shift"):
        for jitter in ("0", "1", "4"):
            keys = {"way": "down", "loss_percent": "1", "jitter_ms": jitter, "return_loss_percent": "0", "rule": rule}
            cells = [f"{rule}, jitter {jitter} ms"]
            for name, more in (("rank_1", {}), *(("in_time", {"hop_rtt_ms": rtt}) for rtt in HOPS)):
                met = [stack for stack in rows if chosen(rows, stack=stack, **keys, **more).recall(name) >= NEEDED]
                cells.append(f"{sum(stack in SIX for stack in met)} of {len(SIX)}, {len(met)} of {len(rows)}")
            lines.append(cells)
    return markdown(["rule", "first candidate", *(f"in time, {rtt} ms" for rtt in HOPS)], lines)


def false_steps(rows, returns):
    """Returns the table of steps without any loss, for downloads, per 1000 bare returns."""
    lines = []
    for name in rows:
        bare = sum(int(row["bare"]) for row in returns if (row["stack"], row["way"], row["loss_percent"]) == (name, "down", "0"))
        sums = [chosen(rows, stack=name, way="down", loss_percent="0", jitter_ms="0", rule=rule) for rule in RULES[:4]]
        lines.append([NAMES[name], bare, *(f"{1000 * one['steps'] / bare:.1f}" if bare else "–" for one in sums)])
    return markdown(["stack", "bare returns", *RULES[:4]], lines)


def blocks():
    """Returns the tables by name."""
    outcomes, returns, frames, late = map(read, ("quic-stacks.csv", "quic-returns.csv", "quic-frames.csv", "quic-reordering.csv"))
    outcomes = grouped(outcomes)
    return {"shapes": shapes(returns, frames), "recall": recall(outcomes), "single": conditions(outcomes, "single"), "shift": conditions(outcomes, "shift"),
            "delays": delays(outcomes, "shift"), "uploads": uploads(outcomes), "reordering": reordering(late), "verdict": verdict(outcomes),
            "false": false_steps(outcomes, returns)}


def filled(text, tables):
    """Returns the page with the tables between their marks.

    Raises ValueError if the page lacks a mark.
    """
    for name, table in tables.items():
        begin, end = BEGIN.format(name), END.format(name)
        if begin not in text or end not in text:
            raise ValueError(f"{PAGE}: add the lines '{begin}' and '{end}'")
        before, rest = text.split(begin, 1)
        text = before + f"{begin}\n{table}\n{end}" + rest.split(end, 1)[1]
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page differs from the files, write nothing")
    args = parser.parse_args()
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    new = filled(old, blocks())
    if args.check:
        return new != old
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"tables.py: {error}")

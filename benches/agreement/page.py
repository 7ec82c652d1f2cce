"""The tables of docs/agreement.md, between their marks, and the stored rows behind them."""
import csv
import os
import statistics
import textwrap
from collections import Counter

from estimate import mean_interval, ratio

BEGIN, END = "<!-- {}: written by benches/agreement -->", "<!-- end of {} -->"
# Compared beside the throughput: name of a column, measure, maximum share of a difference, difference that is always near.
COUNTS = (("resent", "source_retransmissions", 0.10, 1.0), ("timeouts", "timeouts", 0.20, 1.0))
SHORT = ("100 kB", "1 MB")
CHECKS = (*(name for name, *_ in COUNTS), *SHORT)
# Columns of the stored rows, one per cell and scheme. A check is "near", "no", or empty if it was not measured.
FIELDS = ("cell", "scheme", "seconds", "runs", "measured", "measured_half", "simulated", "simulated_half", "ratio", "low", "high", "verdict",
          *(column for check in CHECKS for column in (f"{check}_simulated", f"{check}_measured", check)), "order")


def replace(path, name, text):
    """Puts `text` between the marks with this name; appends it if there are none."""
    begin, end = BEGIN.format(name), END.format(name)
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = file.read()
    block = f"{begin}\n{wrapped(text.strip())}\n{end}"
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        new = before + block + rest.split(end, 1)[1]
    else:
        new = (old.rstrip() + "\n\n" if old else "# Agreement with the kernel\n\n") + block + "\n"
    put(path, new)


def wrapped(text):
    """Wraps the lines of Markdown that are in no table."""
    def one(line):
        if line.startswith("|"):
            return line
        return "\n".join(textwrap.wrap(line, 100, subsequent_indent="  " * line.startswith("* "), break_long_words=False, break_on_hyphens=False))

    return "\n".join(map(one, text.splitlines()))


def put(path, text):
    """Writes a file at once."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(temporary, path)


def read_rows(path):
    """Returns the rows of a CSV file; none if it does not exist."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, fields, rows):
    """Writes rows as CSV."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".new", path)


def loss_of(cell):
    return float(cell.split(",")[2].split("/")[0])


def verdict(cell, estimate):
    """Classifies the interval of a ratio by the band for the loss rate."""
    if not estimate or estimate[1] is None:
        return "open"
    band = 1.10 if loss_of(cell) > 3 else 1.05
    low, high = 2 - band, band
    if low <= estimate[1] and estimate[2] <= high:
        return "passed"
    return "failed" if estimate[2] < low or estimate[1] > high else "open"


def near(ours, theirs, share, least):
    """Returns whether two means are within a share of each other, or closer than `least`."""
    return abs(ours - theirs) <= max(share * theirs, least)


def number(value):
    value = float(value)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def values_of(results, how, cell, scheme, what, measure, seconds):
    """Returns a measure of the runs of one kind, by number."""
    limit = seconds if what == "sustained" else None
    return {run["number"]: run[measure] for run in results.of(how=how, cell=cell, scheme=scheme, what=what, limit=limit)}


def fresh(results, cell, scheme, seconds):
    """Returns the row of a scheme in a cell, from its runs; None if they are not both simulated and measured."""
    def both(what, measure):
        return [values_of(results, how, cell, scheme, what, measure, seconds) for how in ("simulated", "measured")]

    def text(value):
        return "" if value is None else f"{value:.6g}"

    ours, theirs = both("sustained", "throughput")
    estimate = ratio(ours, theirs) if ours and theirs else None
    if not estimate:
        return None
    row = {"cell": cell, "scheme": scheme, "seconds": f"{seconds:g}", "runs": str(len(theirs)), "verdict": verdict(cell, estimate)}
    for name, values in (("measured", theirs), ("simulated", ours)):
        row[name], row[f"{name}_half"] = map(text, mean_interval(list(values.values())))
    row["ratio"], row["low"], row["high"] = map(text, estimate)
    pairs = {}
    for name, measure, share, least in COUNTS:
        ours, theirs = both("sustained", measure)
        if ours and theirs:
            pairs[name] = statistics.fmean(ours.values()), statistics.fmean(theirs.values()), share, least
    for what in SHORT:
        ours, theirs = both(what, "seconds")
        if ours and theirs:
            # Compare runs with the same numbers, and so the same errors: the median of ten runs alone is mostly luck.
            alike = [ours[number] for number in theirs if number in ours] or list(ours.values())
            pairs[what] = statistics.median(alike), statistics.median(theirs.values()), 0.10, 0.0
    for name, (one, other, share, least) in pairs.items():
        row[f"{name}_simulated"], row[f"{name}_measured"] = text(one), text(other)
        row[name] = "near" if near(one, other, share, least) else "no"
    return row


def order(rows, results, seconds):
    """Compares the order of the schemes of a cell in simulator and kernel; returns the pairs that differ."""
    swapped, tied = [], []
    for place, one in enumerate(rows):
        for other in rows[place + 1:]:
            ours, theirs = (float(one[name]) - float(other[name]) for name in ("simulated", "measured"))
            if ours * theirs >= 0:
                continue
            runs = [values_of(results, "measured", row["cell"], row["scheme"], "sustained", "throughput", seconds) for row in (one, other)]
            apart = ratio(*runs) if all(runs) else None
            decided = apart and apart[1] is not None and (apart[1] > 1 or apart[2] < 1)
            (swapped if decided else tied).append(f"{one['scheme']} and {other['scheme']}")
    if swapped:
        return f"not the same: {', '.join(swapped)}"
    return f"not told apart by what was measured: {', '.join(tied)}" if tied else "the same"


def collect(path, results, cells, schemes, seconds):
    """Returns the rows of the cells. Where runs are simulated and measured, they are computed and stored; the others are
    those stored before."""
    stored = {(row["cell"], row["scheme"], row["seconds"]): row for row in read_rows(path)}
    changed = False
    for cell in cells:
        computed = [row for scheme in schemes if (row := fresh(results, cell, scheme, seconds))]
        stored.update({(cell, row["scheme"], row["seconds"]): row for row in computed})
        if computed:
            of_cell = [row for scheme in schemes if (row := stored.get((cell, scheme, f"{seconds:g}")))]
            said = order(of_cell, results, seconds)
            for row in of_cell:
                row["order"] = said
            changed = True
    if changed:
        write_rows(path, FIELDS, stored.values())
    return [row for cell in cells for scheme in schemes if (row := stored.get((cell, scheme, f"{seconds:g}")))]


def name(cell):
    mbps, rtt, loss, queue = cell.split(",")
    loss, _, burst = loss.partition("/")
    return f"{mbps} Mbps, {rtt} ms, {loss} %" + (f" in bursts of {burst}" if burst else "") + f", queue of {queue}"


def interval(row):
    return f" ({float(row['low']):.2f} – {float(row['high']):.2f})" if row["low"] else ""


def table(rows):
    """Returns Markdown with every row."""
    def both(row, name):
        return number(row[name]) + (f" ± {number(row[f'{name}_half'])}" if row[f"{name}_half"] else "")

    def pair(row, name):
        shown = f"{number(row[f'{name}_simulated'])} / {number(row[f'{name}_measured'])}" if row.get(name) else "–"
        return shown + (" **no**" if row.get(name) == "no" else "")

    head = ["link", "scheme", "runs", "measured, Mbps", "simulated, Mbps", "ratio (90 %)", "", "resent, simulated / measured", "timeouts", "100 kB, s", "1 MB, s"]
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "--:|" * 4 + "---|" + "--:|" * 4]
    for row in rows:
        cells = [name(row["cell"]), row["scheme"], row["runs"], both(row, "measured"), both(row, "simulated"), f"{float(row['ratio']):.3f}{interval(row)}",
                 row["verdict"], *(pair(row, check) for check in CHECKS)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def about(results):
    """Returns a sentence on all measured runs."""
    used = results.measured()
    dates, kernels = sorted({run["date"] for run in used}), sorted({run["kernel"] for run in used})
    late = sorted(run["lateness_us"] for run in used)
    return (f"Measured {' to '.join(sorted({dates[0], dates[-1]}))} with Linux {', '.join(kernels)}: {len(used)} runs. In the median run 99 % of the "
            f"frames left the emulated links less than {statistics.median(late):.0f} us late, in the worst {late[-1]:.0f} us. "
            f"{sum(run['void'] for run in used):.0f} runs were void and repeated.")


def summary(rows, schemes):
    """Returns Markdown: how many rows of each scheme pass, and those whose throughput does not."""
    def checked(some, check):
        measured = [row[check] for row in some if row.get(check)]
        return f"{measured.count('near')} of {len(measured)}"

    lines = ["| scheme | throughput: passed | open | failed | ratio: median deviation | lowest | highest | retransmissions | timeouts | 100 kB | 1 MB |", "|---|" + "--:|" * 10]
    for scheme in (*schemes, "all"):
        some = [row for row in rows if scheme in (row["scheme"], "all")]
        if not some:
            continue
        verdicts, ratios = Counter(row["verdict"] for row in some), [float(row["ratio"]) for row in some]
        deviation = statistics.median(abs(value - 1) for value in ratios)
        cells = [scheme, f"{verdicts['passed']} of {len(some)}", str(verdicts["open"]), str(verdicts["failed"]), f"{deviation:.1%}".replace("%", " %"),
                 f"{min(ratios):.3f}", f"{max(ratios):.3f}", *(checked(some, check) for check in CHECKS)]
        lines.append(f"| {' | '.join(cells)} |")
    orders = {row["cell"]: row["order"].split(":")[0] for row in rows}
    counts = Counter(orders.values())
    words = [f"the same on {counts['the same']}", f"not distinguished by the measurement on {counts['not told apart by what was measured']}", f"different on {counts['not the same']}"]
    lines += ["", f"Order of the schemes on {len(orders)} links: {', '.join(words)}."]
    beyond = sorted((row for row in rows if row["verdict"] != "passed"), key=lambda row: -abs(float(row["ratio"]) - 1))
    if beyond:
        lines += ["", "Throughput that did not pass:", "", "| link | scheme | runs | ratio (90 %) | |", "|---|---|--:|--:|---|"]
        lines += [f"| {name(row['cell'])} | {row['scheme']} | {row['runs']} | {float(row['ratio']):.3f}{interval(row)} | {row['verdict']} |" for row in beyond]
    return "\n".join(lines)


def write(path, data, results, cells, schemes, seconds):
    """Writes the grid's tables, and the rows behind them to `data`; returns whether everything in them has passed."""
    rows = collect(data, results, cells, schemes, seconds)
    there = Counter(row["cell"] for row in rows)
    missing = [cell for cell in cells if there[cell] < len(schemes)]
    text = summary(rows, schemes) if rows else "Nothing is measured yet."
    if results.measured():
        text = f"{about(results)}\n\n{text}"
    if missing:
        text += f"\n\nNot measured yet, in whole or in part: {'; '.join(map(name, missing))}."
    replace(path, "grid", text)
    print(text)
    good = all(row["verdict"] == "passed" and not row["order"].startswith("not the same") and "no" not in (row.get(check) for check in CHECKS) for row in rows)
    return bool(rows) and not missing and good

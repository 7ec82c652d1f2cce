"""The tables of docs/agreement.md, between their marks."""
import os
import statistics
from collections import Counter

from estimate import mean_interval, ratio

BEGIN, END = "<!-- {}: written by benches/agreement -->", "<!-- end of {} -->"


def replace(path, name, text):
    """Puts `text` between the marks with this name; appends it if there are none."""
    begin, end = BEGIN.format(name), END.format(name)
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = file.read()
    block = f"{begin}\n{text.strip()}\n{end}"
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        new = before + block + rest.split(end, 1)[1]
    else:
        new = (old.rstrip() + "\n\n" if old else "# Agreement with the kernel\n\n") + block + "\n"
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(new)
    os.replace(temporary, path)


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
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


class Row:
    """Results of a scheme in a cell."""

    def __init__(self, results, cell, scheme, seconds):
        def values(how, what, measure):
            limit = seconds if what == "sustained" else None
            return {run["number"]: run[measure] for run in results.of(how=how, cell=cell, scheme=scheme, what=what, limit=limit)}

        self.cell, self.scheme = cell, scheme
        self.ours, self.theirs = (values(how, "sustained", "throughput") for how in ("simulated", "measured"))
        self.ratio = ratio(self.ours, self.theirs) if self.ours and self.theirs else None
        self.counts = {}
        for measure, share, least in (("source_retransmissions", 0.10, 1.0), ("timeouts", 0.20, 1.0)):
            ours, theirs = values("simulated", "sustained", measure), values("measured", "sustained", measure)
            if ours and theirs:
                one, other = statistics.fmean(ours.values()), statistics.fmean(theirs.values())
                self.counts[measure] = one, other, near(one, other, share, least)
        self.short = {}
        for what in ("100 kB", "1 MB"):
            ours, theirs = values("simulated", what, "seconds"), values("measured", what, "seconds")
            if ours and theirs:
                # Compare runs with the same numbers, and so the same errors: the median of ten runs alone is mostly
                # luck.
                alike = [ours[number] for number in theirs if number in ours] or list(ours.values())
                one, other = statistics.median(alike), statistics.median(theirs.values())
                self.short[what] = one, other, near(one, other, 0.10, 0.0), len(theirs)

    @property
    def verdict(self):
        return verdict(self.cell, self.ratio)

    @property
    def passed(self):
        checks = [check for _, _, check in self.counts.values()] + [entry[2] for entry in self.short.values()]
        return self.verdict == "passed" and all(checks)

    def cells(self):
        def both(values):
            mean, half = mean_interval(list(values.values()))
            return number(mean) + (f" ± {number(half)}" if half is not None else "")

        def pair(entry):
            return f"{number(entry[0])} / {number(entry[1])}" + ("" if entry[2] else " **no**") if entry else "–"

        middle, low, high = self.ratio
        interval = f" ({low:.2f} – {high:.2f})" if low is not None else ""
        shown = self.verdict if self.verdict == "passed" else f"**{self.verdict}**"
        return [self.scheme, str(len(self.theirs)), both(self.theirs), both(self.ours), f"{middle:.3f}{interval}", shown,
                pair(self.counts.get("source_retransmissions")), pair(self.counts.get("timeouts")), pair(self.short.get("100 kB")), pair(self.short.get("1 MB"))]


def order(rows):
    """Compares the order of the schemes in simulator and kernel; returns the pairs that differ."""
    swapped, tied = [], []
    for place, one in enumerate(rows):
        for other in rows[place + 1:]:
            ours = statistics.fmean(one.ours.values()) - statistics.fmean(other.ours.values())
            theirs = statistics.fmean(one.theirs.values()) - statistics.fmean(other.theirs.values())
            if ours * theirs >= 0:
                continue
            apart = ratio(one.theirs, other.theirs)
            decided = apart and apart[1] is not None and (apart[1] > 1 or apart[2] < 1)
            (swapped if decided else tied).append(f"{one.scheme} and {other.scheme}")
    if swapped:
        return f"**not the same**: {', '.join(swapped)}"
    return f"not told apart by what was measured: {', '.join(tied)}" if tied else "the same"


def name(cell):
    mbps, rtt, loss, queue = cell.split(",")
    loss, _, burst = loss.partition("/")
    return f"{mbps} Mbps, {rtt} ms, {loss} %" + (f" in bursts of {burst}" if burst else "") + f", queue of {queue}"


def write(path, results, cells, schemes, seconds):
    """Writes the grid's tables; returns whether everything in them has passed."""
    lines, verdicts, missing, orders, checks = [], Counter(), [], Counter(), Counter()
    used = results.measured()
    if used:
        dates, kernels = sorted({run["date"] for run in used}), sorted({run["kernel"] for run in used})
        late = sorted(run["lateness_us"] for run in used)
        lines += [f"Measured {' to '.join(sorted({dates[0], dates[-1]}))} with Linux {', '.join(kernels)}: {len(used)} runs; in the median of them 99 % of the "
                  f"frames left the emulated links less than {statistics.median(late):.0f} us late, in the worst {late[-1]:.0f} us. "
                  f"{sum(run['void'] for run in used):.0f} runs were void and repeated.", ""]
    head = ["scheme", "runs", "measured, Mbps", "simulated, Mbps", "ratio (90 %)", "", "resent, simulated / measured", "timeouts", "100 kB, s", "1 MB, s"]
    for cell in cells:
        rows = [row for scheme in schemes if (row := Row(results, cell, scheme, seconds)).ratio]
        if len(rows) < len(schemes):
            missing.append(cell)
        if not rows:
            continue
        lines += [f"### {name(cell)}", "", f"| {' | '.join(head)} |", "|---|" + "--:|" * 4 + "---|" + "--:|" * 4]
        lines += [f"| {' | '.join(row.cells())} |" for row in rows]
        found = order(rows)
        lines += ["", f"Order of schemes: {found}.", ""]
        orders[found.split(":")[0].strip("*")] += 1
        verdicts.update(row.verdict for row in rows)
        for row in rows:
            checks.update((measure, good) for measure, (_, _, good) in row.counts.items())
            checks.update((what, entry[2]) for what, entry in row.short.items())
    total = sum(verdicts.values())
    summary = ["| what | passed | of |", "|---|--:|--:|"]
    summary.append(f"| throughput: the 90 % interval of the ratio lies in 0.95 to 1.05, at 10 % loss in 0.90 to 1.10 | {verdicts['passed']} | {total} |")
    summary.append(f"| the same, open: the interval reaches beyond, for it is too wide, or both | {verdicts['open']} | {total} |")
    summary.append(f"| the same, failed: the interval lies outside | {verdicts['failed']} | {total} |")
    for measure, words in (("source_retransmissions", "segments resent: within 10 %, or one a run"), ("timeouts", "timeouts: within 20 %, or one a run"),
                           ("100 kB", "100 kB: median time within 10 %"), ("1 MB", "1 MB: median time within 10 %")):
        summary.append(f"| {words} | {checks[measure, True]} | {checks[measure, True] + checks[measure, False]} |")
    summary.append(f"| order of schemes the same | {orders['the same']} | {sum(orders.values())} |")
    if missing:
        summary += ["", f"Not measured yet, in whole or in part: {'; '.join(map(name, missing))}."]
    replace(path, "grid", "\n".join(summary + [""] + lines))
    print("\n".join(summary))
    return total > 0 and verdicts["passed"] == total and not missing and not orders["not the same"] and not any(count for (_, good), count in checks.items() if not good)

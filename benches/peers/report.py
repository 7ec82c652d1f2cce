"""The tables of speed.py: as text, and between the marks of a page."""
import os

BEGIN, END = "<!-- written by: benches/peers/speed.py {} -->", "<!-- end -->"
NAMES = ("speed", "results")
# A difference of throughput that a page must explain.
LARGE = 0.05


def digits(value):
    """Formats a positive number with three significant digits."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def spread(best, low, high, form=digits):
    """Formats a value with the lowest and highest of a turn, if there are several."""
    if low == high:
        return form(best)
    return f"{form(best)} ({form(low)} – {form(high)})"


def times(value):
    return f"{value:.2g}" if value < 0.995 else f"{value:.1f}" if value < 99.5 else f"{value:.0f}"


def about(result):
    """Returns lines on the machine and the programs."""
    machine = result["machine"]
    counter = f"instructions counted by {result['counter']}" if result["counter"] else "instructions not counted"
    lines = [f"{machine['processor']}, {machine['processors']} processors, load {machine['load']} before; {result['date']}; {result['turns']} turns; "
             f"{counter}.", ""]
    for name, program in result["programs"].items():
        lines.append(f"* {name}: {program.get('about') or 'measured'}" if "missing" not in program else f"* {name}: not measured, {program['missing']}")
    return lines


def speed(result):
    """Returns the table of costs as Markdown."""
    head = ["", "program", "ms a transfer", "frames, down + up", "ns a frame", "instructions a frame", "time / lasthop's", "instructions / lasthop's"]
    lines = [*about(result), "", f"| {' | '.join(head)} |", "|---|---|" + "--:|" * 6]
    for case in result["speed"]:
        for at, (name, row) in enumerate(case["programs"].items()):
            frames, ns = row["frames"], row["ns_per_frame"]
            instructions, ratio = row.get("instructions_per_frame"), case["ratios"].get(name)
            more = ratio.get("instructions") if ratio else None
            cells = [case["title"] if at == 0 else "", name, digits(1000 * row["seconds"]["best"]), f"{frames['down']:.0f} + {frames['up']:.0f}",
                     spread(ns["best"], ns["low"], ns["high"]), f"{instructions:,.0f}" if instructions else "–",
                     f"{spread(ratio['best'], ratio['low'], ratio['high'], times)}" if ratio else "", times(more) if more else ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mbps(row):
    """Formats a throughput with its interval, and the number of transfers that were not completed."""
    failed = f", {row['failed']} failed" if row["failed"] else ""
    if row["mbps"] is None:
        return f"–{failed}"
    # All transfers take the same time on a link without losses.
    half = row["half"] if row["half"] and row["half"] > 1e-6 * row["mbps"] else None
    return digits(row["mbps"]) + (f" ± {digits(half)}" if half else "") + failed


def against(ours, theirs):
    """Formats by which share lasthop's throughput is above a peer's."""
    if theirs["mbps"] is None:
        return "–"
    share = ours["mbps"] / theirs["mbps"] - 1
    shown = f"{100 * share:+.1f} %" if share < 10 else f"{share + 1:.0f} times"
    return f"**{shown}**" if abs(share) > LARGE else shown


def results(result):
    """Returns the table of throughputs as Markdown."""
    rows = result["results"]
    names = list(rows[0]["programs"]) if rows else []
    peers = [name for name in names if name != "lasthop"]
    if not peers:
        return "No peer was measured."
    head = ["link", "scheme", *(f"{name}, Mbps" for name in names), *(f"to {name}" for name in peers)]
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "--:|" * (len(head) - 2)]
    for row in rows:
        ours = row["programs"]["lasthop"]
        cells = [row["link"], row["scheme"], *(mbps(row["programs"][name]) for name in names)]
        for name in peers:
            cells.append(against(ours, row["programs"][name]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def replaced(page, name, text):
    """Returns a page with `text` between the marks of that name; both marks must be there."""
    begin = BEGIN.format(name)
    before, found, rest = page.partition(begin + "\n")
    if not found or END not in rest:
        raise ValueError(f"has no lines '{begin}' and '{END}' for the table; add them where it belongs")
    return before + found + text.strip() + "\n" + rest[rest.index(END):]


def write(path, tables):
    """Writes tables, by name, into a page at once."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for name, text in tables.items():
        page = replaced(page, name, text)
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        file.write(page)
    os.replace(path + ".new", path)

#!/usr/bin/env python3
"""Draws the README's animation from the output of `lasthop trace`: one transfer, without and with a cure at the base
station.

    python3 scripts/animate.py target/debug/lasthop > docs/img/repair.svg

Each dot is a packet on one of the two links at its actual times; a test compares the file with the output.
"""
import csv
import io
import subprocess
import sys

SCENARIO = ["wavelan-wan", "--set", 'tcp.socket_buffer="16 KiB"']
ROWS = [("E2E", "plain TCP"), ("LL-TCP-AWARE", "with snoop at the base station")]
# Displayed seconds of the run, and slowdown.
BEGIN, END, SLOWER = 1.10, 1.70, 16.0
PAUSE = 1.5
SOURCE, BASE, MOBILE = 70, 470, 690
POINTS = {"source": SOURCE, "base:wired": BASE, "base:wireless": BASE, "mobile": MOBILE}
# Capture point at the other end of a point's link.
PEER = {"source": "base:wired", "base:wired": "source", "base:wireless": "mobile", "mobile": "base:wireless"}
# Maximum travel time, so that a queued packet does not crawl.
LONGEST_HOP = {"source": 1.0, "base:wired": 1.0, "base:wireless": 0.03, "mobile": 0.03}
WIDTH, ROW, TOP = 760, 118, 30
# Colours by name, for light and dark pages.
PALETTE = (
    "svg{--ink:#24292f;--dim:#6e7781;--line:#afb8c1;--data:#0969da;--ack:#8c959f;--bad:#cf222e;--good:#1a7f37}"
    "@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--dim:#8d96a0;--line:#484f58;--data:#4493f8;--ack:#6e7681;--bad:#f85149;"
    "--good:#3fb950}}"
)


def trace(lasthop, scheme):
    command = [lasthop, "trace", *SCENARIO, "--scheme", scheme, "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        for row in csv.DictReader(process.stdout):
            if float(row["time"]) > END:
                break
            yield row
        process.kill()


def hops(rows):
    """Yields (kind, from x, to x, begin, end, lost) of each packet on each link."""
    under_way = {point: [] for point in PEER}
    for row in rows:
        point, event, time = row["point"], row["event"], float(row["time"])
        key = (row["from"], row["seq"], row["len"], row["ack"], row["sack"])
        if event in ("sent", "retransmitted"):
            kind = "ack" if row["len"] == "0" else "data"
            if event == "retransmitted":
                kind = "repair" if row["reason"].startswith("local") else "again"
            under_way[point].append((key, kind, time))
        elif event in ("received", "dropped"):
            origin = point if event == "dropped" else PEER[point]
            place = next((n for n, (of, _, _) in enumerate(under_way[origin]) if of == key), None)
            if place is None:
                continue
            _, kind, begun = under_way[origin].pop(place)
            begun = max(begun, time - LONGEST_HOP[origin])
            yield (kind, POINTS[origin], POINTS[PEER[origin]], begun, time, event == "dropped")


def received_in_order(rows):
    """Yields (time, bytes) for each new acknowledgment of the mobile host."""
    best = None
    for row in rows:
        if row["point"] == "mobile" and row["event"] == "sent" and row["ack"]:
            if best is None or int(row["ack"]) > best:
                best = int(row["ack"])
                yield float(row["time"]), best


def at(time):
    return max(0.0, (time - BEGIN) * SLOWER)


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def draw(out, index, title, rows, most):
    base = TOP + index * ROW
    data, acks = base + 38, base + 54
    total = at(END) + PAUSE
    out.write(f'<text x="{SOURCE - 8}" y="{base + 12}" class="t">{title}</text>\n')
    out.write(f'<path d="M{SOURCE} {base + 46}H{MOBILE}" class="l"/><path d="M{BASE} {base + 46}H{MOBILE}" class="r"/>\n')
    for x, name in ((SOURCE, "server"), (BASE, "base station"), (MOBILE, "mobile")):
        out.write(f'<rect x="{x - 7}" y="{base + 28}" width="14" height="36" rx="3" class="n"/>')
        out.write(f'<text x="{x}" y="{base + 78}" class="s">{name}</text>\n')
    for kind, start, stop, begun, ended, lost in hops(rows):
        if ended <= BEGIN or begun >= END:
            continue
        y = acks if kind == "ack" else data
        # Clip packets that are in flight when the animation begins or ends.
        share = lambda time: start + (stop - start) * (time - begun) / max(ended - begun, 1e-9)
        begun_at, ended_at = max(begun, BEGIN), min(ended, END)
        left, right = share(begun_at), share(ended_at)
        if lost:
            right = start + (stop - start) * 0.55
        move = f'begin="L.begin+{number(at(begun_at))}s" dur="{number(max(at(ended_at) - at(begun_at), 0.01))}s"'
        out.write(
            f'<circle class="{kind}" r="{5 if kind in ("repair", "again") else 3.5}" cx="-9" cy="{y}">'
            f'<animate attributeName="cx" from="{number(left)}" to="{number(right)}" {move}/></circle>\n'
        )
        if lost:
            out.write(
                f'<path class="x" opacity="0" d="M{right - 6} {y - 6}l12 12m0-12l-12 12">'
                f'<set attributeName="opacity" to="1" begin="L.begin+{number(at(ended_at))}s" dur="2s"/></path>\n'
            )
    for row in rows:
        time = float(row["time"])
        label = None
        if row["event"] == "recovery-entered" and row["point"] == "source":
            label = (SOURCE - 8, "start", "the server sends it again, and halves its window", 4.0)
        elif row["event"] == "retransmitted" and row["reason"].startswith("local") and row["point"] == "base:wireless":
            label = (BASE, "middle", "repaired here; the server does not notice it", 3.0)
        if label and BEGIN < time < END:
            x, anchor, text, seconds = label
            out.write(
                f'<text x="{x}" y="{base + 96}" text-anchor="{anchor}" class="b" opacity="0">{text}'
                f'<set attributeName="opacity" to="1" begin="L.begin+{number(at(time))}s" dur="{seconds}s"/></text>\n'
            )
    steps = [(time, sent) for time, sent in received_in_order(rows)]
    first = max((sent for time, sent in steps if time <= BEGIN), default=0)
    values, times = ["0"], ["0"]
    for time, sent in steps:
        if BEGIN < time < END:
            values.append(number(180 * (sent - first) / most))
            times.append(f"{at(time) / total:.4f}")
    y = base + 4
    out.write(f'<rect x="{MOBILE - 180}" y="{y}" width="180" height="9" class="p"/>')
    out.write(
        f'<rect x="{MOBILE - 180}" y="{y}" width="0" height="9" class="f"><animate attributeName="width" calcMode="discrete" '
        f'begin="L.begin" dur="{number(total)}s" values="{";".join(values)}" keyTimes="{";".join(times)}" fill="freeze"/></rect>\n'
    )


def gained(rows):
    steps = list(received_in_order(rows))
    before = max((sent for time, sent in steps if time <= BEGIN), default=0)
    return max((sent for time, sent in steps if time < END), default=0) - before


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: animate.py LASTHOP > FILE.svg")
    traces = [(title, list(trace(sys.argv[1], scheme))) for scheme, title in ROWS]
    most = max(gained(rows) for _, rows in traces)
    height = TOP + ROW * len(ROWS)
    total = number(at(END) + PAUSE)
    out = io.StringIO()
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui,sans-serif" role="img">\n'
        "<title>The same loss, without and with a base station that repairs it</title>\n"
        f"<style>{PALETTE}"
        ".t{font-size:15px;font-weight:600;fill:var(--ink)}.s{font-size:12px;fill:var(--dim);text-anchor:middle}"
        ".b{font-size:13px;fill:var(--ink)}.l{stroke:var(--line);stroke-width:2}.r{stroke:var(--bad);stroke-width:2;stroke-dasharray:3 5}"
        ".n{fill:var(--line)}.data{fill:var(--data)}.ack{fill:var(--ack)}.again{fill:var(--bad)}.repair{fill:var(--good)}"
        ".x{stroke:var(--bad);stroke-width:3;fill:none}.p{fill:none;stroke:var(--line)}.f{fill:var(--data)}</style>\n"
        f'<text x="{SOURCE - 8}" y="16" class="s" style="text-anchor:start">{number(END - BEGIN)} s of a transfer, {SLOWER:.0f} times slower. '
        "Dots are packets; the dashed link loses some. Bars: bytes received.</text>\n"
        f'<rect width="0" height="0"><animate id="L" attributeName="x" from="0" to="0" begin="0s;L.end" dur="{total}s"/></rect>\n'
    )
    for index, (title, rows) in enumerate(traces):
        draw(out, index, title, rows, most)
    out.write("</svg>\n")
    sys.stdout.write(out.getvalue())


if __name__ == "__main__":
    main()

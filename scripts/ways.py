#!/usr/bin/env python3
"""Draws the README's figure of the three ways to a cure: places of the devices, and the results of a download and a
concurrent call in `lasthop compare`.

    python3 scripts/ways.py target/debug/lasthop > docs/img/ways.svg

A test compares the file with the output.
"""
import io
import json
import subprocess
import sys

from animate import PALETTE

SCENARIO = "call-radio"
# Device at each end of the hop, and the simulated scheme.
ROWS = [
    ("nothing", "E2E-CUBIC", ()),
    ("BBR at the sender", "E2E-BBR", ("server",)),
    ("one box: gateway, snoop", "SNOOP", ("near",)),
    ("one box: gateway, split", "SPLIT-BBR", ("near",)),
    ("two boxes: tunnel", "LINK-HYBRID", ("near", "far")),
]
PLACES = {"server": 200, "near": 275, "far": 345, "office": 380}
# Heading of each column, start of its bars and maximum length, values at a bar's two ends, digits, comparison, metric.
COLUMNS = [
    ("TCP, Mbps", 412, 78, (0.0, 10.0), 1, "tcp", "throughput"),
    ("QUIC, Mbps", 534, 78, (0.0, 10.0), 1, "quic", "throughput"),
    ("call, MOS 1 to 4.5", 652, 66, (1.0, 4.5), 2, "tcp", "call_mos"),
]
# The download is over TCP, or over QUIC, which has no BBR here.
COMPARISONS = {"tcp": ([], set()), "quic": (["--set", "flows.download.app=quic"], {"E2E-BBR"})}
WIDTH, TOP, ROW = 760, 52, 34


def compare(lasthop, options, left_out):
    """Returns the metrics of each scheme except those left out."""
    schemes = ",".join(scheme for _, scheme, _ in ROWS if scheme not in left_out)
    command = [lasthop, "compare", SCENARIO, "--schemes", schemes, *options, "--json"]
    compared = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {row["scheme"]: row["measures"] for row in compared["schemes"]}


def draw(out, index, title, scheme, cured, compared):
    y = TOP + index * ROW
    out.write(f'<text x="8" y="{y + 5}" class="b">{title}</text>\n')
    out.write(f'<path d="M{PLACES["server"]} {y}H{PLACES["near"]}M{PLACES["far"]} {y}H{PLACES["office"]}" class="l"/>')
    out.write(f'<path d="M{PLACES["near"]} {y}H{PLACES["far"]}" class="r"/>\n')
    for place, x in PLACES.items():
        kind = "c" if place in cured else "n"
        size = 7 if place in ("server", "office") else 5
        out.write(f'<rect x="{x - size}" y="{y - size}" width="{2 * size}" height="{2 * size}" rx="2" class="{kind}"/>')
    out.write("\n")
    for _, x, length, (least, most), digits, comparison, key in COLUMNS:
        measures = compared[comparison].get(scheme)
        if measures is None:
            out.write(f'<text x="{x}" y="{y + 5}" class="s">not simulated</text>\n')
            continue
        value = measures[key]["mean"]
        width = length * (min(max(value, least), most) - least) / (most - least)
        out.write(
            f'<rect x="{x}" y="{y - 6}" width="{width:.1f}" height="12" class="f"/>'
            f'<text x="{x + width + 5:.1f}" y="{y + 5}" class="b">{value:.{digits}f}</text>\n'
        )


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: ways.py LASTHOP > FILE.svg")
    compared = {name: compare(sys.argv[1], *what) for name, what in COMPARISONS.items()}
    out = io.StringIO()
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + ROW * len(ROWS)}" '
        'font-family="system-ui,sans-serif" role="img">\n'
        "<title>A download and a call over a lossy hop, without and with each cure</title>\n"
        f"<style>{PALETTE}.s{{font-size:12px;fill:var(--dim)}}.b{{font-size:13px;fill:var(--ink)}}"
        ".l{stroke:var(--line);stroke-width:2}.r{stroke:var(--bad);stroke-width:2;stroke-dasharray:3 5}.n{fill:var(--line)}"
        ".c{fill:var(--good)}.f{fill:var(--data)}</style>\n"
    )
    for place, x in (("server", PLACES["server"]), ("hop", (PLACES["near"] + PLACES["far"]) / 2), ("office", PLACES["office"])):
        out.write(f'<text x="{x}" y="22" class="s" text-anchor="middle">{place}</text>')
    out.write("\n")
    for title, x, *_ in COLUMNS:
        out.write(f'<text x="{x}" y="22" class="s">{title}</text>\n')
    for index, (title, scheme, cured) in enumerate(ROWS):
        draw(out, index, title, scheme, cured, compared)
    out.write("</svg>\n")
    sys.stdout.write(out.getvalue())


if __name__ == "__main__":
    main()

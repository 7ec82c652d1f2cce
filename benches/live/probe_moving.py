#!/usr/bin/env python3
"""Measures links whose rate moves with `lasthop probe --moving`, emulated by `lasthop lab hold`, and prints the family that
is named. Each link takes about 75 seconds.

    sudo benches/live/probe_moving.py [--kinds all] [--links 1] [--seed 1] [--traces MAHIMAHI/traces]

`wifi` and `cell` are the media, `acm` a satellite's adaptive coding. `trace` replays a pair of mahimahi's traces, NAME.down
and NAME.up; without --traces it is left out.
"""
import glob
import os
import random
import tempfile

import common
from drawn import between
from probe_kinds import WIRES

KINDS = ("constant", "steps", "markov", "slots", "acm", "wifi", "cell", "trace")
# Kinds whose rate is that of the medium.
MEDIA = ("wifi", "cell")
# Range of the one-way delay in ms, if it is not 5 to 50.
DELAYS = {"acm": (250, 300), "wifi": (0.01, 0.1), "cell": (2, 20)}


def variation(kind, rate, draw):
    """Returns the variation of a rate in kbps as TOML; `None` if it is constant."""
    if kind == "steps":
        low = rate / between(draw, 1.5, 3)
        return f'{{ model = "steps", steps = [{{ at = "0 s", rate = "{rate:.0f} kbps" }}, {{ at = "25 s", rate = "{low:.0f} kbps" }}] }}'
    if kind == "markov":
        states = (rate, between(draw, 1, 4)), (rate / between(draw, 2, 4), between(draw, 1, 2))
        text = ", ".join(f'{{ rate = "{level:.0f} kbps", mean = "{mean:.3f} s" }}' for level, mean in states)
        return f'{{ model = "markov", states = [{text}] }}'
    if kind == "slots":
        return f'{{ model = "slots", first = "{15 * draw.random():.3f} s" }}'
    return None


def acm(draw):
    """Returns a geostationary link in the rain: its clear sky, and fades of 5 to 10 dB slow enough for the control."""
    symbols, depth, start = between(draw, 5e5, 5e6), 5 + 5 * draw.random(), 5 + 10 * draw.random()
    lasts, slope = 5 + 10 * draw.random(), 0.3 + 0.4 * draw.random()
    points = (0, 0), (start, 0), (start + depth / slope, depth), (start + depth / slope + lasts, depth), (start + 2 * depth / slope + lasts, 0)
    fades = ", ".join(f'{{ at = "{at:.3f} s", depth = {depth:.3f} }}' for at, depth in points)
    return [f'rate = "{3.3 * symbols / 1e3:.0f} kbps"', f'rate_up = "{0.4 * symbols / 1e3:.0f} kbps"', f'queue = "{symbols * 3.3 * between(draw, 0.3, 1.5) / 8:.0f} B"',
            'queue_up = "100 packets"', f'rate_variation_down = {{ model = "acm", symbol_rate = {symbols:.0f}, clear_sky = {12 + 3 * draw.random():.2f}, fades = [{fades}] }}']


def wifi(draw):
    """Returns a station of 802.11n on one channel of 20 MHz."""
    return ['medium = "wifi"', f'wifi = {{ standard = "n", width = "20 MHz", streams = 1, snr = {between(draw, 8, 25):.1f} }}']


def cell(draw):
    """Returns a user of an LTE cell, and the table of the cell."""
    snr, others = between(draw, 6, 20), draw.randint(1, 5)
    moving = f'sigma = {1 + 3 * draw.random():.2f}, coherence = "{between(draw, 0.2, 2):.3f} s"'
    return ['medium = "cell"', 'channel = "cell"', f'queue = "{between(draw, 100, 2000):.0f} KiB"', 'queue_up = "1000 packets"',
            f'cell = {{ snr = {snr:.2f}, snr_up = {snr / 2:.2f}, {moving} }}',
            "[cells.cell]", 'preset = "lte"', f"others = {others}", f"others_up = {others}", f"others_snr = {snr:.2f}", f"others_snr_up = {snr / 2:.2f}"]


def trace(draw, folder):
    """Returns a link that replays a pair of mahimahi's traces, from a random offset on."""
    names = sorted(path.removesuffix(".down") for path in glob.glob(os.path.join(folder, "*.down")) if os.path.exists(path.removesuffix("down") + "up"))
    if not names:
        common.fail(f"--traces {folder}: no pair of NAME.down and NAME.up")
    name, queue = os.path.abspath(draw.choice(names)), draw.randint(50, 500)
    return [f'queue = "{queue} packets"', 'rate = "10 Mbps"',
            *(f'rate_variation_{way} = {{ model = "replay", format = "mahimahi", file = "{name}.{way}", offset = "random" }}' for way in ("down", "up"))]


def link_keys(kind, draw, traces):
    """Returns the keys of a link of a kind."""
    if kind == "acm":
        return acm(draw)
    if kind in MEDIA:
        return wifi(draw) if kind == "wifi" else cell(draw)
    if kind == "trace":
        return trace(draw, traces)
    keys = []
    for way, suffix in (("down", ""), ("up", "_up")):
        rate = between(draw, 5e3, 5e4)
        keys += [f'rate{suffix} = "{rate:.0f} kbps"', f'queue{suffix} = "{draw.randint(50, 200)} packets"']
        text = variation(kind, rate, draw)
        keys += [f"rate_variation_{way} = {text}"] if text else []
    return keys


def drawn(kind, seed, number, traces=None, most_loss=0):
    """Returns a link of a kind as TOML. It loses up to `most_loss` of the frames in each direction; a medium that
    retransmits, none."""
    draw = random.Random(f"moving {kind} {seed} {number}")
    keys = link_keys(kind, draw, traces)
    keys.insert(0, f'delay = "{between(draw, *DELAYS.get(kind, (5, 50))):.3f} ms"')
    if most_loss and kind not in MEDIA:
        share = draw.choice((0, 0.1, 1)) * most_loss * draw.random()
        keys.insert(0, f'errors = {{ model = "uniform", frame_loss = {share:.6f} }}')
    return "\n".join([f'title = "{kind}"', f"seed = {1 + 100 * (1000 * seed + number)}", "[hosts.near]", "[hosts.far]", *WIRES, "[links.hop]",
                      'between = ["behind", "before"]', *keys, "[flows.unused]", 'from = "far"', 'to = "near"', "size = 1"]) + "\n"


def known(traces):
    """Returns the kinds that can be drawn."""
    return KINDS if traces else [kind for kind in KINDS if kind != "trace"]


def measure(args, folder, text):
    """Returns the probe's report, and the lab's."""
    return common.probed(args, folder, text, "--moving")[1:]


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--kinds", default="all", help="kinds, separated by commas (default all)")
    parser.add_argument("--links", type=int, default=1, help="links of each kind (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", metavar="FOLDER", help="traces of mahimahi, for `trace`")
    args = parser.parse_args()
    for kind in common.chosen(parser, args.kinds, known(args.traces)):
        for number in range(args.links):
            text = drawn(kind, args.seed, number, args.traces)
            with tempfile.TemporaryDirectory(prefix="lasthop-probe-") as folder:
                report, lab = measure(args, folder, text)
            for way in ("down", "up"):
                moving = report[way].get("moving") or {}
                print(f"{kind} {number} {way}: {moving.get('family')}: {moving.get('summary')}; {moving.get('why')}", flush=True)
            print("  " + "; ".join(line for line in text.splitlines() if line.startswith("rate")))
            print(f"  lateness of the lab: {lab.get('lateness_us')}", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures links whose rate moves with `lasthop probe --moving`, emulated by `lasthop lab hold`, and prints the family that
is named. Each link takes about 75 seconds.

    sudo benches/live/probe_moving.py [--kinds all] [--links 1] [--seed 1]
"""
import random
import tempfile

import common
from drawn import between
from probe_kinds import WIRES

KINDS = ("constant", "steps", "markov", "slots")


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


def drawn(kind, seed, number):
    """Returns a link of a kind as TOML."""
    draw = random.Random(f"moving {kind} {seed} {number}")
    keys = []
    for way, suffix in (("down", ""), ("up", "_up")):
        rate = between(draw, 5e3, 5e4)
        keys += [f'rate{suffix} = "{rate:.0f} kbps"', f'queue{suffix} = "{draw.randint(50, 200)} packets"']
        text = variation(kind, rate, draw)
        keys += [f"rate_variation_{way} = {text}"] if text else []
    return "\n".join([f'title = "{kind}"', f"seed = {1 + 100 * (1000 * seed + number)}", "[hosts.near]", "[hosts.far]", *WIRES, "[links.hop]",
                      'between = ["behind", "before"]', f'delay = "{between(draw, 5, 50):.3f} ms"', *keys,
                      "[flows.unused]", 'from = "far"', 'to = "near"', "size = 1"]) + "\n"


def measure(args, folder, text):
    """Returns the probe's report, and the lab's."""
    return common.probed(args, folder, text, "--moving")[1:]


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--kinds", default="all", help="kinds, separated by commas (default all)")
    parser.add_argument("--links", type=int, default=1, help="links of each kind (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for kind in KINDS if args.kinds == "all" else args.kinds.split(","):
        for number in range(args.links):
            text = drawn(kind, args.seed, number)
            with tempfile.TemporaryDirectory(prefix="lasthop-probe-") as folder:
                report, lab = measure(args, folder, text)
            for way in ("down", "up"):
                moving = report[way].get("moving") or {}
                print(f"{kind} {number} {way}: {moving.get('family')}: {moving.get('summary')}; {moving.get('why')}", flush=True)
            print("  " + "; ".join(line for line in text.splitlines() if line.startswith("rate")))
            print(f"  lateness of the lab: {lab.get('lateness_us')}", flush=True)


if __name__ == "__main__":
    main()

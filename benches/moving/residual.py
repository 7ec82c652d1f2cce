#!/usr/bin/env python3
"""Compares the packets that stay lost, and the overhead, with the formulas of docs/models/two-ended-link.md.

    python3 benches/moving/residual.py                 # 30 runs of each cell: 3 minutes

400 packets a second, as of video, over a hop of 20 Mbps that loses each frame independently. `LINK-ARQ` retransmits them.
Packets that wait for no earlier one are of use for max(100 ms, 7/4 R + 20 ms), into which one round of repair fits if R
exceeds 80 ms. With m transmissions in that round, p^(1 + m) stay lost, for m p of overhead; m is the least number, 1 to 6,
for which at most 0.05 % stay lost.
"""
import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compared import ROOT, call  # noqa: E402

TARGET = 5e-4
MOST = 6
# Loss in percent, and one-way delay in ms.
CELLS = [(loss, delay) for delay in (50, 150, 280) for loss in (5, 10, 20, 29)]


def scenario(loss, delay, seconds):
    return f"""seed = 1
limit = "{seconds} s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.site]
[routers.near]
[links.internet]
between = ["server", "near"]
rate = "1 Gbps"
delay = "1 ms"
queue = "4 MiB"
[links.hop]
between = ["near", "site"]
rate = "20 Mbps"
delay = "{delay} ms"
queue = "1 MiB"
errors = {{ model = "uniform", frame_loss = {loss / 100} }}
[flows.datagrams]
from = "server"
to = "site"
app = "call"
frame_rate = 400
frame = "1100 B"
deadline = "3 s"
[base_station]
router = "near"
link = "hop"
"""


def formula(loss):
    """Returns the share that stays lost and the overhead, both as shares of the packets."""
    share = loss / 100
    count = next((count for count in range(1, MOST) if share ** (1 + count) <= TARGET), MOST)
    return share ** (1 + count), count * share


def measured(args, loss, delay):
    """Returns the share of packets that stays lost, and the retransmissions as a share of the packets."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(scenario(loss, delay, args.seconds))
        file.flush()
        told = json.loads(call(args.lasthop, "run", file.name, "--scheme", "LINK-ARQ", "--runs", str(args.runs), "--json"))
    sent, lost, again = (told["measures"][name]["mean"] for name in ("call_sent", "call_lost", "local_retransmissions"))
    return lost / sent, again / sent, lost * args.runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--runs", type=int, default=30, help="runs of each cell (default 30)")
    parser.add_argument("--seconds", type=int, default=120, help="simulated time of a run (default 120)")
    args = parser.parse_args()
    print("| loss | delay | stay lost | formula | ratio | overhead | formula | ratio |\n|--:|--:|--:|--:|--:|--:|--:|--:|")
    for loss, delay in CELLS:
        try:
            residual, overhead, lost = measured(args, loss, delay)
        except RuntimeError as error:
            sys.exit(f"error: {error}")
        expected = formula(loss)
        ratios = [f"{of / by:.2f}" for of, by in zip((residual, overhead), expected)]
        deviation = 100 / max(lost, 1) ** 0.5
        print(f"| {loss} % | {delay} ms | {residual:.2e} ± {deviation:.0f} % | {expected[0]:.2e} | {ratios[0]} | {overhead:.3f} | {expected[1]:.3f} | {ratios[1]} |", flush=True)


if __name__ == "__main__":
    main()

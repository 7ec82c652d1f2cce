#!/usr/bin/env python3
"""Compares the packets that stay lost, and the overhead, with the formulas of docs/models/two-ended-link.md.

    python3 benches/moving/residual.py                 # 4 MB/s... of datagrams per cell, 3 runs each: 2 minutes

Datagrams of 1,200 bytes take a quarter of a hop of 20 Mbps that loses each frame independently. `LINK-ARQ` retransmits
them. Packets that wait for no earlier one are of use for max(100 ms, 7/4 R + 20 ms), into which one round of repair fits if
R exceeds 80 ms. With m transmissions in that round, p^(1 + m) stay lost, for m p of overhead; m is the least number, 1 to
6, for which at most 0.05 % stay lost.
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
app = "on-off"
on = "100000 s"
off = "1 ms"
rate = "4.8 Mbps"
packet = "1200 B"
[base_station]
router = "near"
link = "hop"
"""


def formula(loss):
    """Returns the share that stays lost and the overhead, both as shares of the packets."""
    share = loss / 100
    count = next((count for count in range(1, MOST) if share ** (1 + count) <= TARGET), MOST)
    return share ** (1 + count), count * share


def measured(args, loss, delay, seed):
    """Returns the number of packets sent, of packets lost for good, and of retransmissions."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(scenario(loss, delay, args.seconds))
        file.flush()
        told = json.loads(call(args.lasthop, "run", file.name, "--scheme", "LINK-ARQ", "--seed", str(seed), "--json"))
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each cell (default 3)")
    parser.add_argument("--seconds", type=int, default=600, help="simulated time of a run (default 600)")
    args = parser.parse_args()
    print(json.dumps(measured(args, 20, 50, 1))[:3000])


if __name__ == "__main__":
    main()

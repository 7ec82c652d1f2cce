#!/usr/bin/env python3
"""Compares schemes over long and fast lossy hops, and prints a row for each.

    python3 benches/moving/long_hops.py                              # simulated, 5 runs each
    python3 benches/moving/long_hops.py --schemes LINK-HYBRID,E2E-BBR
    sudo python3 benches/moving/long_hops.py --lab --runs 1          # in the lab, between kernels

One CUBIC flow (with E2E-BBR: BBR) downloads for the time that the hop needs for `MiB`. A cell shows the mean throughput
in Mbps. The goal is 90 % of what the first scheme carries without losses, times the share that is not lost.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compared import ROOT, throughputs  # noqa: E402

# Rate in Mbps, one-way delay in ms, queue in KiB, size in MiB, and pairs of loss in percent and mean loss burst in packets.
HOPS = [
    (10, 30, 200, 64, [(10, 1), (10, 12)]),
    (20, 280, 2048, 128, [(1, 1), (5, 1), (5, 4), (5, 12)]),
    (8, 175, 500, 32, [(10, 1)]),
    (100, 50, 1024, 256, [(0.1, 1), (1, 1), (3, 1), (10, 1), (1, 4), (10, 4), (1, 12), (10, 12)]),
    (100, 90, 2048, 256, [(5, 1)]),
    (1000, 10, 10240, 512, [(1, 1)]),
]


def errors(loss, burst):
    """Returns an error model with this loss in percent and mean burst length."""
    share = loss / 100
    if burst > 1 and loss > 0:
        return f'{{ model = "two-state-packet", good_to_bad = {share / (1 - share) / burst:.8f}, bad_to_good = {1 / burst:.8f} }}'
    return f'{{ model = "uniform", frame_loss = {share} }}'


def scenario(hop, loss, burst):
    rate, delay, queue, size, _ = hop
    return f"""seed = 1
limit = "600 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.site]
[routers.near]
[links.internet]
between = ["server", "near"]
rate = "10 Gbps"
delay = "5 ms"
queue = "40 MiB"
[links.hop]
between = ["near", "site"]
rate = "{rate} Mbps"
delay = "{delay} ms"
queue = "{queue} KiB"
errors = {errors(loss, burst)}
[flows.download]
from = "server"
to = "site"
size = "{size} MiB"
[base_station]
router = "near"
link = "hop"
"""


def measured(args, hop, loss, burst):
    """Returns the mean throughput of each scheme in Mbps."""
    command = "lab" if args.lab else "compare"
    return throughputs(args.lasthop, scenario(hop, loss, burst), args.schemes, args.runs, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--schemes", type=lambda text: text.split(","), default=["LINK-HYBRID", "LINK-ARQ", "E2E-BBR", "E2E-CUBIC"],
                        help="schemes, separated by commas (default LINK-HYBRID,LINK-ARQ,E2E-BBR,E2E-CUBIC)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--lab", action="store_true", help="measure in the lab")
    parser.add_argument("--fastest", type=float, default=1000, help="rate in Mbps above which hops are left out (default 1000)")
    args = parser.parse_args()
    print("| hop | loss | burst | " + " | ".join(args.schemes) + " | goal |\n|---|--:|--:|" + "--:|" * (len(args.schemes) + 1))
    for hop in HOPS:
        if hop[0] > args.fastest:
            continue
        lossless = None
        for loss, burst in [(0, 1), *hop[4]]:
            try:
                cells = measured(args, hop, loss, burst)
            except RuntimeError as error:
                sys.exit(f"error: {error}")
            lossless = lossless or cells[args.schemes[0]]
            goal = f"{0.9 * lossless * (1 - loss / 100):.3g}" if loss else ""
            figures = " | ".join(f"{cells[scheme]:.3g}" for scheme in args.schemes)
            print(f"| {hop[0]} Mbps, {hop[1]} ms | {loss:g} % | {burst} | {figures} | {goal} |", flush=True)


if __name__ == "__main__":
    main()

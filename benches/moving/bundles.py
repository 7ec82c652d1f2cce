#!/usr/bin/env python3
"""Compares a tunnel over two links with the better one alone, over 16 public profiles, and prints a row for each.

    python3 benches/moving/bundles.py                             # 200 MB, one CUBIC flow, 3 runs each
    python3 benches/moving/bundles.py --size "20 MiB" --flows 16
    python3 benches/moving/bundles.py --rate auto --app quic

The profiles are those of mqvpn's report of 18 June 2026 (github.com/mp0rta/mqvpn, benchmarks/bench_env_setup.sh). A
cell shows the mean throughput of all flows in Mbps; `single` is LINK-HYBRID on the better link, and `goal` applies to one
flow of 200 MB: most of the sum of the rates, less where delays differ much. A QUIC stream has a window of 16 MiB, since
the simulator's default of 1250 kB is a window of 100 Mbps over 100 ms.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compared import ROOT, throughputs  # noqa: E402

# Name, goal in Mbps, and for each link: delay and standard deviation in ms, loss in percent, rate in Mbps.
PROFILES = [
    ("baseline", 80, (20, 0, 0, 50), (20, 0, 0, 50)),
    ("rtt_40", 80, (20, 0, 0, 50), (40, 0, 0, 50)),
    ("rtt_70", 78, (20, 0, 0, 50), (70, 0, 0, 50)),
    ("rtt_120", 75, (20, 0, 0, 50), (120, 0, 0, 50)),
    ("rtt_320", 60, (20, 0, 0, 50), (320, 0, 0, 50)),
    ("jit_5", 80, (20, 5, 0, 50), (20, 5, 0, 50)),
    ("jit_20", 75, (20, 20, 0, 50), (20, 20, 0, 50)),
    ("loss_05", 80, (20, 0, 0.5, 50), (20, 0, 0.5, 50)),
    ("loss_2", 78, (20, 0, 2, 50), (20, 0, 2, 50)),
    ("bw_4to1", 50, (20, 0, 0, 50), (20, 0, 0, 12)),
    ("bw_10to1", 88, (20, 0, 0, 100), (20, 0, 0, 10)),
    ("dual_lte", 52, (30, 5, 0.5, 40), (45, 8, 0.5, 25)),
    ("fiber_lte", 265, (8, 0, 0, 300), (40, 8, 0.5, 30)),
    ("lte_starlink", 112, (35, 8, 0, 40), (50, 25, 1, 100)),
    ("lte_geo", 42, (35, 0, 0, 40), (320, 20, 0.5, 20)),
    ("congested", 27, (50, 20, 2, 20), (60, 25, 2, 15)),
]


def link(name, delay, deviation, loss, rate):
    mean = min(delay, 5 * deviation)
    text = f"""[links.{name}]
between = ["near", "far"]
rate = "{rate} Mbps"
delay = "{delay - mean} ms"
queue = "1000 packets"
"""
    if deviation:
        text += f'delay_variation = {{ model = "normal", mean = "{mean} ms", deviation = "{deviation} ms", order = "free" }}\n'
    if loss:
        text += f'errors = {{ model = "uniform", frame_loss = "{loss} %" }}\n'
    return text


def scenario(args, first, second, base):
    app = f'app = "quic"\nstream_window = "{args.stream_window}"\n' if args.app == "quic" else ""
    size = args.size
    flows = "".join(f'[flows.download-{n}]\nfrom = "server"\nto = "site"\nsize = "{size}"\n{app}' for n in range(args.flows))
    return f"""seed = {args.seed}
limit = "600 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.site]
[routers.near]
[routers.far]
[links.internet]
between = ["server", "near"]
rate = "10 Gbps"
delay = "0.1 ms"
queue = "40 MiB"
{link("a", *first)}{link("b", *second)}[links.lan]
between = ["far", "site"]
rate = "10 Gbps"
delay = "0.1 ms"
queue = "40 MiB"
[bundles.both]
links = ["a", "b"]
{flows}[base_station]
router = "near"
link = "{base}"
two_ended.rate = "{args.rate}"
"""


def measured(args, profile, schemes, base):
    """Returns the mean throughput of each scheme in Mbps."""
    _, _, first, second = profile
    return throughputs(args.lasthop, scenario(args, first, second, base), schemes, args.runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--profiles", type=lambda text: text.split(","), help="names of profiles, separated by commas (default all)")
    parser.add_argument("--size", default="200 MB", help="size of each flow (default 200 MB)")
    parser.add_argument("--flows", type=int, default=1, help="number of flows at once (default 1)")
    parser.add_argument("--app", choices=["tcp", "quic"], default="tcp", help="transport (default tcp: CUBIC)")
    parser.add_argument("--stream-window", default="16 MiB", help="receive window of a QUIC stream (default 16 MiB)")
    parser.add_argument("--rate", default="link", help="sending rate of the ends: link or auto (default link)")
    parser.add_argument("--seed", type=int, default=1, help="seed (default 1)")
    parser.add_argument("--runs", type=int, default=3, help="runs for each cell (default 3)")
    args = parser.parse_args()
    print(f"{'profile':14} {'sum':>5} {'single':>8} {'multi':>8} {'goal':>6}")
    failed = 0
    for profile in PROFILES:
        name, goal, first, second = profile
        if args.profiles and name not in args.profiles:
            continue
        multi = measured(args, profile, ["LINK-MULTI"], "a")["LINK-MULTI"]
        single = max(measured(args, profile, ["LINK-HYBRID"], base)["LINK-HYBRID"] for base in "ab")
        good = multi >= goal and multi >= single
        failed += not good
        print(f"{name:14} {first[3] + second[3]:5} {single:8.1f} {multi:8.1f} {goal:6}{'' if good else '  below'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares schemes with plain CUBIC over links whose rate moves, in the simulator: nothing may be worse with a cure.

Links are drawn by number: Markov chains, ramps, outages and a satellite terminal's slots, with --traces also traces of
mahimahi; 5 to 50 Mbps, 2 to 40 ms one way, queues of 50 to 1000 packets, losses of 0 to 3 %, downloads and uploads.

    benches/moving/moving.py                                   # 60 links, the gateway's snoop and split
    benches/moving/moving.py --links 0-24 --schemes LINK-HYBRID --set 'base_station.two_ended.rate="auto"'
    benches/moving/moving.py --traces ~/mahimahi/traces --json figures.json

A scheme is worse if it has less than 97 % of the throughput, or where throughput is not higher by a tenth, if the 95th
percentile of the round trip is more than 1.1 times that of CUBIC.
"""
import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE = "E2E-CUBIC"
LEAST_THROUGHPUT = 0.97
MOST_DELAY = 1.1
# With so much more throughput, a longer round trip is a trade.
GAIN = 1.1
# Seconds that a transfer takes at the mean rate.
SECONDS = 20

SCENARIO = """limit = "300 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.user]
[routers.access]
[links.internet]
between = ["server", "access"]
rate = "1 Gbps"
delay = "{wire:.1f} ms"
queue = "4 MiB"
[links.radio]
between = ["access", "user"]
rate = "{rate} Mbps"
rate_up = "{rate_up} Mbps"
delay = "{delay} ms"
queue = "{queue} packets"
{variation}
[flows.transfer]
from = "{source}"
to = "{sink}"
size = "{size} KiB"
[base_station]
router = "access"
link = "radio"
"""


def markov(draw, rate):
    states = ", ".join(f'{{ rate = "{rate * 10 ** draw.uniform(-1, 0):.2f} Mbps", mean = "{draw.choice([0.2, 1, 3])} s" }}' for _ in range(draw.randint(2, 4)))
    return "Markov", f'rate_variation = {{ model = "markov", states = [{states}] }}', rate / 2


def ramp(draw, rate):
    seconds = draw.choice([2, 4, 8])
    points = ", ".join(f'{{ at = "{at} s", rate = "{value} Mbps" }}' for at, value in ((0, rate), (seconds, rate / 8), (2 * seconds, rate)))
    return "ramp", f'rate_variation = {{ model = "ramp", wrap = "repeat", points = [{points}] }}', rate * 0.55


def outages(draw, rate):
    states = f'{{ rate = "{rate} Mbps", mean = "{draw.choice([2, 5])} s" }}, {{ rate = "0 bps", mean = "{draw.choice([0.1, 0.5, 1])} s" }}'
    return "outages", f'rate_variation = {{ model = "markov", hold = "fixed", states = [{states}] }}', rate * 0.85


def slots(draw, rate):
    first = draw.choice([2, 4, 7])
    return "slots", (f'rate_variation = {{ model = "slots", first = "{first} s" }}\n'
                     f'delay_variation = {{ model = "handover", period = "15 s", first = "{first} s", jump = "10 ms" }}'), rate


def trace_of(folder):
    """Returns a model that draws one of the traces in a folder: pairs of NAME.down and NAME.up."""
    names = sorted(path.removesuffix(".down") for path in glob.glob(os.path.join(folder, "*.down")) if os.path.exists(path.removesuffix("down") + "up"))
    if not names:
        sys.exit(f"moving.py: --traces {folder}: no pair of NAME.down and NAME.up")

    def trace(draw, rate):
        del rate
        name = os.path.abspath(draw.choice(names))
        with open(name + ".down", encoding="ascii") as file:
            times = file.read().split()
        both = "\n".join(f'rate_variation_{way} = {{ model = "replay", format = "mahimahi", file = "{name}.{way}", offset = "random" }}' for way in ("down", "up"))
        return os.path.basename(name), both, len(times) * 1504 * 8e-3 / int(times[-1])
    return trace


def link(number, models):
    """Returns a description of a link, and its scenario."""
    draw = random.Random(number)
    rate, delay, queue, loss = draw.choice([5, 10, 20, 50]), draw.choice([2, 5, 11, 20, 40]), draw.choice([50, 200, 1000]), draw.choice([0, 0, 0.1, 1, 3])
    name, variation, mean = draw.choice(models)(draw, rate)
    if loss:
        variation += f'\nerrors = {{ model = "uniform", frame_loss = "{loss} %" }}'
    is_upload = draw.random() < 0.25
    source, sink = ("user", "server") if is_upload else ("server", "user")
    text = SCENARIO.format(wire=draw.uniform(2, 40), rate=rate, rate_up=rate if is_upload else max(1, rate / 4), delay=delay, queue=queue, variation=variation,
                           source=source, sink=sink, size=int(mean * 1e6 / 8 * SECONDS / 1024))
    return f"{name}, {rate} Mbps, {delay} ms, {queue} packets, {loss} %{', upload' if is_upload else ''}", text


def measured(args, number, models):
    """Returns the figures of a link for each scheme in relation to the base."""
    about, text = link(number, models)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        command = [args.lasthop, "compare", file.name, "--json", "--runs", str(args.runs), "--schemes", ",".join([BASE, *args.schemes])]
        done = subprocess.run([*command, *(word for given in args.set for word in ("--set", given))], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"moving.py: link {number}: {done.stderr.strip()}")
    figures = {}
    for row in json.loads(done.stdout)["schemes"]:
        # A transfer that ends before its limit has both.
        figures[row["scheme"]] = [row["measures"][name]["mean"] for name in ("throughput", "rtt_p95")]
    base = figures.pop(BASE)
    ratios = {scheme: {"throughput": found[0] / base[0], "rtt_p95": found[1] / base[1]} for scheme, found in figures.items()}
    return {"link": number, "about": about, "mbps": base[0], "rtt_p95_ms": base[1], "schemes": ratios}


def verdict(ratio):
    if ratio["throughput"] < LEAST_THROUGHPUT:
        return "SLOWER"
    return "LATER" if ratio["throughput"] < GAIN and ratio["rtt_p95"] > MOST_DELAY else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")), help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    parser.add_argument("--links", default="0-60", help="numbers of the links, the last excluded (default 0-60)")
    parser.add_argument("--runs", type=int, default=6, help="runs of each (default 6)")
    parser.add_argument("--schemes", default="SNOOP,SPLIT-BBR", help="separated by commas (default SNOOP,SPLIT-BBR)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value for all scenarios; repeat as needed")
    parser.add_argument("--traces", metavar="FOLDER", help="traces of mahimahi, pairs of NAME.down and NAME.up")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    first, _, last = args.links.partition("-")
    if not (first.isdigit() and last.isdigit() and int(first) < int(last)):
        parser.error(f"--links {args.links}: two numbers such as 0-60")
    args.schemes = args.schemes.split(",")
    models = [markov, ramp, outages, slots, *([trace_of(args.traces)] if args.traces else [])]
    found = []
    for number in range(int(first), int(last)):
        found.append(one := measured(args, number, models))
        cells = [f"{scheme} {ratio['throughput']:.2f}, rtt {ratio['rtt_p95']:.2f} {verdict(ratio)}".strip() for scheme, ratio in one["schemes"].items()]
        print(f"{number} {one['about']}: {one['mbps']:.2f} Mbps, {one['rtt_p95_ms']:.0f} ms | " + " | ".join(cells), flush=True)
    for scheme in args.schemes:
        verdicts = [verdict(one["schemes"][scheme]) for one in found]
        print(f"{scheme}: {len(found)} links, slower on {verdicts.count('SLOWER')}, later on {verdicts.count('LATER')}; "
              f"least throughput {min(one['schemes'][scheme]['throughput'] for one in found):.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()

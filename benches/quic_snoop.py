#!/usr/bin/env python3
"""Measures the repair of QUIC by one device (scheme QUIC-SNOOP) beside the untreated connection, in the simulator.

    benches/quic_snoop.py grid                      # 10 Mbps and 25 ms, then hops of 2 to 20 ms with 0 to 3 % loss
    benches/quic_snoop.py hops --links 0-60         # random hops: jitter, policers, reordering, small queues
    benches/quic_snoop.py moving --links 0-60       # links whose rate moves, as in benches/moving/moving.py
    benches/quic_snoop.py hops --csv hops.csv       # a row per link and scheme; a second call measures the rest

Each link is drawn from its number: the same number is the same link everywhere. A link has one download in bulk, or
40 requests of a web page's size at fixed times. The repair is worse if it has less than 97 % of the throughput, or if
the 95th percentile of the time of a request is more than 1.05 times that without it.
"""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "benches", "moving"))
import moving  # noqa: E402

BASE, REPAIR = "E2E-CUBIC", "QUIC-SNOOP"
LEAST_THROUGHPUT = 0.97
MOST_TIME = 1.05
FIELDS = ("kind", "link", "runs", "about", "scheme", "mbps", "p95_s", "repeats")
REQUESTS = 40

SCENARIO = """limit = "300 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.client]
[routers.proxy]
[links.wired]
between = ["server", "proxy"]
rate = "{wire_rate} Mbps"
delay = "{wire} ms"
queue = "{wire_queue}"
[links.radio]
between = ["proxy", "client"]
rate = "{rate} Mbps"
rate_up = "{rate_up} Mbps"
delay = "{delay} ms"
queue = "{queue} packets"
{more}
[flows.download]
from = "client"
to = "server"
app = "quic"
request = "100 B"
response = "{response}"
{flows}
[base_station]
router = "proxy"
link = "radio"
"""


def losses(percent, run):
    """Returns the errors of a link: independent losses, or runs of this mean length."""
    if not percent:
        return '{ model = "none" }'
    if run <= 1:
        return f'{{ model = "uniform", frame_loss = "{percent} %" }}'
    loss = percent / 100
    return f'{{ model = "two-state-packet", good_to_bad = {loss / (1 - loss) / run:.8f}, bad_to_good = {1 / run:.8f} }}'


def grid():
    """Yields the cells of the table: a name and a scenario."""
    for percent, run in ((0, 1), (1, 1), (3, 1), (1, 4), (3, 4)):
        for rtt in (2, 4, 10, 20):
            more = f"errors = {losses(percent, run)}"
            about = f"{rtt} ms, {percent} %" + (f", runs of {run}" if run > 1 else "")
            yield about, SCENARIO.format(wire_rate=10, wire=25, wire_queue="65000 B", rate=100, rate_up=100, delay=rtt / 2, queue=1000, more=more, response="20 MB", flows="")


def requests(draw):
    """Returns keys of a flow: one download, or requests at fixed times, with their response."""
    if draw.random() < 0.5:
        return f"{draw.choice([2, 5, 10])} MB", ""
    return f"{draw.choice([20, 60, 200])} KB", f'count = {REQUESTS}\nspacing = "{draw.choice([100, 300, 1000])} ms"'


def hop(number):
    """Returns a random hop."""
    draw = random.Random(f"quic-snoop {number}")
    rate, rtt = draw.choice([2, 5, 10, 20, 50, 100]), draw.choice([1, 2, 4, 8, 10, 15, 20, 30, 60])
    percent, run = draw.choice([0, 0, 0.1, 0.5, 1, 3, 5]), draw.choice([1, 1, 4])
    wire_rate, wire, queue = draw.choice([5, 10, 20, 50, 1000]), draw.choice([5, 10, 25, 50]), draw.choice([5, 20, 50, 200, 1000])
    more, about = [f"errors = {losses(percent, run)}"], [f"{rate} Mbps", f"{rtt} ms", f"{percent} %", f"{queue} packets", f"wire {wire_rate} Mbps, {wire} ms"]
    if run > 1 and percent:
        about.append(f"runs of {run}")
    jitter = draw.choice([0, 0, 0.5, 1, 2, 4])
    if jitter:
        order = draw.choice(["kept", "kept", "free"])
        more.append(f'delay_variation_up = {{ model = "exponential", mean = "{jitter} ms", order = "{order}" }}')
        about.append(f"jitter {jitter} ms, order {order}")
    if draw.random() < 0.15:
        more.append('delay_variation_down = { model = "jitter", up_to = "3 ms", order = "free" }')
        about.append("data reordered")
    if draw.random() < 0.15:
        policed = max(1, rate // 2)
        more.append(f'policer_down = {{ rate = "{policed} Mbps", burst = "{draw.choice([16, 64])} KiB" }}')
        about.append(f"policer {policed} Mbps")
    response, flows = requests(draw)
    about.append(response + (", " + flows.replace("\n", ", ") if flows else ""))
    rate_up = rate if draw.random() < 0.5 else max(1, rate // 4)
    wire_queue = f"{max(3000, int(wire_rate * 1e6 / 8 * draw.choice([0.02, 0.05, 0.2])))} B"
    text = SCENARIO.format(wire_rate=wire_rate, wire=wire, wire_queue=wire_queue, rate=rate, rate_up=rate_up, delay=rtt / 2, queue=queue, more="\n".join(more), response=response, flows=flows)
    return ", ".join(about), text


def moving_link(number):
    """Returns the link of benches/moving/moving.py with this number, with a download over QUIC."""
    about, text = moving.link(number, [moving.markov, moving.ramp, moving.outages, moving.slots])
    head, flow = text.split("[flows.transfer]\n")
    size = flow.split('size = "')[1].split('"')[0]
    is_upload = 'from = "user"' in flow
    source, sink = ("server", "user") if is_upload else ("user", "server")
    work = f'from = "{source}"\nto = "{sink}"\napp = "quic"\nrequest = "100 B"\nresponse = "{size}"\n'
    return about, f"{head}[flows.transfer]\n{work}[base_station]" + flow.split("[base_station]")[1]


def measure(args, text):
    """Returns throughput in Mbps, the 95th percentile of requests' times in seconds, and datagrams resent by the device,
    of each scheme."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        command = [args.lasthop, "compare", file.name, "--json", "--runs", str(args.runs), "--seed", str(args.seed), "--schemes", ",".join(args.schemes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"quic_snoop.py: {done.stderr.strip()}\n{text}")
    found = {}
    for row in json.loads(done.stdout)["schemes"]:
        times = sorted(1 / flow["measures"]["throughput"]["mean"] for flow in row["flows"] if flow["measures"]["throughput"]["mean"])
        if len(times) > 1:
            at = min(len(times) - 1, int(0.95 * len(times)))
            slow = times[at]
        else:
            slow = times[0] if times else float("inf")
        name = "total_throughput" if "total_throughput" in row["measures"] else "throughput"
        # The time of a request in proportion: all have one size.
        repeats = row["measures"].get("local_retransmissions", {}).get("mean", 0)
        found[row["scheme"]] = (row["measures"][name]["mean"], slow, repeats)
    return found


def verdict(base, own, has_requests):
    slower = own[0] < LEAST_THROUGHPUT * base[0] and not has_requests
    later = own[1] > MOST_TIME * base[1] and has_requests
    return "SLOWER" if slower else "LATER" if later else ""


def cells(args):
    if args.what == "grid":
        return list(enumerate(grid()))
    first, last = (int(word) for word in args.links.split("-"))
    draw = hop if args.what == "hops" else moving_link
    return [(number, draw(number)) for number in range(first, last)]


def stored(args):
    """Returns the rows of the file, by link and scheme."""
    rows = {}
    if args.csv and os.path.exists(args.csv):
        with open(args.csv, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["kind"] == args.what and int(row["runs"]) == args.runs:
                    rows[int(row["link"]), row["scheme"]] = (float(row["mbps"]), float(row["p95_s"]), float(row["repeats"]))
    return rows


def keep(args, number, about, found):
    if not args.csv:
        return
    is_new = not os.path.exists(args.csv)
    with open(args.csv, "a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(FIELDS)
        for scheme, (mbps, slow, repeats) in found.items():
            writer.writerow((args.what, number, args.runs, about, scheme, f"{mbps:.4f}", f"{slow:.6f}", f"{repeats:.1f}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grid", "hops", "moving"))
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")), help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    parser.add_argument("--links", default="0-60", help="numbers of the links, the last excluded (default 0-60)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemes", type=lambda word: word.split(","), default=[BASE, REPAIR])
    parser.add_argument("--csv", help="file of the results; what it has is not measured again")
    args = parser.parse_args()
    known, worse, ratios, begun = stored(args), 0, [], time.monotonic()
    todo = cells(args)
    for place, (number, (about, text)) in enumerate(todo):
        found = {scheme: known[number, scheme] for scheme in args.schemes if (number, scheme) in known}
        if len(found) < len(args.schemes):
            found = measure(args, text)
            keep(args, number, about, found)
        base, own = found[args.schemes[0]], found[args.schemes[-1]]
        said = verdict(base, own, "count = " in text)
        worse += bool(said)
        ratios.append(own[0] / base[0] if base[0] else 1)
        figures = ", ".join(f"{scheme} {mbps:.2f} Mbps" for scheme, (mbps, _, _) in found.items())
        print(f"{place + 1}/{len(todo)} ({time.monotonic() - begun:.0f} s) {number}: {about}: {figures}, p95 {own[1] / base[1]:.3f}, {own[2]:.0f} repeats {said}", flush=True)
    print(f"{worse} of {len(todo)} worse; throughput ratio: median {statistics.median(ratios):.3f}, lowest {min(ratios):.3f}, highest {max(ratios):.3f}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

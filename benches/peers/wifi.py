#!/usr/bin/env python3
"""Compares lasthop's Wi-Fi with ns-3's: throughput, delays and processor time of random cells.

All stations have the same place, so that none recognises a frame in a collision. A cell has stations that send datagrams to their access point, or receive them from it, at fixed rates and a fixed MCS.
Needs ns-3 as a Python wheel (`pip download --no-deps ns3`, unpacked) and a C++ compiler.

    python3 benches/peers/wifi.py --ns3 DIR                    # 10 random cells; DIR contains ns3/include and ns3/lib64
    python3 benches/peers/wifi.py --ns3 DIR --cells 40 --seed 7

A cell agrees if the throughput is within 5 % and the delays' percentiles (50, 95, 99) are within 10 % or 50 µs, over all
runs. Exits with status 1 if fewer than 9 of 10 cells agree. Delays are not compared where ns-3 does not deliver 99 % of
the load: the queue's limit decides them. Runs of ns-3 that deliver nothing (no block acknowledgment was agreed) are
repeated with another seed.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARIES = ("wifi", "network", "core", "mobility", "propagation", "antenna", "spectrum")
QUEUE = 500
OFDM = (6, 9, 12, 18, 24, 36, 48, 54)
LARGEST = {"a": 0, "n": 65_535, "ac": 1_048_575, "ax": 6_500_631}


def fail(message):
    sys.exit(f"error: {message}")


def build(folder, output):
    include, lib = (os.path.join(folder, "ns3", name) for name in ("include", "lib64"))
    if not os.path.isdir(include):
        fail(f"{include} does not exist; unpack ns-3's wheel there: pip download --no-deps ns3 && unzip ns3-*.whl")
    names = sorted(name for name in os.listdir(lib) if name.startswith("libns3") and name.endswith("-wifi.so"))
    if not names:
        fail(f"{lib} contains no libns3*-wifi.so")
    prefix = names[0][len("lib"):-len("wifi.so")]
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-I", include, os.path.join(HERE, "ns3_wifi.cc"), "-o", output, "-L", lib, f"-Wl,-rpath,{os.path.abspath(lib)}"]
        + [f"-l{prefix}{name}" for name in LIBRARIES], check=True)


def draw(random_, number):
    """Returns a random cell."""
    standard = random_.choice(("a", "n", "ac", "ax"))
    width = random_.choice({"a": (20,), "n": (20, 40), "ac": (20, 40, 80), "ax": (20, 40, 80)}[standard])
    streams = 1 if standard == "a" else random_.choice((1, 2))
    most = {"a": 7, "n": 7, "ac": 8, "ax": 11}[standard]
    return {
        "number": number, "standard": standard, "width": width, "streams": streams, "mcs": random_.randint(0, most),
        "stations": random_.choice((1, 2, 3, 5, 10)), "down": random_.random() < 0.5, "size": random_.choice((200, 600, 1500)),
        "loss": random_.choice((0, 0, 0.05, 0.2)), "load": random_.choice((0.3, 0.5, 0.7, 1.5)),
        "rts": random_.choice((None, None, 500)),
    }


def scenario(cell, mbps, seconds):
    """Returns the cell as a scenario."""
    names = [f"s{index}" for index in range(cell["stations"])]
    wifi = [f'standard = "{cell["standard"]}"', f'width = "{cell["width"]} MHz"', f'streams = {cell["streams"]}', f'frame_loss = {cell["loss"]}',
            f'mcs = {cell["mcs"]}', 'turns = "arrival"', 'eifs = "off"']
    if cell["rts"]:
        wifi.append(f'rts = "{cell["rts"]} B"')
    lines = [f'limit = "{seconds} s"', "[hosts.server]", *(f"[hosts.{name}]" for name in names), "[routers.ap]",
             '[links.wire]\nbetween = ["server", "ap"]\nrate = "100 Gbps"\ndelay = "0 s"\nqueue = "100000 packets"']
    # The sources start one after the other, as ns-3's do.
    interval = cell["size"] * 8 / (mbps * 1e6)
    for index, name in enumerate(names):
        start = round(interval * index / len(names) * 1e9)
        ends = ("server", name) if cell["down"] else (name, "ap")
        lines += [f'[links.{name}]\nbetween = ["ap", "{name}"]\nmedium = "wifi"\ndelay = "0 s"\nqueue = "{QUEUE} packets"',
                  f'wifi = {{ {", ".join(wifi)} }}',
                  f'[flows.{name}]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\napp = "on-off"\non = "1000000 s"\noff = "1 ns"\nstart = "{start} ns"\nrate = "{round(mbps * 1e6)} bps"\n'
                  f'packet = "{cell["size"]} B"']
    return "\n".join(lines) + "\n"


def ours(lasthop, cell, mbps, seconds, seed):
    """Returns throughputs, delays in ms and the processor time."""
    with tempfile.TemporaryDirectory(prefix="lasthop-wifi-") as folder:
        path = os.path.join(folder, "cell.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(scenario(cell, mbps, seconds))
        before = os.times()
        done = subprocess.run([lasthop, "run", path, "--scheme", "E2E", "-n", "1", "--seed", str(seed), "--json"], capture_output=True, text=True)
        after = os.times()
    if done.returncode:
        fail(done.stderr)
    return json.loads(done.stdout), after.children_user - before.children_user


def theirs(program, cell, mbps, seconds, seed):
    channel = f"{{0,{cell['width']},BAND_5GHZ,0}}"
    mode = f"OfdmRate{OFDM[cell['mcs']]}Mbps" if cell["standard"] == "a" else f"{ {'n': 'Ht', 'ac': 'Vht', 'ax': 'He'}[cell['standard']]}Mcs{cell['mcs'] + (8 if cell['standard'] == 'n' and cell['streams'] == 2 else 0)}"
    words = [f"--standard={cell['standard']}", f"--mode={mode}", f"--channel={channel}", f"--streams={cell['streams']}", f"--stations={cell['stations']}",
             f"--size={cell['size']}", f"--largest={LARGEST[cell['standard']]}", f"--queue={QUEUE}", f"--down={int(cell['down'])}", f"--mbps={mbps}",
             f"--seconds={seconds}", f"--loss={cell['loss']}", f"--seed={seed}"]
    if cell["rts"]:
        words.append(f"--rts={cell['rts']}")
    return json.loads(subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout)


def summary(told, cell, seconds):
    """Returns the throughput of lasthop's result in Mbps, with headers, and the percentiles of the delays in ms."""
    received = sum(flow["measures"]["received"]["mean"] for flow in told["flows"])
    mbps = received * cell["size"] / (cell["size"] - 28) * 8 / seconds / 1e6
    return mbps, [told["measures"][f"one_way_delay_{name}"]["mean"] for name in ("p50", "p95", "p99")]


def peer_runs(program, cell, load, args):
    """Returns the results of ns-3 for several seeds."""
    found, seed = [], 0
    while len(found) < args.runs and seed < 5 * args.runs:
        seed += 1
        told = theirs(program, cell, load, args.seconds, seed)
        if sum(told["mbps"]) > 0:
            found.append(told)
    if not found:
        fail(f"ns-3 delivers nothing in cell {cell['number']}")
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def compare(args, program, cell):
    """Runs a cell in both programs. Returns a row, whether it agrees, and the ratio of the processor times."""
    fast, _ = ours(args.lasthop, cell, 5_000 / cell["stations"], 2, 1)
    capacity, _ = summary(fast, cell, 2)
    load = capacity * cell["load"] / cell["stations"]
    told = [ours(args.lasthop, cell, load, args.seconds, seed + 1) for seed in range(args.runs)]
    took = mean(took for _, took in told)
    told = [summary(one, cell, args.seconds) for one, _ in told]
    mbps, delays = mean(mbps for mbps, _ in told), [mean(delays[at] for _, delays in told) for at in range(3)]
    peers = peer_runs(program, cell, load, args)
    peer_mbps, peer_took = mean(sum(peer["mbps"]) for peer in peers), mean(peer["processor_s"] for peer in peers)
    peer_delays = [mean(peer["delays_ms"][at] for peer in peers) for at in range(3)]
    ratio = mbps / peer_mbps
    good, stable = abs(ratio - 1) <= 0.05, peer_mbps >= 0.99 * load * cell["stations"]
    if stable:
        good = good and all(abs(own - other) <= max(0.1 * other, 0.05) for own, other in zip(delays, peer_delays))
    words = ", ".join(f"{own:.3f} / {other:.3f}" for own, other in zip(delays, peer_delays)) + ("" if stable else " (not compared)")
    name = (f"{cell['number']}: {cell['standard']} {cell['width']} MHz, {cell['streams']} x MCS {cell['mcs']}, {cell['stations']} "
            f"{'down' if cell['down'] else 'up'}, {cell['size']} B, loss {cell['loss']}, load {cell['load']}, rts {cell['rts']}")
    row = f"| {name} | {mbps:.2f} / {peer_mbps:.2f} | {ratio:.3f} | {words} | {took:.2f} / {peer_took:.2f} s | {'agrees' if good else 'DIFFERS'} |"
    return row, good, peer_took / max(took, 0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ns3", required=True, help="folder with the unpacked wheel")
    parser.add_argument("--lasthop", default=os.path.join(ROOT, "target", "release", "lasthop"), help="program (default target/release/lasthop)")
    parser.add_argument("--cells", type=int, default=10, help="number of cells (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--seconds", type=float, default=10, help="simulated time of each (default 10)")
    args = parser.parse_args()
    random_ = random.Random(f"wifi {args.seed}")
    cells = [draw(random_, number) for number in range(args.cells)]
    with tempfile.TemporaryDirectory(prefix="lasthop-ns3-") as folder:
        program = os.path.join(folder, "wifi")
        build(args.ns3, program)
        print("| cell | Mbps: lasthop / ns-3 | ratio | delay in ms: median, 95 %, 99 % | processor | |\n|---|--:|--:|--:|--:|---|")
        results = []
        for cell in cells:
            row, good, speed = compare(args, program, cell)
            print(row, flush=True)
            results.append((good, speed))
    agree = sum(good for good, _ in results)
    speeds = sorted(speed for _, speed in results)
    print(f"\n{agree} of {len(results)} cells agree; ns-3 takes {speeds[0]:.0f} to {speeds[-1]:.0f} times the processor time, median {speeds[len(speeds) // 2]:.0f}.")
    sys.exit(0 if agree * 10 >= len(results) * 9 else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Applies the rules of ack_signal.py and flowlets.py to the traces of stacks.py.

    benches/quic/analyse.py FOLDER docs/data/quic-stacks.csv docs/data/quic-returns.csv

Writes two CSV files. The first has a row for each stack, direction, round trip of the hop, loss, jitter of the returns,
loss of returns, and rule, over all seeds; the second has the shape of the returning datagrams for each stack, direction
and loss. Traces of void runs are refused.
"""
import argparse
import collections
import concurrent.futures
import csv
import glob
import os
import sys

import ack_signal
import flowlets
import trace

# Jitter of the returning packets in ms (mean of an exponential delay that keeps their order), and whether they are lost
# as often as the data.
CONDITIONS = ((0, False), (1, False), (4, False), (0, True))
# Round trip of the wire, ms: for uploads, the returns come from behind it.
WIRE_MS = 50
# Scheduling delay of the lab that voids a run, us (99th percentile).
LATE_US = 4000
HEADS = ["stack", "version", "way", "hop_rtt_ms", "loss_percent", "jitter_ms", "return_loss_percent", "rule", "runs", "data_packets", "lost", *(f"rank_{rank}" for rank in range(1, ack_signal.CANDIDATES + 1)),
         "in_time", "steps", "hits", "elsewhere", "chance", "known_p50_ms", "known_p90_ms"]
SHAPE_HEADS = ["stack", "version", "way", "loss_percent", "runs", "late_p99_us", "mbps", "data_packets", "returns", "bare", "changes_by_1", "rises_by_2", "bursts", "alone", "prompt", "lengths"]
SHOWN = 8


def of_trace(path):
    """Returns the facts about a run, the shape of its returns, its goodput in Mbps, and outcomes by condition and rule."""
    about, packets = trace.read(path)
    if float(about["late_p99_us"]) > LATE_US or about["void"] != "None":
        raise ValueError(f"{path}: the run is void: scheduling delay of {about['late_p99_us']} us (99 %); remove the file and run stacks.py again")
    configured = (float(about["hop_rtt_ms"]) + (WIRE_MS if about["way"] == "up" else 0)) * 1000
    outcomes = {}
    emulated = float(about.get("return_jitter_ms", 0))
    for jitter, lossy in CONDITIONS:
        loss = float(about["loss_percent"]) / 100 if lossy else 0.0
        seen = ack_signal.view(packets, configured, jitter, loss, int(about["seed"]), emulated)
        placebo = ack_signal.chance(seen)
        for rule in ack_signal.RULES:
            outcomes[jitter, lossy, rule] = ack_signal.judge(seen, rule, placebo)
        outcomes[jitter, lossy, "flowlets"] = flowlets.judge(seen)
    span = packets[-1].time - packets[0].time
    mbps = sum(packet.length for packet in packets if packet.kind == ">") * 8 / span
    return about, ack_signal.shape(packets, configured), mbps, outcomes


def percentile(values, share):
    """Returns a percentile in ms of ordered values in us; empty if there are none."""
    return f"{values[min(len(values) - 1, int(share * len(values)))] / 1000:.1f}" if values else ""


def row(key, results, condition):
    """Returns a row of the first file: outcomes of the same cell over all seeds."""
    jitter, lossy, rule = condition
    parts = [outcomes[condition] for _, _, _, outcomes in results]
    ranks, delays = (sorted(value for part in parts for value in getattr(part, name)) for name in ("ranks", "delays"))
    count = collections.Counter(ranks)
    data = sum(shape["data"] for _, shape, _, _ in results)
    weight = sum(part.placebo * shape["bare"] for part, (_, shape, _, _) in zip(parts, results)) / max(1, sum(shape["bare"] for _, shape, _, _ in results))
    stack, way, rtt, loss = key
    return [stack, results[0][0]["version"], way, rtt, loss, jitter, loss if lossy else 0, rule, len(results), data, sum(part.lost for part in parts),
            *(count[rank] for rank in range(1, ack_signal.CANDIDATES + 1)), sum(part.in_time for part in parts), sum(part.steps for part in parts), sum(part.hits for part in parts),
            sum(part.elsewhere for part in parts), f"{weight:.3f}", percentile(delays, 0.5), percentile(delays, 0.9)]


def shape_row(key, results):
    """Returns a row of the second file: shapes over all round trips and seeds."""
    stack, way, loss = key
    total, lengths = collections.Counter(), collections.Counter()
    for _, shape, _, _ in results:
        lengths += shape["lengths"]
        total += collections.Counter({name: value for name, value in shape.items() if name != "lengths"})
    shown = " ".join(f"{length}:{count}" for length, count in sorted(lengths.items(), key=lambda one: (-one[1], one[0]))[:SHOWN])
    late = max(float(about["late_p99_us"]) for about, _, _, _ in results)
    mbps = sum(mbps for _, _, mbps, _ in results) / len(results)
    return [stack, results[0][0]["version"], way, loss, len(results), f"{late:.0f}", f"{mbps:.2f}", total["data"], total["returns"], total["bare"],
            total["changes_1"], total["rises"], total["bursts"], total["alone"], total["prompt"], shown]


def write(path, heads, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder of traces")
    parser.add_argument("outcomes", help="file for the outcomes of the rules")
    parser.add_argument("shapes", help="file for the shapes of the returning datagrams")
    parser.add_argument("--jobs", type=int, default=1, help="traces at a time (default 1)")
    args = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(args.folder, "*.csv")))
    if not paths:
        sys.exit(f"analyse.py: {args.folder}: no traces; stacks.py writes them")
    cells, shapes = collections.defaultdict(list), collections.defaultdict(list)
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        for done, result in enumerate(pool.map(of_trace, paths), 1):
            about = result[0]
            cells[about["stack"], about["way"], float(about["hop_rtt_ms"]), float(about["loss_percent"])].append(result)
            shapes[about["stack"], about["way"], float(about["loss_percent"])].append(result)
            if done % 20 == 0 or done == len(paths):
                print(f"{done}/{len(paths)} traces", file=sys.stderr, flush=True)
    tidy = lambda key: tuple(f"{part:g}" if isinstance(part, float) else part for part in key)  # noqa: E731
    conditions = [(jitter, lossy, rule) for jitter, lossy in CONDITIONS for rule in (*ack_signal.RULES, "flowlets")]
    write(args.outcomes, HEADS, [row(tidy(key), cells[key], condition) for key in sorted(cells) for condition in conditions if key[3] or not condition[1]])
    write(args.shapes, SHAPE_HEADS, [shape_row(tidy(key), shapes[key]) for key in sorted(shapes)])


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"analyse.py: {error}")

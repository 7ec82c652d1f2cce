#!/usr/bin/env python3
"""Cuts short traces, one per stack, out of those of stacks.py: input for simulated devices that infer losses.

    benches/quic/excerpts.py FOLDER docs/data/quic-returns

Each excerpt has PACKETS packets of a download over a hop of 10 ms with 1 % loss: those with the most losses, later than
START_US after the first packet. Times begin at 0.
"""
import argparse
import glob
import os
import sys

import trace

PACKETS = 1200
START_US = 4_000_000
PATTERN = "*-down-10-1-1.csv"


def excerpt(packets):
    """Returns PACKETS successive packets with the most losses, the first of such windows; times from 0."""
    late = [packet for packet in packets if packet.time >= packets[0].time + START_US]
    lost = [0]
    for packet in late:
        lost.append(lost[-1] + (packet.kind == "x"))
    last = max(0, len(late) - PACKETS)
    first = max(range(last + 1), key=lambda at: lost[min(at + PACKETS, len(late))] - lost[at])
    part = late[first:first + PACKETS]
    return [packet._replace(time=packet.time - part[0].time) for packet in part]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder of traces")
    parser.add_argument("out", help="folder for the excerpts")
    args = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(args.folder, PATTERN)))
    if not paths:
        sys.exit(f"excerpts.py: {args.folder}: no traces {PATTERN}; stacks.py writes them")
    os.makedirs(args.out, exist_ok=True)
    for path in paths:
        about, packets = trace.read(path)
        facts = {key: about[key] for key in ("stack", "version", "way", "hop_rtt_ms", "loss_percent")}
        trace.write(os.path.join(args.out, f"{about['stack']}.csv"), facts, excerpt(packets))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads the frames of whole captures that stacks.py made with --whole, with tshark and the connections' keys.

    benches/quic/frames.py FOLDER docs/data/quic-frames.csv docs/data/quic-reordering.csv

The first file has, for each stack and direction, the combinations of frames in returning datagrams, the number of ACK
ranges, and whether the sender asks for an acknowledgment frequency. The second is of runs with --reorder: how often a
packet that arrived this number of packets late was retransmitted although nothing was lost.
"""
import argparse
import collections
import csv
import glob
import os
import subprocess
import sys

import trace

NAMES = {0x00: "PADDING", 0x01: "PING", 0x02: "ACK", 0x03: "ACK_ECN", 0x06: "CRYPTO", 0x10: "MAX_DATA", 0x11: "MAX_STREAM_DATA", 0x12: "MAX_STREAMS", 0x18: "NEW_CONNECTION_ID",
         0x1A: "PATH_CHALLENGE", 0x1B: "PATH_RESPONSE", 0x1F: "IMMEDIATE_ACK", 0xAF: "ACK_FREQUENCY", 0x02F5: "TIMESTAMP"}
STREAM = range(0x08, 0x10)
FREQUENCY = {0xAF, 0x1F}
FIELDS = ["frame.time_relative", "ip.src", "udp.length", "quic.packet_number", "quic.frame_type", "quic.ack.ack_range_count", "quic.stream.offset", "quic.header_form"]
HEADS = ["stack", "version", "way", "returns", "frames", "ranges_p50", "ranges_p90", "ranges_max", "ack_frequency", "sent", "skipped"]
LATE_HEADS = ["stack", "version", "mbps", "displacement", "early_events", "early_retransmitted", "late_events", "late_retransmitted"]
SHOWN = 6
# Displacements of this and more are one class.
FAR = 16

Datagram = collections.namedtuple("Datagram", "time source length number frames ranges offsets long")


def datagrams(capture, keys):
    """Yields the datagrams of a capture, decrypted."""
    command = ["tshark", "-r", capture, "-o", f"tls.keylog_file:{keys}", "-d", "udp.port==4433,quic", "-Y", "quic", "-T", "fields", "-E", "separator=;"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        time, source, length, number, frames, ranges, offsets, form = line.split(";")
        whole = lambda text: [int(word, 0) for word in text.split(",") if word]  # noqa: E731
        yield Datagram(float(time), source, int(length.split(",")[0]) - 8, whole(number), whole(frames), whole(ranges), whole(offsets), "1" in form)


def named(frames):
    """Returns the kinds of frames in a datagram, in the order of their types."""
    kinds = {"STREAM" if kind in STREAM else NAMES.get(kind, f"0x{kind:x}") for kind in frames}
    order = [*NAMES.values(), "STREAM"]
    return "+".join(sorted(kinds, key=lambda kind: (order.index(kind) if kind in order else len(order), kind)))


def share(values, part):
    return values[min(len(values) - 1, int(part * len(values)))] if values else ""


def of_returns(about, found):
    """Returns the row of a run for the first file. The sender's skipped packet numbers are seen only if it is the client."""
    server = min(one.source for one in found)
    sender = server if about["way"] == "down" else max(one.source for one in found)
    back = [one for one in found if one.source != sender and not one.long and one.frames]
    combinations = collections.Counter(named(one.frames) for one in back)
    ranges = sorted(count + 1 for one in back for count in one.ranges)
    numbers = {one.number[-1] for one in found if one.source == sender and not one.long and one.number}
    skipped = max(numbers) - min(numbers) + 1 - len(numbers) if about["way"] == "up" else ""
    asks = sum(1 for one in found if one.source == sender and 0xAF in one.frames)
    shown = " ".join(f"{kinds}:{count}" for kinds, count in sorted(combinations.items(), key=lambda one: (-one[1], one[0]))[:SHOWN])
    return [about["stack"], about["version"], about["way"], len(back), shown, share(ranges, 0.5), share(ranges, 0.9), ranges[-1] if ranges else "", asks, len(numbers), skipped]


def reordering(found):
    """Returns the displacement of each packet of the server that arrived late, and whether its data was retransmitted, in
    order of time. A packet's displacement is the number of later packets that arrived before it."""
    server = min(one.source for one in found)
    sent = [one for one in found if one.source == server and not one.long and one.offsets and one.number]
    carriers = collections.defaultdict(set)
    for one in sent:
        for offset in one.offsets:
            carriers[offset].add(one.number[0])
    late, seen = [], []
    for one in sent:
        ahead = sum(number > one.number[0] for number in seen[-200:])
        if ahead:
            again = any(number > one.number[0] for offset in one.offsets for number in carriers[offset])
            late.append((ahead, again))
        seen.append(one.number[0])
    return late


def late_rows(about, packets, found):
    """Returns the rows of a run for the second file: its rate, and events of the first and of the second half of the run, by
    displacement."""
    mbps = sum(packet.length for packet in packets if packet.kind == ">") * 8 / (packets[-1].time - packets[0].time)
    events = reordering(found)
    half = len(events) // 2
    counts = collections.defaultdict(lambda: [0, 0, 0, 0])
    for index, (ahead, again) in enumerate(events):
        cell = counts[min(ahead, FAR)]
        part = 0 if index < half else 2
        cell[part] += 1
        cell[part + 1] += again
    return [[about["stack"], about["version"], f"{mbps:.2f}", ahead, *counts[ahead]] for ahead in sorted(counts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder of stacks.py with --whole")
    parser.add_argument("frames", help="file for the frames of returning datagrams")
    parser.add_argument("reordering", help="file for the reaction to reordering")
    args = parser.parse_args()
    rows, late = [], []
    for capture in sorted(glob.glob(os.path.join(args.folder, "*.pcap"))):
        name = capture.removesuffix(".pcap")
        about, packets = trace.read(f"{name}.csv")
        found = list(datagrams(capture, f"{name}.keys"))
        if about.get("reordered") == "True":
            late += late_rows(about, packets, found)
        else:
            rows.append(of_returns(about, found))
        print(os.path.basename(name), file=sys.stderr, flush=True)
    for path, heads, lines in ((args.frames, HEADS, rows), (args.reordering, LATE_HEADS, late)):
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *lines])


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, ValueError) as error:
        sys.exit(f"frames.py: {error}")

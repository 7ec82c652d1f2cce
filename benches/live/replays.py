#!/usr/bin/env python3
"""Measures what spoofed and replayed datagrams cost an end of a tunnel with two paths: CPU of its worker, throughput of
the legitimate traffic, and whether an endpoint moves.

The namespaces are those of handshakes.py; the legitimate peer has two lines. A recorder at the end sees all datagrams, as
an observer on every path would. The attacker sends at a given rate, with the peer's addresses or its own:

    random     the right length, anything else random
    forged     header of a recorded datagram with a new number: its contents are decrypted before the forgery shows
    replayed   recorded datagrams as they were
    other path recorded datagrams with the number and the address of the other path
    elsewhere  recorded datagrams from the attacker's address

Small datagrams are acknowledgments, large ones carry a full packet. The share of a core is that of the flood alone: the
worker's CPU time beside a session that carries pings, less the time without the flood.

    cargo build --release
    sudo python3 benches/live/replays.py
    sudo python3 benches/live/replays.py --rate 20000 --runs 1 --require
"""
import contextlib
import json
import os
import random
import socket
import statistics
import struct
import sys
import time

from common import Program, arguments, check_machine, end, end_with, note, run, table
from handshakes import PORT, UDP_SEGMENT, Ends, device, each_by_itself, line_address, overflowed
from speed import cpu

LINES = 2
PEER = [line_address(line) for line in range(LINES)]
TRANSFER_PORT = 5001
# From linux/in.h and linux/if_ether.h.
IP_TRANSPARENT, ETH_P_IP = 19, 0x0800
# Minimum length of a large datagram, maximum of a small one, and maximum length of a batch, in bytes.
LARGE, SMALL, MOST = 1200, 200, 60_000
KINDS = ("random", "forged", "replayed", "other path", "elsewhere")
SIZES = {"small": range(SMALL), "large": range(LARGE, 1 << 16)}
# Maximum share of a core, and minimum share of the throughput that is left.
MOST_CORE, LEAST_LEFT = 0.2, 0.9


def record(seconds, count):
    """Prints the datagrams to the end in so many seconds, at most `count` of each size: source and contents."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    sniffer.bind(("hub", 0))
    sniffer.settimeout(0.2)
    print("ready", flush=True)
    ends, found = time.monotonic() + seconds, {size: [] for size in SIZES}
    while time.monotonic() < ends:
        with contextlib.suppress(TimeoutError):
            packet = sniffer.recv(1 << 16)
            head = 4 * (packet[0] & 15)
            ports = struct.unpack_from("!HH", packet, head)
            if packet[9] == socket.IPPROTO_UDP and ports[1] == PORT and socket.inet_ntoa(packet[12:16]) in PEER:
                text = packet[head + 8:]
                size = next((size for size, lengths in SIZES.items() if len(text) in lengths), None)
                # Sealed datagrams: types 4 and 5.
                if size and text[0] & 15 in (4, 5) and len(found[size]) < count:
                    found[size].append((socket.inet_ntoa(packet[12:16]), ports[0], text.hex()))
    print(json.dumps(found))


def attacks(kind, recorded, dice):
    """Yields sources and datagrams, made from recorded ones."""
    sources = {(address, port) for address, port, _ in recorded}
    for *source, text in recorded:
        source, text = tuple(source), bytes.fromhex(text)
        if kind == "random":
            yield source, bytes([4 | dice.randrange(2) << 4]) + dice.randbytes(len(text) - 1)
        elif kind == "forged":
            number = (struct.unpack_from("!I", text, 4)[0] + 1_000_000 + dice.randrange(1_000_000)) % (1 << 32)
            yield source, text[:4] + struct.pack("!I", number) + dice.randbytes(len(text) - 8)
        elif kind == "replayed":
            yield source, text
        elif kind == "other path":
            yield next(other for other in sources if other != source), bytes([text[0] ^ 0x10]) + text[1:]
        else:
            yield ("10.77.1.1", PORT), text


def flood(kind, size, file, rate, seconds):
    """Runs in the attacker's namespace; prints the number of datagrams sent."""
    with open(file, encoding="utf-8") as recorded:
        datagrams = list(attacks(kind, json.load(recorded)[size], random.Random(1)))
    senders, groups = {}, {}
    for source, text in datagrams:
        groups.setdefault((source, len(text)), []).append(text)
    for source in {source for source, _ in groups}:
        sender = senders[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
        sender.bind(source)
        sender.connect(("10.77.0.1", PORT))
    each_by_itself("eth")
    batches = []
    for (source, length), texts in groups.items():
        most = max(1, min(50, MOST // length))
        segment = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", length))]
        batches += [(senders[source], b"".join(texts[at:at + most]), segment, len(texts[at:at + most])) for at in range(0, len(texts), most)]
    random.Random(2).shuffle(batches)
    begun, sent, number = time.monotonic(), 0, 0
    while (now := time.monotonic() - begun) < seconds:
        if sent > rate * now:
            time.sleep(0.0002)
            continue
        sender, together, segment, count = batches[number % len(batches)]
        number += 1
        with contextlib.suppress(OSError):
            sender.sendmsg([together], segment)
            sent += count
    print(json.dumps({"sent": sent, "seconds": time.monotonic() - begun}))


def own(namespace, *arguments_):
    return Program(namespace, sys.executable, os.path.abspath(__file__), *map(str, arguments_))


class Attacked:
    def __init__(self, args, ends):
        self.args, self.ends, self.names = args, ends, ends.names
        self.file = os.path.join(os.path.dirname(ends.control), "recorded.json")
        for line in range(LINES):
            own(self.names["peer"], "--single", device(line)).result(10)
        for _ in range(100):
            peer = ends.status()["peers"][0]
            if len([path for path in peer["paths"] if path["address"] and path["state"] not in ("down", "unused")]) == LINES:
                break
            run("ping", "-c", "1", "-W", "1", "10.99.0.1", namespace=self.names["peer"])
            time.sleep(0.1)
        else:
            raise RuntimeError(f"the tunnel does not use all of its paths: {peer}")

    def endpoints(self):
        return [path["address"] for path in self.ends.status()["peers"][0]["paths"]]

    def transfer(self):
        """Returns the throughput from the peer to the end in Mbps."""
        with end(self.names["end"], "receive", TRANSFER_PORT, self.args.seconds) as receiver:
            receiver.line()
            with end(self.names["peer"], "send", "10.99.0.1", TRANSFER_PORT, "cubic"):
                return receiver.result(self.args.seconds + 40)["bytes"] * 8e-6 / self.args.seconds

    def record(self):
        """Records transfers in both directions, so that each path carries data and acknowledgments."""
        with own(self.names["end"], "--record", self.args.seconds, 4000) as recorder, end(self.names["peer"], "receive", TRANSFER_PORT, self.args.seconds) as receiver:
            recorder.line()
            receiver.line()
            with end(self.names["end"], "send", "10.99.0.2", TRANSFER_PORT, "cubic"):
                self.transfer()
            found = recorder.result(self.args.seconds + 30)
        for size, datagrams in found.items():
            sources = {source for source, _, _ in datagrams}
            if len(sources) < LINES:
                raise RuntimeError(f"{len(datagrams)} {size} datagrams from {sorted(sources)} only: a path carried none")
        with open(self.file, "w", encoding="utf-8") as out:
            json.dump(found, out)

    def flood(self, kind, size):
        return own(self.names["attacker"], "--flood", kind, size, self.file, self.args.rate, self.args.seconds)

    def refused(self):
        """Returns the number of datagrams that the end refused, once its status has caught up."""
        time.sleep(1)
        status = self.ends.status()
        return sum(status[reason] for reason in ("malformed", "replayed", "unauthentic"))

    def pinged(self, pid, flood=None):
        """Returns the CPU seconds of the worker beside pings, and a flood if there is one, and the results of both."""
        used = cpu(pid)
        with contextlib.ExitStack() as stack:
            attacker = stack.enter_context(flood()) if flood else None
            ping = stack.enter_context(end(self.names["peer"], "ping", "10.99.0.1", self.args.seconds, 50))
            echoes = ping.result(self.args.seconds + 30)
            sent = attacker.result(self.args.seconds + 30) if attacker else None
        return cpu(pid) - used, echoes, sent

    def measure(self, kind, size):
        pid, places = self.ends.status()["worker"]["pid"], self.endpoints()
        idle, _, _ = self.pinged(pid)
        dropped, refused = overflowed(self.names["end"]), self.refused()
        used, echoes, sent = self.pinged(pid, lambda: self.flood(kind, size))
        dropped, refused = overflowed(self.names["end"]) - dropped, self.refused() - refused
        rate, core = sent["sent"] / sent["seconds"], (used - idle) / sent["seconds"]
        before, during = [], []
        for _ in range(self.args.runs):
            before.append(self.transfer())
            with self.flood(kind, size) as attacker:
                during.append(self.transfer())
                attacker.result(self.args.seconds + 30)
        status = self.ends.status()
        if status["worker"]["pid"] != pid:
            raise RuntimeError("the worker was replaced")
        row = {"kind": kind, "size": size, "rate": rate, "core": core, "us": core / rate * 1e6, "dropped": dropped / sent["sent"], "refused": refused / sent["sent"], "echoes_lost": echoes["sent"] - len(echoes["ms"]),
               "before": statistics.median(before), "during": statistics.median(during), "moved": self.endpoints() != places}
        note(json.dumps(row))
        return row


def main():
    if sys.argv[1:2] == ["--flood"]:
        kind, size, file, rate, seconds = sys.argv[2:]
        flood(kind, size, file, float(rate), float(seconds))
        return 0
    if sys.argv[1:2] == ["--record"]:
        record(float(sys.argv[2]), int(sys.argv[3]))
        return 0
    if sys.argv[1:2] == ["--single"]:
        each_by_itself(sys.argv[2])
        print("{}")
        return 0
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, default=50_000, help="datagrams a second (default 50000)")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default 3)")
    parser.add_argument("--runs", type=int, default=3, help="transfers before and during each flood, of which the median counts (default 3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--require", action="store_true", help=f"exit 1 when a flood takes more than {MOST_CORE} of a core or of the throughput more than {1 - LEAST_LEFT:.1f}, or moves an endpoint")
    args = parser.parse_args()
    check_machine(args)
    with Ends(args, LINES) as ends:
        attacked = Attacked(args, ends)
        attacked.record()
        rows = [attacked.measure(kind, size) for kind in KINDS for size in SIZES]
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        table(["datagrams", "", "a second", "of a core", "us each", "refused %", "not read %", "echoes lost", "Mbps before", "during", "endpoint"],
              [[row["kind"], row["size"], f"{row['rate']:.0f}", f"{row['core']:.3f}", f"{row['us']:.2f}", f"{100 * row['refused']:.1f}", f"{100 * row['dropped']:.1f}", row["echoes_lost"], f"{row['before']:.1f}", f"{row['during']:.1f}",
                "MOVED" if row["moved"] else "stays"] for row in rows])
    worse = [row for row in rows if row["core"] > MOST_CORE or row["during"] < LEAST_LEFT * row["before"] or row["moved"]]
    return 1 if args.require and worse else 0


if __name__ == "__main__":
    end_with(main)

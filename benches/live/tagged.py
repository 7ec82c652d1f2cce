#!/usr/bin/env python3
"""Frames with VLAN tags: `tagged.py send DEVICE COUNT TAGS` sends them, `tagged.py count DEVICE` counts arriving ones
until SIGTERM.

Each frame contains a TCP segment after TAGS tags (IEEE 802.1Q; the outer of two is of 802.1ad), 2 ms apart.
"""
import json
import signal
import socket
import struct
import sys
import time

from forge import ACK, PSH, checksum, internet, pseudo

MARK = b"lasthop tagged frame"


def frame(number, tags):
    source, destination = b"\x0a\x01\x00\x02", b"\x0a\x01\x00\x03"
    tcp = struct.pack("!HHIIBBHHH", 5000, 6000, number * 100, 1, 5 << 4, ACK | PSH, 1000, 0, 0) + MARK + struct.pack("!I", number)
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo(4, source, destination, 6, len(tcp)) + tcp)) + tcp[18:]
    kinds = [0x88A8, 0x8100][-tags:] if tags else []
    head = b"".join(struct.pack("!HH", kind, 5 + place) for place, kind in enumerate(kinds))
    return b"\x02\x00\x00\x00\x0a\x03\x02\x00\x00\x00\x0a\x00" + head + b"\x08\x00" + internet(4, source, destination, 6, tcp)


def send(device, count, tags):
    outlet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    outlet.bind((device, 0))
    for number in range(int(count)):
        outlet.send(frame(number, int(tags)))
        time.sleep(0.002)
    return {"sent": int(count)}


def count(device):
    over, seen = [], set()
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    heard.bind((device, 0))
    heard.settimeout(0.1)
    print("ready", flush=True)
    while not over:
        try:
            data = heard.recv(2048)
        except TimeoutError:
            continue
        if (at := data.find(MARK)) >= 0:
            seen.add(data[at + len(MARK):][:4])
    return {"received": len(seen)}


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("send", "count"):
        sys.exit(__doc__)
    print(json.dumps({"send": send, "count": count}[sys.argv[1]](*sys.argv[2:])))

#!/usr/bin/env python3
"""Carries Ethernet frames of any type between two interfaces: `cable.py NEAR FAR MBPS DELAY_MS QUEUE_KIB`.

Each direction has that rate, counted from the Ethernet header on, that one-way delay, and a queue that drops what does
not fit. Prints "ready". On SIGUSR1 it carries nothing, on SIGUSR2 everything again.
"""
import collections
import select
import signal
import socket
import sys
import time

PACKET = 263
IGNORE_OUTGOING = 23
ALL = 3
BATCH = 32


def main(near, far, mbps, delay, queue):
    rate, delay, most = float(mbps) * 1e6 / 8, float(delay) / 1000, float(queue) * 1024
    sockets = []
    for name in (near, far):
        sockets.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        sockets[-1].setsockopt(PACKET, IGNORE_OUTGOING, 1)
        sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sockets[-1].bind((name, ALL))
        sockets[-1].setblocking(False)
    cut = []
    signal.signal(signal.SIGUSR1, lambda *_: cut.append(True))
    signal.signal(signal.SIGUSR2, lambda *_: cut.clear())
    ways, free = [collections.deque(), collections.deque()], [0.0, 0.0]
    print("ready", flush=True)
    while True:
        dues = [way[0][0] for way in ways if way]
        ready, _, _ = select.select(sockets, [], [], max(0, min(dues) - time.monotonic()) if dues else 0.1)
        now = time.monotonic()
        for side, heard in enumerate(sockets):
            for _ in range(BATCH if heard in ready else 0):
                try:
                    frame = heard.recv(65600)
                except BlockingIOError:
                    break
                if (free[side] - now) * rate + len(frame) > most:
                    continue
                free[side] = max(free[side], now) + len(frame) / rate
                ways[side].append((free[side] + delay, frame))
        now = time.monotonic()
        for side, way in enumerate(ways):
            while way and way[0][0] <= now:
                _, frame = way.popleft()
                if not cut:
                    try:
                        sockets[1 - side].send(frame)
                    except OSError:
                        # As a full queue.
                        continue


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TypeError:
        sys.exit(__doc__)

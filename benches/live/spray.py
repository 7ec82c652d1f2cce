#!/usr/bin/env python3
"""Sends single UDP datagrams, each from a port of its own, so that every one is a new flow to a machine that tracks
connections:

    spray.py ADDRESS PER_SECOND AFTER      seconds
"""
import socket
import sys
import time

# Nothing listens there; ICMP errors in reply are part of the load.
DISCARD = 9


def main():
    address, pace, after = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    print("ready", flush=True)
    time.sleep(after)
    begun, sent = time.monotonic(), 0
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        time.sleep(max(0.0, begun + sent / pace - time.monotonic()))
        # The kernel chooses a random port for each socket.
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.sendto(b"", (address, DISCARD))
        sent += 1


if __name__ == "__main__":
    main()

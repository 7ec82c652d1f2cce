#!/usr/bin/env python3
"""Connections whose end falls silent: `silent.py ADDRESS PORT SEED COUNT [SOURCE DEVICE]`, until SIGTERM.

Opens COUNT connections that request endless downloads (transfers.py) from reserved ports, and then drops all their
packets, like a host whose program is stopped behind a firewall. With SOURCE, an address of DEVICE, they use that
address, which is then removed: the host has left.
"""
import signal
import socket
import subprocess
import sys
import time

from transfers import ENDLESS, HEADER, MAGIC

FIRST = 60_000


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def main(address, port, seed, count, source="", device=""):
    del seed
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    six = ":" in address
    sockets = []
    for number in range(int(count)):
        sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((source, FIRST + number))
        sock.settimeout(10)
        sock.connect((address, int(port)))
        sockets.append(sock)
    for number, sock in enumerate(sockets):
        sock.send(HEADER.pack(MAGIC, 1_000_000 + number, 0, ENDLESS))
    # Some of the requested data has arrived by then.
    time.sleep(0.05)
    ports = f"{FIRST}:{FIRST + int(count) - 1}"
    tables = "ip6tables" if six else "iptables"
    run(tables, "-w", "-I", "INPUT", "-p", "tcp", "--dport", ports, "-j", "DROP")
    run(tables, "-w", "-I", "OUTPUT", "-p", "tcp", "--sport", ports, "-j", "DROP")
    if source:
        run("ip", "addr", "del", f"{source}/{64 if six else 24}", "dev", device)
    print("ready", flush=True)
    while not over:
        time.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) not in (5, 7):
        sys.exit(__doc__)
    main(*sys.argv[1:])

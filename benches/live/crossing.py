#!/usr/bin/env python3
"""One end of connections that both ends open simultaneously (RFC 9293 §3.5): `crossing.py ADDRESS FIRST COUNT AT`.

From second AT of the wall clock, every 0.1 s, a socket bound to the next port from FIRST connects to ADDRESS at the
same port, as its peer does. Each end sends 2,000 bytes and expects those of the other. Prints a line of JSON: the
number of complete connections, and the failures of the others.
"""
import collections
import json
import socket
import sys
import threading
import time

BYTES = 2000


def one(address, port, at, fates):
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("", port))
            sock.settimeout(15)
            time.sleep(max(0, at - time.time()))
            sock.connect((address, port))
            sock.sendall(port.to_bytes(2, "big") * (BYTES // 2))
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while data := sock.recv(BYTES):
                got += data
            fates.append("whole" if got == port.to_bytes(2, "big") * (BYTES // 2) else "short")
    except OSError as error:
        fates.append(type(error).__name__)


def main(address, first, count, at):
    fates = []
    threads = [threading.Thread(target=one, args=(address, int(first) + n, float(at) + n / 10, fates)) for n in range(int(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(collections.Counter(fates)))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])

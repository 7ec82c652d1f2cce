#!/usr/bin/env python3
"""Measures what a flood of false handshakes costs an end of the tunnel: CPU and memory of its worker.

The attacker is a namespace beside the tunnel's end. It sends initiations of the right length at a given rate, from one
address or from many: with a wrong mac1, as without knowledge of the end's public key, or with a right one and random
keys after it. Meanwhile the end answers pings in a session with a legitimate peer.

    cargo build --release
    sudo python3 benches/live/handshakes.py
    sudo python3 benches/live/handshakes.py --rate 100000 --seconds 5 --require
"""
import base64
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import socket
import struct
import sys
import tempfile
import time

from common import Program, arguments, check_machine, counters, end, end_with, note, run, table
from speed import cpu

PORT = 51900
INITIATION, MAC = 164, 16
# From linux/udp.h, linux/sockios.h, linux/ethtool.h.
UDP_SEGMENT, SIOCETHTOOL, ETHTOOL_SGSO = 103, 0x8946, 0x24
BATCH = 50
# Rate of each of the peer's lines, if there are several, in Mbps.
RATE = 20
KINDS = {"wrong mac1": (False, 1), "right mac1": (True, 1), "right mac1, 200 addresses": (True, 200)}
# Maximum share of a core at a hundred thousand per second.
MOST = 0.2


def device(line):
    """Returns the name of the peer's interface of a line."""
    return f"eth{line}" if line else "eth"


def line_address(line, host="2.1"):
    """Returns the peer's address on a line, or another host's: each line has a subnet."""
    return f"10.{77 + line}.{host}"


def initiations(public, right, count):
    """Yields false initiations; those made with the public key have a right mac1 (crates/lasthop-tunnel/src/mac.rs)."""
    key = hashlib.blake2s(b"lasthop1" + base64.b64decode(public)).digest()
    for _ in range(count):
        body = bytes([1]) + os.urandom(INITIATION - 2 * MAC - 1)
        mac1 = hashlib.blake2s(body, key=key, digest_size=MAC).digest() if right else os.urandom(MAC)
        yield body + mac1 + os.urandom(MAC)


def each_by_itself(device):
    """Makes super-segments leave the device as individual packets (ethtool -K DEVICE gso off)."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_SGSO, 0))
    request = struct.pack("16sP24x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, SIOCETHTOOL, request)


def flood(public, right, addresses, rate, seconds):
    """Runs in the attacker's namespace; prints the number of packets sent."""
    sockets = []
    for number in range(addresses):
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].bind((f"10.77.1.{number + 1}", 0))
        sockets[-1].connect(("10.77.0.1", PORT))
        sockets[-1].setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, INITIATION)
    each_by_itself("eth")
    # One system call of the attacker sends many; its kernel splits them into single packets.
    together = [b"".join(initiations(public, right, BATCH)) for _ in range(50)]
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        if sent > rate * now:
            time.sleep(0.0002)
            continue
        number = sent // BATCH
        with contextlib.suppress(OSError):
            sockets[number % addresses].send(together[number % len(together)])
        sent += BATCH
    print(json.dumps({"sent": sent, "seconds": time.monotonic() - begun}))


def memory(pid):
    """Returns the resident memory of a process in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def overflowed(namespace):
    """Returns the number of datagrams dropped because a socket's buffer was full."""
    return counters(namespace, "Udp")["RcvbufErrors"]


class Ends:
    """An end under attack, a legitimate peer with one or several lines, and the attacker: three namespaces around a
    bridge of the end's."""

    def __init__(self, args, lines=1):
        self.args, self.lines, self.prefix = args, lines, f"lh-{os.getpid()}-"
        self.names = {name: self.prefix + name for name in ("end", "peer", "attacker")}
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="lasthop-bench-"))
            for name in self.names.values():
                run("ip", "netns", "add", name)
                run("ip", "link", "set", "lo", "up", namespace=name)
            run("ip", "link", "add", "hub", "type", "bridge", namespace=self.names["end"])
            cables = [("peer", f"peer{line}", device(line), f"{line_address(line)}/16") for line in range(self.lines)]
            for name, port, inner, address in [*cables, ("attacker", "attacker", "eth", "10.77.1.1/16")]:
                run("ip", "link", "add", port, "netns", self.names["end"], "type", "veth", "peer", "name", inner, "netns", self.names[name])
                run("ip", "link", "set", port, "up", "master", "hub", namespace=self.names["end"])
                run("ip", "link", "set", inner, "up", namespace=self.names[name])
                run("ip", "address", "add", address, "dev", inner, namespace=self.names[name])
            run("ip", "link", "set", "hub", "up", namespace=self.names["end"])
            for line in range(self.lines):
                run("ip", "address", "add", f"{line_address(line, '0.1')}/16", "dev", "hub", namespace=self.names["end"])
            run("sh", "-c", "for n in $(seq 2 200); do ip address add 10.77.1.$n/16 dev eth; done", namespace=self.names["attacker"])
            nodes = ("end", "peer")
            self.keys = {node: run(self.args.lasthop, "tunnel", "keygen", f"{folder}/{node}.key").strip() for node in nodes}
            for number, node in enumerate(nodes):
                other = nodes[1 - number]
                calls, rate = f'endpoint = "10.77.0.1:{PORT}"\n' if node == "peer" else "", 'rate = "100 Mbps"\n'
                if self.lines > 1:
                    calls, rate = "", ""
                    for line in range(self.lines):
                        calls += f'[[peer.path]]\nname = "{line}"\nrate = "{RATE} Mbps"\n'
                        calls += f'endpoint = "{line_address(line, "0.1")}:{PORT}"\ninterface = "{device(line)}"\n' if node == "peer" else ""
                keepalive = 'keepalive = "1 s"\n' if node == "peer" else ""
                with open(f"{folder}/{node}.toml", "w", encoding="utf-8") as out:
                    out.write(f'listen = "0.0.0.0:{PORT}"\nprivate_key_file = "{folder}/{node}.key"\naddress = "10.99.0.{number + 1}/24"\ncontrol = "{folder}/{node}.sock"\n'
                              f'log = "warn"\n[[peer]]\nname = "{other}"\npublic_key = "{self.keys[other]}"\nallowed = ["10.99.0.{2 - number}"]\n{rate}{keepalive}{calls}')
                self.stack.enter_context(Program(self.names[node], self.args.lasthop, "tunnel", "run", f"{folder}/{node}.toml"))
            self.control = f"{folder}/end.sock"
            for _ in range(200):
                with contextlib.suppress(RuntimeError, IndexError):
                    if self.status()["peers"][0]["up"]:
                        return self
                time.sleep(0.05)
            raise RuntimeError("no session between the tunnel's ends")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.stack.close()
        for name in self.names.values():
            run("sh", "-c", f"ip netns del {name} 2>/dev/null || true")

    def status(self):
        return json.loads(run(self.args.lasthop, "tunnel", "status", "--json", "--control", self.control))

    def measure(self, kind):
        right, addresses = KINDS[kind]
        pid = self.status()["worker"]["pid"]
        # Cost while idle.
        idle = cpu(pid)
        time.sleep(1)
        idle = cpu(pid) - idle
        resident, used, before = memory(pid), cpu(pid), overflowed(self.names["end"])
        with Program(self.names["attacker"], sys.executable, os.path.abspath(__file__), "--flood", self.keys["end"], str(int(right)), str(addresses),
                     str(self.args.rate), str(self.args.seconds)) as attacker, \
                end(self.names["peer"], "ping", "10.99.0.1", self.args.seconds, 50) as ping:
            sent = attacker.result(self.args.seconds + 30)
            used = cpu(pid) - used
            echoes = ping.result(self.args.seconds + 30)
        dropped = overflowed(self.names["end"]) - before
        status = self.status()
        if status["worker"]["pid"] != pid:
            raise RuntimeError("the worker was replaced")
        rate = sent["sent"] / sent["seconds"]
        each = (used - idle * sent["seconds"]) / sent["sent"]
        note(f"{kind}: {rate:.0f}/s")
        return {"kind": kind, "rate": rate, "core": each * rate, "us": each * 1e6, "at_100000": each * 100_000, "grown_kib": memory(pid) - resident, "dropped": dropped / sent["sent"], "ping_lost": echoes["sent"] - len(echoes["ms"])}


def main():
    if sys.argv[1:2] == ["--flood"]:
        public, right, addresses, rate, seconds = sys.argv[2:]
        flood(public, right == "1", int(addresses), float(rate), float(seconds))
        return 0
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, default=100_000, help="false handshakes a second (default 100000)")
    parser.add_argument("--seconds", type=float, default=5, help="of each flood (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--require", action="store_true", help=f"exit 1 when 100,000 a second take more than {MOST} of a core")
    args = parser.parse_args()
    check_machine(args)
    with Ends(args) as ends:
        rows = [ends.measure(kind) for kind in KINDS]
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        table(["initiations", "a second", "of a core", "us each", "100,000/s", "grown KiB", "not read %", "echoes lost"],
              [[row["kind"], f"{row['rate']:.0f}", f"{row['core']:.2f}", f"{row['us']:.2f}", f"{row['at_100000']:.2f}", row["grown_kib"], f"{100 * row['dropped']:.1f}", row["ping_lost"]] for row in rows])
    return 1 if args.require and any(row["at_100000"] > MOST for row in rows) else 0


if __name__ == "__main__":
    end_with(main)

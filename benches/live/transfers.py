#!/usr/bin/env python3
"""Many concurrent connections, of which every byte is checked. Each role prints one line of JSON at the end.

    serve PORT SEED PLAN            takes connections until SIGTERM
    call ADDRESS PORT SEED PLAN     opens connections as PLAN says
    plain DEVICE...                 switches the devices' offloads off

PLAN is JSON with
    transfers   how many connections there are, `at_once` of them open; 0: `bulk` connections for `seconds`
    sizes       least and most bytes that a connection carries each way, or [0, 0]: to the caller (`down`) and from it (`up`)
    kind        `close` (both ends close after their last byte), `urgent` (a byte of urgent data amid those that the caller sends), `reset` (the server resets at once)
    control     congestion control of both ends
    patience    seconds without a byte after which a connection counts as silenced
    ports       first and last of the caller's own ports, which it takes in turn; absent: the kernel's choice
    pause       seconds between openings
    protocol    `mptcp`: Multipath TCP; absent: TCP
    ip_options  every packet bears IPv4 options that do nothing; over IPv6 the caller's bear an extension header with destination options
    md5         addresses of caller and server between which every segment bears a TCP-MD5 signature; absent: none
    buffer      of the caller's socket, for what it receives, in bytes; absent: the kernel's tuning
    begin       seconds before the first one

The streams are pseudo-random and known to both ends: block K of connection N in a direction derives from the seed, N,
the direction and K. Repeated, moved, forged, damaged or missing data is detected at the byte where it occurs. A
connection opens with a header: number and lengths.
"""
import collections
import ctypes
import errno
import fcntl
import json
import os
import random
import selectors
import signal
import socket
import struct
import sys
import time

BLOCK = 1 << 16
CHUNK = 1 << 18
HEADER = struct.Struct("!8sIQQ")
MAGIC = b"lasthop1"
ENDLESS = 1 << 50
# Contents of forged payloads (forge.py).
FORGED = b"EVIL"
NO_LINGER = struct.pack("ii", 1, 0)


class Source:
    """Bytes of one direction of a connection."""

    def __init__(self, seed, number, direction):
        self.name = f"{seed}/{number}/{direction}"
        self.index, self.block = -1, b""

    def at(self, position, most):
        """Returns some bytes from `position` on, at most `most`."""
        index, offset = divmod(position, BLOCK)
        if index != self.index:
            self.index, self.block = index, random.Random(f"{self.name}/{index}").randbytes(BLOCK)
        return self.block[offset:offset + most]


class Ending(Exception):
    """End of a connection, with its reason."""

    def __init__(self, status, detail=""):
        super().__init__(detail)
        self.status, self.detail = status, detail


class Incoming:
    """Checker of received data."""

    def __init__(self, source, length):
        self.source, self.length = source, length
        self.position = 0

    def take(self, data):
        view, done = memoryview(data), 0
        while done < len(view):
            left = self.length - self.position
            if left <= 0:
                raise Ending("corrupt", f"{len(view) - done} bytes behind the last one: {bytes(view[done:done + 16])!r}")
            expected = self.source.at(self.position, min(left, len(view) - done))
            given = view[done:done + len(expected)]
            if given != expected:
                raise self.difference(bytes(given), expected)
            done += len(expected)
            self.position += len(expected)

    def difference(self, given, expected):
        first = next(index for index, pair in enumerate(zip(given, expected)) if pair[0] != pair[1])
        place = f"at byte {self.position + first}: {given[first:first + 16]!r} for {expected[first:first + 16]!r}"
        return Ending("forged" if FORGED in given[first:first + 64] else "corrupt", place)

    def is_whole(self):
        return self.position == self.length


class Connection:
    """Common parts of both ends: socket, incoming and outgoing data."""

    def __init__(self, sock, seed, plan, now):
        self.sock, self.seed, self.plan = sock, seed, plan
        self.number = None
        self.incoming = self.source = None
        self.waiting = memoryview(b"")
        self.sent = self.length = 0
        self.shut = self.ended = self.is_urgent = False
        self.begun = self.last = now
        self.gap = 0.0

    def prepare(self, number, incoming, outgoing):
        self.number = number
        self.incoming = Incoming(Source(self.seed, number, incoming[0]), incoming[1])
        self.source, self.length = Source(self.seed, number, outgoing[0]), outgoing[1]

    def is_endless(self):
        return self.incoming is not None and ENDLESS in (self.incoming.length, self.length)

    def write(self):
        """Sends what the socket accepts; returns whether something is left."""
        urgent = self.length // 2 if self.plan["kind"] == "urgent" and self.source.name.endswith("up") else None
        while not self.shut:
            if not self.waiting:
                if self.sent == self.length:
                    if self.plan["kind"] == "reset":
                        # It waits for the server's reset.
                        return False
                    self.sock.shutdown(socket.SHUT_WR)
                    self.shut = True
                    return False
                most = min(BLOCK, self.length - self.sent)
                if urgent is not None and self.sent <= urgent:
                    most = 1 if self.sent == urgent else urgent - self.sent
                self.waiting = memoryview(self.source.at(self.sent, most))
                self.sent += len(self.waiting)
                self.is_urgent = urgent is not None and self.sent == urgent + 1
            try:
                count = self.sock.send(self.waiting, socket.MSG_OOB if self.is_urgent else 0)
            except BlockingIOError:
                return True
            self.waiting = self.waiting[count:]
            self.last = time.monotonic()
        return False

    def read(self):
        """Reads the available data."""
        while True:
            try:
                data = self.sock.recv(CHUNK)
            except BlockingIOError:
                return
            now = time.monotonic()
            self.gap = max(self.gap, now - self.last)
            self.last = now
            if not data:
                self.end_of_stream()
                return
            self.arrived(data)
            if len(data) < CHUNK // 2:
                return

    def arrived(self, data):
        self.incoming.take(data)

    def end_of_stream(self):
        if not self.incoming.is_whole():
            raise Ending("short", f"a clean end after {self.incoming.position} of {self.incoming.length} bytes")
        self.ended = True

    def is_done(self):
        return self.ended and self.shut


class Called(Connection):
    """End of the server."""

    def __init__(self, sock, seed, plan, now):
        super().__init__(sock, seed, plan, now)
        self.head = b""

    def write(self):
        return self.source is not None and super().write()

    def arrived(self, data):
        if self.incoming is None:
            self.head += data
            if len(self.head) < HEADER.size:
                return
            magic, number, up, down = HEADER.unpack(self.head[:HEADER.size])
            if magic != MAGIC:
                raise Ending("forged" if FORGED in self.head[:64] else "corrupt", f"the connection opens with {self.head[:HEADER.size]!r}")
            data = self.head[HEADER.size:]
            self.prepare(number, ("up", up), ("down", down))
            if self.plan["kind"] == "reset":
                raise Ending("ok")
        if data:
            self.incoming.take(data)

    def end_of_stream(self):
        if self.incoming is None:
            raise Ending("short", f"a clean end after {len(self.head)} bytes of the header")
        super().end_of_stream()


class Caller(Connection):
    """End of the caller."""

    def __init__(self, sock, seed, plan, now, number, up, down):
        super().__init__(sock, seed, plan, now)
        self.prepare(number, ("down", down), ("up", up))
        self.waiting = memoryview(HEADER.pack(MAGIC, number, up, down))
        self.connected = False


def tune(sock, plan):
    sock.setblocking(False)
    if plan.get("control"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, plan["control"].encode())
    if plan["kind"] == "urgent":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    if plan.get("ip_options"):
        if sock.family == socket.AF_INET or sock.getsockname()[0].startswith("::ffff:"):
            sock.setsockopt(socket.IPPROTO_IP, 4, b"\x01\x01\x01\x00")
        elif sock.getsockname()[0] == "::":
            # IPV6_DSTOPTS: padding only; for the caller, whose packets are short
            sock.setsockopt(socket.IPPROTO_IPV6, 59, bytes([0, 0, 1, 4, 0, 0, 0, 0]))


def protocol(plan):
    # IPPROTO_MPTCP
    return 262 if plan.get("protocol") == "mptcp" else 0


def sign(sock, address):
    """TCP_MD5SIG: signs segments from and to an address."""
    six = sock.family == socket.AF_INET6
    packed = socket.inet_pton(socket.AF_INET6, address if ":" in address else "::ffff:" + address) if six else socket.inet_aton(address)
    peer = struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, packed, 0) if six else struct.pack("=HH4s", socket.AF_INET, 0, packed)
    sock.setsockopt(socket.IPPROTO_TCP, 14, peer.ljust(128, b"\0") + struct.pack("=BBHi80s", 0, 0, 6, 0, b"secret"))


class Loop:
    """Connections of one end, and their results."""

    def __init__(self, seed, plan):
        self.seed, self.plan = seed, plan
        self.selector = selectors.DefaultSelector()
        self.open = set()
        self.results = []
        self.looked = time.monotonic()

    def add(self, connection, events):
        self.open.add(connection)
        connection.events = events
        self.selector.register(connection.sock, events, connection)

    def want(self, connection, events):
        if connection.events != events:
            connection.events = events
            self.selector.modify(connection.sock, events, connection)

    def remove(self, connection, status, detail="", reset=False):
        self.open.discard(connection)
        self.selector.unregister(connection.sock)
        if reset:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        connection.sock.close()
        now = time.monotonic()
        count = connection.incoming.position if connection.incoming else 0
        self.results.append({"number": connection.number, "status": status, "detail": detail, "received": count, "begun": connection.begun, "ended": now,
                             "gap": max(connection.gap, now - connection.last), "silence": now - connection.last})

    def serve_one(self, connection, mask):
        try:
            if mask & selectors.EVENT_READ:
                connection.read()
            left = connection.write()
            if connection.is_done():
                self.remove(connection, "ok")
            else:
                self.want(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0) if not connection.ended else selectors.EVENT_WRITE)
        except Ending as ending:
            self.remove(connection, ending.status, ending.detail, reset=True)
        except OSError as error:
            self.failed(connection, error)

    def failed(self, connection, error):
        # A download without an end is reset by its caller; a caller that receives the server's reset has what it waited
        # for.
        told = isinstance(error, (ConnectionResetError, BrokenPipeError))
        fine = told and (connection.is_endless() and isinstance(connection, Called) or self.plan["kind"] == "reset")
        self.remove(connection, "ok" if fine else "reset" if told else "failed", "" if fine else errno.errorcode.get(error.errno, str(error)), reset=True)

    def look_after(self):
        """Ends connections that were silent for too long."""
        now = time.monotonic()
        if now - self.looked > 0.5:
            self.looked = now
            for connection in [one for one in self.open if now - one.last > self.plan["patience"]]:
                where = "" if connection.incoming is None else f"after {connection.incoming.position} bytes of {connection.incoming.length}"
                self.remove(connection, "silenced", where, reset=True)


class Server(Loop):
    def run(self, port):
        over = []
        signal.signal(signal.SIGTERM, lambda *_: over.append(True))
        family = socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, protocol(self.plan))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen(1024)
        listener.setblocking(False)
        if self.plan.get("md5"):
            sign(listener, self.plan["md5"][0])
        self.selector.register(listener, selectors.EVENT_READ, None)
        print("ready", flush=True)
        while not over:
            for key, mask in self.selector.select(0.1):
                if key.data is not None:
                    if key.data in self.open:
                        self.serve_one(key.data, mask)
                    continue
                while True:
                    try:
                        sock, _ = listener.accept()
                    except (BlockingIOError, ConnectionAbortedError):
                        break
                    tune(sock, self.plan)
                    self.add(Called(sock, self.seed, self.plan, time.monotonic()), selectors.EVENT_READ)
            self.look_after()
        # The caller reports a connection that it gave up.
        return {"results": [one for one in self.results if one["status"] in ("corrupt", "forged", "short")], "connections": len(self.results),
                "received": sum(one["received"] for one in self.results)}


class Client(Loop):
    def __init__(self, seed, plan):
        super().__init__(seed, plan)
        self.random = random.Random(f"{seed}/sizes")
        first, last = plan.get("ports", (0, -1))
        self.ports = collections.deque(range(first, last + 1))
        self.opened = 0
        self.received = 0

    def open_one(self, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM, protocol(self.plan))
        tune(sock, self.plan)
        if self.plan.get("md5"):
            sign(sock, self.plan["md5"][1])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.plan.get("buffer"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.plan["buffer"])
        if self.ports:
            sock.bind(("", self.ports[0]))
            self.ports.rotate(-1)
        low, high = self.plan["sizes"]
        up, down = (self.random.randint(*limits) if limits[1] else 0 for limits in (self.plan["up"], (low, high)))
        if not self.plan["transfers"]:
            up, down = (ENDLESS, 0) if self.plan.get("upwards") else (0, ENDLESS)
        connection = Caller(sock, self.seed, self.plan, time.monotonic(), self.opened, up, down)
        self.opened += 1
        sock.connect_ex((address, port))
        self.add(connection, selectors.EVENT_WRITE)

    def run(self, address, port):
        time.sleep(self.plan.get("begin", 0))
        plan, begun = self.plan, time.monotonic()
        total, at_once = (plan["transfers"], plan["at_once"]) if plan["transfers"] else (plan["bulk"], plan["bulk"])
        samples, sampled, next_open = [], begun, begun
        while True:
            now = time.monotonic()
            while self.opened < total and len(self.open) < at_once and now >= next_open:
                self.open_one(address, port)
                next_open = max(next_open, now - 1) + plan.get("pause", 0)
            if plan["transfers"]:
                if self.opened == total and not self.open:
                    break
            elif now - begun >= plan["seconds"] or not self.open:
                break
            for key, mask in self.selector.select(0.05):
                connection = key.data
                if connection in self.open:
                    if not connection.connected and (code := connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                        self.remove(connection, "failed", "connecting: " + errno.errorcode.get(code, str(code)), reset=True)
                        continue
                    connection.connected = True
                    self.serve_one(connection, mask)
            self.look_after()
        elapsed = time.monotonic() - begun
        for connection in list(self.open):
            # A connection that ran for the given time is complete.
            self.remove(connection, "ok", reset=True)
        for one in self.results:
            one["begun"] -= begun
            one["ended"] -= begun
        return {"results": self.results, "seconds": elapsed, "begun": begun}


def plain(*devices):
    """Disables ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO and ETHTOOL_SGRO."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for device in devices:
            for command in (0x17, 0x1F, 0x24, 0x2C):
                value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
                # SIOCETHTOOL
                fcntl.ioctl(sock, 0x8946, struct.pack("16sP", device.encode(), ctypes.addressof(value)))
    return {}


def serve(port, seed, plan):
    return Server(seed, json.loads(plan)).run(int(port))


def call(address, port, seed, plan):
    return Client(seed, json.loads(plan)).run(address, int(port))


ROLES = {role.__name__: role for role in (serve, call, plain)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ROLES:
        sys.exit(__doc__)
    try:
        print(json.dumps(ROLES[sys.argv[1]](*sys.argv[2:])))
    except OSError as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error}")

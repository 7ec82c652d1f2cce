#!/usr/bin/env python3
"""Ends of the benchmarks' connections. Each role prints one line of JSON when it has finished.

    receive PORT SECONDS [BUFFER]   takes one connection and reads for so long; with a receive buffer of so many bytes
    send ADDRESS PORT CONTROL   connects under a congestion control, and sends until the other side has enough
    fetch ADDRESS PORT SECONDS  connects and reads for so long
    give PORT CONTROL           takes one connection, and sends as `send` does
    ping ADDRESS SECONDS RATE   ICMP echoes, RATE a second
    echo PORT                   returns messages as they come
    talk ADDRESS PORT SECONDS   sends a message, waits for it to come back, sends the next
    answer PORT                 as `echo`, for any number of connections, until SIGTERM
    ask ADDRESS PORT N SECONDS  as `talk`, by N connections at once
    call ADDRESS PORT SECONDS RATE [SIZE]   sends numbered datagrams of SIZE (160) bytes with their time, RATE a second
    hear PORT SECONDS           receives them for so long
    stream ADDRESS PORT SECONDS MBPS CONTROL   as `send`, at a constant rate, in pieces every 10 ms
    watch PORT SECONDS          takes one connection, and records gaps between arrivals
"""
import json
import os
import select
import selectors
import signal
import socket
import struct
import sys
import time

# Bytes of a message.
MESSAGE = 64
# Maximum time for opening a connection, in seconds.
PATIENCE = 15


def listen(port, buffer=None):
    listener = socket.create_server(("", port))
    if buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(buffer))
    listener.settimeout(PATIENCE)
    print("ready", flush=True)
    return listener.accept()


def receive(port, seconds, buffer=None):
    connection, _ = listen(int(port), buffer)
    return read(connection, seconds)


def fetch(address, port, seconds):
    return read(socket.create_connection((address, int(port)), PATIENCE), seconds)


def read(connection, seconds):
    end = time.monotonic() + float(seconds)
    total, buffer = 0, bytearray(1 << 18)
    while (left := end - time.monotonic()) > 0:
        if select.select([connection], [], [], left)[0]:
            count = connection.recv_into(buffer)
            if count == 0:
                break
            total += count
    # Closing with unread data resets the connection, so the sender stops.
    own, peer = connection.getsockname(), connection.getpeername()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    return {"bytes": total, "seconds": float(seconds), "own": own, "peer": peer}


def send(address, port, control):
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    connection.settimeout(PATIENCE)
    connection.connect((address, int(port)))
    return write(connection)


def give(port, control):
    connection, _ = listen(int(port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    return write(connection)


def write(connection):
    addresses = {"own": connection.getsockname(), "peer": connection.getpeername()}
    data = os.urandom(1 << 20)
    # Longer than the receiver reads: if the sender is not notified, the benchmark stops it.
    connection.settimeout(600)
    try:
        while True:
            connection.sendall(data)
    except ConnectionError:
        return addresses


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(address, seconds, rate):
    gap = 1 / float(rate)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    number = os.getpid() & 0xFFFF
    begun = time.monotonic()
    sent, times = {}, []
    while (now := time.monotonic()) < begun + float(seconds) + 1:
        if now < begun + float(seconds) and now >= begun + gap * len(sent):
            sequence = len(sent)
            body = struct.pack("!HH", number, sequence) + bytes(48)
            echo = struct.pack("!BBH", 8, 0, checksum(b"\x08\0\0\0" + body)) + body
            raw.sendto(echo, (address, 0))
            sent[sequence] = now
        wait = max(0, min(gap, begun + gap * len(sent) - time.monotonic()))
        if select.select([raw], [], [], wait)[0]:
            packet = raw.recv(2048)
            now = time.monotonic()
            kind, _, _, own, sequence = struct.unpack("!BBHHH", packet[20:28])
            if kind == 0 and own == number and (start := sent.get(sequence)) is not None:
                times.append(1000 * (now - start))
    return {"ms": times, "sent": len(sent)}


def echo(port):
    connection, _ = listen(int(port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(65536):
        connection.sendall(data)
    return {}


def talk(address, port, seconds):
    connection = socket.create_connection((address, int(port)), PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message, times = bytes(MESSAGE), []
    end = time.monotonic() + float(seconds)
    while (start := time.monotonic()) < end:
        connection.sendall(message)
        left = MESSAGE
        while left > 0:
            count = len(connection.recv(left))
            if count == 0:
                raise ConnectionError("the other end closed")
            left -= count
        times.append(1e6 * (time.monotonic() - start))
    return {"us": times}


def answer(port):
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    listener = socket.create_server(("", int(port)))
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while not over:
        for key, _ in waiting.select(0.1):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting.register(connection, selectors.EVENT_READ)
                continue
            try:
                data = key.fileobj.recv(65536)
                if data:
                    key.fileobj.sendall(data)
                    continue
            except ConnectionError:
                pass
            waiting.unregister(key.fileobj)
            key.fileobj.close()
    return {}


def ask(address, port, count, seconds):
    waiting, times = selectors.DefaultSelector(), []
    connections = [socket.create_connection((address, int(port)), PATIENCE) for _ in range(int(count))]
    message, begun = bytes(MESSAGE), {}
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(connection, selectors.EVENT_READ, [0])
        begun[connection] = time.monotonic()
        connection.sendall(message)
    end = time.monotonic() + float(seconds)
    while (left := end - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            data = key.fileobj.recv(MESSAGE)
            if not data:
                raise ConnectionError("the other end closed")
            key.data[0] += len(data)
            if key.data[0] == MESSAGE:
                key.data[0] = 0
                now = time.monotonic()
                times.append(1e6 * (now - begun[key.fileobj]))
                begun[key.fileobj] = now
                key.fileobj.sendall(message)
    # Pending messages count with their time so far, so that stalled ones show.
    now = time.monotonic()
    return {"us": times + [1e6 * (now - start) for start in begun.values()]}


def call(address, port, seconds, rate, size=160):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic()) < begun + float(seconds):
        if now < begun + sent / float(rate):
            time.sleep(begun + sent / float(rate) - now)
            continue
        sender.sendto(struct.pack("!Id", sent, now) + bytes(int(size) - 12), (address, int(port)))
        sent += 1
    return {"sent": sent}


def hear(port, seconds):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", int(port)))
    print("ready", flush=True)
    end, numbers, times, delays = time.monotonic() + float(seconds), set(), [], []
    while (left := end - time.monotonic()) > 0:
        if select.select([receiver], [], [], left)[0]:
            number, sent = struct.unpack_from("!Id", receiver.recv(2048))
            now = time.monotonic()
            # The application takes the first copy.
            if number in numbers:
                continue
            numbers.add(number)
            times.append(now)
            delays.append(1000 * (now - sent))
    gaps = [1000 * (later - earlier) for earlier, later in zip(times, times[1:])]
    return {"numbers": sorted(numbers), "longest_gap_ms": max(gaps, default=0), "delays_ms": delays}


def stream(address, port, seconds, mbps, control):
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.connect((address, int(port)))
    piece, begun, sent = bytes(int(float(mbps) * 1e6 / 8 / 100)), time.monotonic(), 0
    while (now := time.monotonic()) < begun + float(seconds):
        if now < begun + sent / 100:
            time.sleep(begun + sent / 100 - now)
            continue
        connection.sendall(piece)
        sent += 1
    return {"bytes": sent * len(piece)}


def watch(port, seconds):
    connection, _ = listen(int(port))
    begun = last = time.monotonic()
    total, gaps = 0, []
    while (left := begun + float(seconds) - time.monotonic()) > 0:
        if select.select([connection], [], [], left)[0]:
            count = len(connection.recv(1 << 18))
            if count == 0:
                break
            now = time.monotonic()
            total += count
            gaps.append(1000 * (now - last))
            last = now
    return {"bytes": total, "longest_gap_ms": max(gaps, default=0), "stalls": sum(gap > 200 for gap in gaps)}


ROLES = {role.__name__: role for role in (receive, send, fetch, give, ping, echo, talk, answer, ask, call, hear, stream, watch)}

if __name__ == "__main__":
    try:
        print(json.dumps(ROLES[sys.argv[1]](*sys.argv[2:])))
    except (IndexError, KeyError, TypeError):
        sys.exit(__doc__)
    except OSError as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error}")

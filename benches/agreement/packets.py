"""Packets of a run at its ends, from the lab's pcapng files and the simulator's trace, in one format."""
import csv
import io
import struct
from dataclasses import dataclass

FIN, SYN, RST, ACK = 1, 2, 4, 16
FLAGS = {"FIN": FIN, "SYN": SYN, "RST": RST, "ACK": ACK}


@dataclass(frozen=True)
class Packet:
    """TCP packet at the end of a link. Numbers are those on the wire until `relative` converts them to offsets."""

    time: float
    point: str
    outbound: bool
    source: tuple
    seq: int
    ack: int
    length: int
    flags: int
    sack: tuple = ()
    why: str = ""

    @property
    def is_ack(self):
        return self.length == 0 and self.flags & ACK and not self.flags & (SYN | FIN | RST)


def blocks(data):
    """Yields type and body of each block of a little-endian pcapng file."""
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or at + length > len(data):
            raise RuntimeError(f"a pcapng block at byte {at} has {length} bytes")
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(body, at):
    found = {}
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            break
        found.setdefault(code, []).append(body[at + 4:at + 4 + length])
        at += 4 + (length + 3) // 4 * 4
    return found


def from_pcapng(path):
    """Returns the TCP packets of a capture of `lasthop lab --pcapng`."""
    with open(path, "rb") as file:
        data = file.read()
    points, packets = [], []
    for kind, body in blocks(data):
        if kind == 1:
            points.append(options(body, 8).get(2, [b""])[0].decode())
        elif kind == 6:
            point, high, low, captured, _ = struct.unpack_from("<IIIII", body)
            about = options(body, 20 + (captured + 3) // 4 * 4)
            flags = struct.unpack("<I", about.get(2, [b"\0\0\0\0"])[0])[0]
            comments = ", ".join(text.decode() for text in about.get(1, []))
            packet = read(body[20:20 + captured], (high << 32 | low) / 1e9, points[point], flags & 3 == 2, comments)
            if packet:
                packets.append(packet)
    return packets


def read(frame, time, point, outbound, why):
    """Returns the packet in an Ethernet frame with IPv4 and TCP; None for any other frame."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[14] >> 4 != 4 or frame[23] != 6:
        return None
    total = struct.unpack_from(">H", frame, 16)[0]
    tcp = 14 + (frame[14] & 15) * 4
    port, _, seq, ack = struct.unpack_from(">HHII", frame, tcp)
    header = (frame[tcp + 12] >> 4) * 4
    sack, at = [], tcp + 20
    while at < tcp + header and frame[at] != 0:
        if frame[at] == 1:
            at += 1
            continue
        if frame[at] == 5:
            numbers = struct.unpack_from(f">{(frame[at + 1] - 2) // 4}I", frame, at + 2)
            sack += zip(numbers[::2], numbers[1::2])
        at += max(frame[at + 1], 2)
    length = total - (tcp - 14) - header
    return Packet(time, point, outbound, (frame[26:30], port), seq, ack, length, frame[tcp + 13], tuple(sack), why)


def from_trace(text):
    """Returns the TCP packets of `lasthop trace --csv`, and the names of all other events of the ends, in order."""
    packets, events = [], []
    for row in csv.DictReader(io.StringIO(text)):
        outbound = {"sent": True, "retransmitted": True, "received": False}.get(row["event"])
        if outbound is None:
            if row["event"] not in ("dropped", "window"):
                events.append((float(row["time"]), row["point"], row["event"]))
            continue
        flags = sum(FLAGS.get(name, 0) for name in row["flags"].split("|"))
        sack = tuple(tuple(map(int, block.split("-"))) for block in row["sack"].split())
        packets.append(Packet(float(row["time"]), row["point"], outbound, (row["from"],), int(row["seq"]), int(row["ack"] or 0),
                              int(row["len"]), flags, sack, row["reason"]))
    return packets, events


def relative(packets):
    """Converts numbers to offsets from the first byte after each side's SYN, and times to offsets from the first
    packet."""
    starts, peers = {}, {}
    for packet in packets:
        if packet.flags & SYN:
            starts.setdefault(packet.source, packet.seq + 1)
    for packet in packets:
        peers.setdefault(packet.source, next((source for source in starts if source != packet.source), None))
    begin = packets[0].time if packets else 0.0
    result = []
    for packet in packets:
        own, other = starts.get(packet.source, 0), starts.get(peers[packet.source], 0)
        sack = tuple(((left - other) % 2**32, (right - other) % 2**32) for left, right in packet.sack)
        seq = -1 if packet.flags & SYN else (packet.seq - own) % 2**32
        ack = (packet.ack - other) % 2**32 if packet.flags & ACK else 0
        result.append(Packet(packet.time - begin, packet.point, packet.outbound, packet.source, seq, ack, packet.length,
                             packet.flags, sack, packet.why))
    return result

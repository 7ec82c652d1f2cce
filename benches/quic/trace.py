"""What a device at the sender's side of a hop sees of one QUIC connection, and the fate of each packet.

A trace is a CSV file: comment lines `# KEY VALUE`, a header, and one packet per line, in order of time:

    time_us   time at the device, since the start of the lab
    kind      `>` data direction, arrived; `x` lost on the hop; `u` lost in a queue before the device, which never had
              it (time of the next packet that it had); `q` lost in a queue behind the hop;
              `<` returning, arrived at the device
    length    bytes of UDP payload

Time and length of `>`, `x`, `q` and `<` are what the device sees; their difference, and the lines `u`, are the truth
that only the lab knows.
"""
import collections
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "live"))

import pcapng  # noqa: E402

Packet = collections.namedtuple("Packet", "time kind length")
UDP = 17
# Datagrams that may have changed places between two points.
SWAPPED = 0.01


def datagrams(path):
    """Returns the UDP datagrams of a capture by (interface, is outbound), in order of time: time (us), flow (addresses
    and ports, the lower first), direction (the sender's address), bytes of payload, and fate: `None` if it arrived."""
    with open(path, "rb") as file:
        data = file.read()
    names, found = [], collections.defaultdict(list)
    for kind, body in pcapng.blocks(data):
        if kind == pcapng.INTERFACE:
            names.append(dict(pcapng.options(body, 8)).get(pcapng.IF_NAME, b"").decode())
        if kind != pcapng.PACKET:
            continue
        on, high, low, captured, _ = struct.unpack_from("<IIIII", body)
        # Ethernet's header precedes the IP packet.
        packet = body[34:20 + captured]
        if packet[0] >> 4 != 4 or packet[9] != UDP:
            continue
        fate, flags = None, 0
        for code, value in pcapng.options(body, 20 + (captured + 3) // 4 * 4):
            if code == pcapng.COMMENT and value.startswith(b"dropped: "):
                fate = value[9:].decode()
            elif code == pcapng.FLAGS:
                flags = struct.unpack("<I", value)[0]
        source, port, to_port, length = struct.unpack_from(">IHHH", packet[12:16] + packet[(packet[0] & 15) * 4:])
        target, = struct.unpack_from(">I", packet, 16)
        flow = tuple(sorted([(source, port), (target, to_port)]))
        time = (high << 32 | low) / 1000
        found[names[on], flags & 3 == pcapng.OUTBOUND].append((time, flow, source, length - 8, fate))
    return found


def reduced(path, way):
    """Returns the packets of the connection with the most bytes in a capture of stacks.py, as the device sees them: at
    the box for downloads (`way` is "down"), at the client for uploads ("up").

    Raises ValueError if the datagrams of two points cannot be assigned to each other.
    """
    seen = datagrams(path)
    point = "box:hop" if way == "down" else "client"
    sizes = collections.Counter()
    for _, flow, _, length, _ in seen[point, True]:
        sizes[flow] += length
    if not sizes:
        return []
    flow = sizes.most_common(1)[0][0]
    data, back, wire = ([one for one in seen[key] if one[1] == flow] for key in
                        ((point, True), (point, False), ("server" if way == "down" else "box:wire", True)))
    packets, pairs = [Packet(time, "<", length) for time, _, _, length, _ in back], []
    if way == "down":
        # In the order in which the server sent them; what the queue dropped lies before the next that arrived.
        arrivals = iter(data)
        ghosts = []
        for _, _, _, length, fate in wire:
            if fate:
                ghosts.append(length)
                continue
            one = next(arrivals, None)
            if one is None:
                break
            pairs.append((length, one[3]))
            packets += [Packet(one[0], "u", lost) for lost in ghosts]
            packets.append(Packet(one[0], "x" if one[4] else ">", one[3]))
            ghosts = []
    else:
        source = data[0][2]
        onward = iter([one for one in wire if one[2] == source])
        for time, _, _, length, fate in data:
            next_hop = None if fate else next(onward, None)
            if next_hop:
                pairs.append((length, next_hop[3]))
            packets.append(Packet(time, "x" if fate else "q" if next_hop and next_hop[4] else ">", length))
    check(pairs, path)
    # Sorting is stable: lost packets stay before the next one of the same time.
    return sorted(packets, key=lambda packet: packet.time)


def check(pairs, path):
    """Checks that two points show the same datagrams, given pairs of their lengths. A few may have changed places.

    Raises ValueError if more differ: then it is uncertain which of them a queue dropped.
    """
    different = sum(sent != arrived for sent, arrived in pairs)
    if different > SWAPPED * len(pairs):
        raise ValueError(f"{path}: {different} of {len(pairs)} datagrams have another length at the next point; a queue's drops cannot be assigned")


def write(path, about, packets):
    """Writes a trace; `about` is a dictionary of facts about the run."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.writelines(f"# {key} {value}\n" for key, value in about.items())
        file.write("time_us,kind,length\n")
        file.writelines(f"{packet.time:.1f},{packet.kind},{packet.length}\n" for packet in packets)
    os.replace(path + ".part", path)


def read(path):
    """Returns the facts about a run and its packets.

    Raises ValueError with file and line if a line is not of a trace.
    """
    about, packets = {}, []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("# "):
                key, _, value = line[2:].rstrip("\n").partition(" ")
                about[key] = value
            elif not line.startswith("time_us,"):
                try:
                    time, kind, length = line.split(",")
                    packet = Packet(float(time), kind, int(length))
                except ValueError:
                    packet = None
                if packet is None or packet.kind not in (">", "x", "u", "q", "<"):
                    raise ValueError(f"{path}:{number}: not a packet: {line.strip()!r}; expected time_us,kind,length")
                packets.append(packet)
    return about, packets

"""Contents of the lab's captures: packets with data, and their fate on the emulated links."""
import struct

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
COMMENT, IF_NAME, TSRESOL, FLAGS = 1, 2, 9, 2
OUTBOUND = 2


def blocks(data):
    """Yields type and body of each block; the lab writes little-endian files."""
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(body, at):
    """Yields code and value of each option."""
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            return
        yield code, body[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


def data_packets(path, interface):
    """Returns the packets with TCP data that left at an interface, in order: `number` in the file (from 1), `at` (s),
    `bytes` of the IP packet, `sent` (ports, sequence number, count of the transmission), and `fate`: "channel",
    "queue", or `None` if it arrived."""
    with open(path, "rb") as file:
        data = file.read()
    names, ticks, number, often, found = [], [], 0, {}, []
    for kind, body in blocks(data):
        if kind == INTERFACE:
            known = dict(options(body, 8))
            names.append(known.get(IF_NAME, b"").decode())
            ticks.append(10.0 ** -known.get(TSRESOL, b"\x06")[0])
        if kind != PACKET:
            continue
        number += 1
        on, high, low, captured, _ = struct.unpack_from("<IIIII", body)
        if names[on] != interface:
            continue
        comments, flags = [], 0
        for code, value in options(body, 20 + (captured + 3) // 4 * 4):
            if code == COMMENT:
                comments.append(value.decode())
            elif code == FLAGS:
                flags = struct.unpack("<I", value)[0]
        # Ethernet's header precedes the IP packet.
        packet = body[34:20 + captured]
        if flags & 3 != OUTBOUND or packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        tcp = packet[(packet[0] & 15) * 4:]
        length = struct.unpack_from(">H", packet, 2)[0]
        if length <= (packet[0] & 15) * 4 + (tcp[12] >> 4) * 4:
            continue
        sent = struct.unpack_from(">HHI", tcp)
        often[sent] = often.get(sent, 0) + 1
        fate = next((comment.removeprefix("dropped: ") for comment in comments if comment.startswith("dropped: ")), None)
        found.append({"number": number, "at": ((high << 32) + low) * ticks[on], "bytes": length, "sent": (*sent, often[sent]), "fate": fate})
    return found

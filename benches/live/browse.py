"""Web pages and calls between two network namespaces over the kernel's sockets, with the simulator's applications
(docs/models/applications.md). One process runs both ends, so that one clock times everything.

    browse.py pages CLIENT SERVER SECONDS SEED CONTROL    pages that were complete, and when the last one was
    browse.py call CLIENT SERVER SECONDS DEADLINE         of each way: packets sent, lost, late, and the score; DEADLINE in seconds

CLIENT and SERVER are NAMESPACE=ADDRESS. Prints one line of JSON.
"""
import ctypes
import json
import math
import os
import queue
import random
import socket
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "lasthop-sim", "data", "http")
# Maximum number of objects in flight.
AT_ONCE = 6
# Size that replaces a size of 0.
NOTHING = 1000
# G.711: payload and RTP header, seconds between packets, and robustness to losses (ITU-T G.113, Appendix I, with
# concealment).
FRAME, INTERVAL, IE, BPL = 160 + 12, 0.02, 0.0, 25.1
EXPEDITED = 0xB8
# First port of the listeners and calls.
PORT = 5000
# Maximum time in seconds for which a transfer may hang.
PATIENCE = 120


class Place:
    """Namespace with its host's address. Sockets stay in the namespace of the thread that created them."""

    def __init__(self, words):
        self.namespace, self.address = words.split("=")

    def enter(self):
        with open(f"/run/netns/{self.namespace}", encoding="ascii") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")


def distribution(name):
    """Returns values and their observed frequencies."""
    with open(os.path.join(DATA, name), encoding="ascii") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [int(row[0]) for row in rows], [int(row[1]) for row in rows]


class Pages:
    """User who requests one page after another: first the request, then the page, then its objects, several at a time.
    A transfer is complete when its last byte is acknowledged."""

    def __init__(self, client, server, seconds, seed, control):
        self.client, self.server, self.control = client, server, control.encode()
        self.draws = random.Random(int(seed))
        self.sizes = {name: distribution(f"Http{name}.cdf") for name in ("RequestLength", "ReplyLength", "Connections")}
        self.seconds, self.pages, self.last = float(seconds), 0, 0.0
        self.ready = threading.Barrier(3)
        self.failed = []
        self.work, self.done = [queue.Queue() for _ in range(AT_ONCE)], queue.Queue()

    def draw(self, name):
        return self.draws.choices(*self.sizes[name])[0]

    def exchange(self):
        return [self.draw(name) or NOTHING for name in ("RequestLength", "ReplyLength")]

    def take(self, place):
        """Accepts connections, reads each to its end and closes it."""
        place.enter()
        listener = socket.create_server((place.address, PORT), backlog=64)
        self.ready.wait()

        def read(connection):
            with connection:
                try:
                    while connection.recv(1 << 18):
                        pass
                except OSError:
                    pass

        while True:
            connection, _ = listener.accept()
            threading.Thread(target=read, args=(connection,), daemon=True).start()

    def send(self, place, other, count):
        """Runs a transfer; the other end's close after the last byte is the acknowledgment."""
        with socket.socket() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.control)
            connection.settimeout(PATIENCE)
            connection.bind((place.address, 0))
            connection.connect((other.address, PORT))
            connection.sendall(bytes(count))
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1):
                raise OSError("the other end sent something")

    def pair(self, place, other, mine, next_of):
        """Runs one end of a pair: transfers, one after the other."""
        place.enter()
        while (sizes := mine.get()) is not None:
            try:
                self.send(place, other, sizes[0])
            except OSError as error:
                self.failed.append(f"{place.namespace}: {error}")
            next_of(sizes[1:])

    def browse(self):
        for pair in range(AT_ONCE):
            replies = queue.Queue()
            ends = [(self.client, self.server, self.work[pair], replies.put), (self.server, self.client, replies, lambda _, pair=pair: self.done.put(pair))]
            for end in ends:
                threading.Thread(target=self.pair, args=end, daemon=True).start()
        for place in (self.client, self.server):
            threading.Thread(target=self.take, args=(place,), daemon=True).start()
        self.ready.wait()
        begun = time.monotonic()
        left = lambda: begun + self.seconds - time.monotonic()
        try:
            while True:
                page, objects = self.exchange(), [self.exchange() for _ in range(self.draw("Connections"))]
                self.work[0].put(page)
                self.done.get(timeout=max(left(), 0))
                under_way = 0
                for pair in range(min(AT_ONCE, len(objects))):
                    self.work[pair].put(objects.pop())
                    under_way += 1
                while under_way:
                    pair = self.done.get(timeout=max(left(), 0))
                    under_way -= 1
                    if objects:
                        self.work[pair].put(objects.pop())
                        under_way += 1
                self.pages, self.last = self.pages + 1, time.monotonic() - begun
        except queue.Empty:
            pass
        if self.failed:
            raise OSError(self.failed[0])
        return {"pages": self.pages, "seconds": self.last, "value": 60 * self.pages / self.last if self.pages else 0.0}


def speak(place, other, port, begun, seconds, sent):
    place.enter()
    with socket.socket(type=socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, EXPEDITED)
        out.bind((place.address, 0))
        out.connect((other.address, port))
        for number in range(int(seconds / INTERVAL)):
            time.sleep(max(0.0, begun + number * INTERVAL - time.monotonic()))
            sent.append(time.monotonic())
            try:
                out.send(struct.pack("!I", number) + bytes(FRAME - 4))
            except OSError:
                # Lost, like on the path.
                pass


def listen(place, port, ready, until, arrived):
    place.enter()
    with socket.socket(type=socket.SOCK_DGRAM) as into:
        into.bind((place.address, port))
        ready.wait()
        while (left := until() - time.monotonic()) > 0:
            into.settimeout(left)
            try:
                data = into.recv(2048)
            except TimeoutError:
                return
            arrived.setdefault(struct.unpack("!I", data[:4])[0], time.monotonic())


def call(client, server, seconds, deadline):
    """Runs both directions at the same time. A packet that arrives after the deadline is lost to the listener."""
    seconds, deadline = float(seconds), float(deadline)
    ways = {"in": (server, client, PORT + 1), "out": (client, server, PORT + 2)}
    ready, begun = threading.Barrier(len(ways) + 1), None
    sent, arrived, threads = {way: [] for way in ways}, {way: {} for way in ways}, []
    end = lambda: (begun or time.monotonic()) + seconds + deadline + 1
    for way, (_, to, port) in ways.items():
        threads.append(threading.Thread(target=listen, args=(to, port, ready, end, arrived[way]), daemon=True))
        threads[-1].start()
    ready.wait()
    begun = time.monotonic() + 0.1
    for way, (of, to, port) in ways.items():
        threads.append(threading.Thread(target=speak, args=(of, to, port, begun, seconds, sent[way]), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(seconds + deadline + 30)
    found = {}
    for way in ways:
        # Packets are due that would have been played before the end.
        due = [number for number, at in enumerate(sent[way]) if at + deadline <= begun + seconds]
        lost = sum(number not in arrived[way] for number in due)
        missed = [arrived[way].get(number, math.inf) > sent[way][number] + deadline for number in due]
        found[way] = {"sent": len(due), "lost": lost, "late": sum(missed) - lost, "score": score(missed, deadline)}
    return {**found, "value": sum(one["score"] for one in found.values()) / len(found)}


def score(missed, deadline):
    """Returns the mean opinion score of speech with these missed packets, played `deadline` seconds after they left:
    the E-model of ITU-T G.107 with its default values."""
    share = sum(missed) / len(missed)
    runs = sum(lost and not before for lost, before in zip(missed, [False, *missed]))
    ratio = max(1.0, sum(missed) / runs * (1 - share)) if runs else 1.0
    rating = unimpaired(1e3 * (INTERVAL + deadline)) - IE - (95 - IE) * 100 * share / (100 * share / ratio + BPL)
    if rating <= 0:
        return 1.0
    return 4.5 if rating >= 100 else 1 + 0.035 * rating + rating * (rating - 60) * (100 - rating) * 7e-6


def unimpaired(delay):
    """Returns Ro - Is - Id of G.107 (06/2015), sections 7.2 to 7.4, for a mean delay in ms and default values."""
    slr, rlr, stmr, ds, dr, telr, wepl, qdu, nc, nfor, room = 8, 2, 15, 3, 3, 65, 110, 1, -70, -64, 35
    olr = slr + rlr
    power = lambda db: 10 ** (db / 10)
    nos = room - slr - ds - 100 + 0.004 * (room - olr - ds - 14) ** 2
    pre = room + 10 * math.log10(1 + power(10 - stmr - dr))
    nor = rlr - 121 + pre + 0.008 * (pre - 35) ** 2
    no = 10 * math.log10(power(nc) + power(nos) + power(nor) + power(nfor + rlr))
    ro = 15 - 1.5 * (slr + no)
    soft = lambda x, n: (1 + x**n) ** (1 / n)
    x = (olr + 0.2 * (64 + no - rlr)) / 8
    iolr = 20 * (soft(x, 8) - x)
    stmro = -10 * math.log10(power(-stmr) + math.exp(-delay / 4) * power(-telr))
    ist = 12 * soft((stmro - 13) / 6, 8) - 28 * soft((stmro + 1) / 19.4, 35) - 13 * soft((stmro - 3) / 33, 13) + 29
    q = 37 - 15 * math.log10(qdu)
    g = 1.07 + 0.258 * q + 0.0602 * q * q
    iq = 15 * math.log10(1 + 10 ** ((ro - 100) / 15 + 46 / 8.4 - g / 9) + 10 ** (46 / 30 - g / 40))
    terv = telr - 40 * math.log10((1 + delay / 10) / (1 + delay / 150)) + 6 * math.exp(-0.3 * delay**2)
    half = (-1.5 * (no - rlr) - (80 + 2.5 * (terv - 14))) / 2
    idte = (half + math.sqrt(half**2 + 100) - 1) * (1 - math.exp(-delay)) if delay >= 1 else 0
    half = (ro - 10.5 * (wepl + 7) * (2 * delay + 1) ** -0.25) / 2
    idle = half + math.sqrt(half**2 + 169)
    x = math.log2(max(delay, 100) / 100)
    idd = 25 * (soft(x, 6) - 3 * soft(x / 3, 6) + 2)
    return ro - iolr - ist - iq - idte - idle - idd


def main():
    what, client, server, *rest = sys.argv[1:]
    client, server = Place(client), Place(server)
    return Pages(client, server, *rest).browse() if what == "pages" else call(client, server, *rest)


if __name__ == "__main__":
    try:
        found = main()
    except (ValueError, TypeError):
        sys.exit(__doc__)
    except OSError as error:
        sys.exit(f"browse.py: {error}")
    print(json.dumps(found), flush=True)
    # Do not wait for waiting threads.
    os._exit(0)

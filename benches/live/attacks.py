#!/usr/bin/env python3
"""Attacks connections over a lossy last hop, with and without lasthop's gateway: nothing may be worse with it.

    sender -- wire -- gateway -- lossy hop -- receiver        each in a namespace of its own; forgers on either side of the gateway

Each attack runs without the gateway and with each variant of it in turn, with the same seeds: bulk downloads for some
seconds or, with --transfers, that many small connections, --at-once of them open. The receiver checks every byte, and
the end of the stream. A variant is worse if

    bytes       are corrupt, forged or missing, and without the gateway they were not
    connections were silenced or broken, and without the gateway none were; if some were broken in this attack without
                it as well, more than chance explains (Fisher's exact test, cell by cell and over all cells of a variant;
                all tests of an attack together have a false alarm once in a hundred calls)
    silence     of a bulk download is 3 s longer than without the gateway
    goodput     is below 95 % of that without the gateway (median of the pairs, one per seed)

or if the gateway treated less than half of the packets, so that nothing was tested; or if a forged segment that was
meant to lie outside the receiver's window was inside it.

    sudo python3 benches/live/attacks.py                                          # all, quickly
    sudo python3 benches/live/attacks.py --list
    sudo python3 benches/live/attacks.py --attacks damage,poison --transfers 10000 --rate 100 --require
"""
import contextlib
import dataclasses
import itertools
import json
import math
import os
import signal
import statistics
import sys
import time

from arena import MAC, Arena
from chance import chance_of_more
from common import HERE, Gateway, Program, arguments, bare_forwarder, check_built, check_machine, chosen, end_with, example_argument, note, run, table

PORT = 5001
MODES = ("snoop", "split", "bare")
# Maximum time of a run beyond its duration, in seconds.
PATIENCE = 300
# Ports of the caller: enough that none is reused in a run. Otherwise a delayed forged packet could hit a new connection
# with the ports of its target.
PORTS = [10_000, 59_999]
LEAST_GOODPUT = 0.95
LONGER_SILENCE = 3.0
LEAST_TREATED = 0.5
# Probability of a false alarm in the comparisons of counts for one attack, in total.
FALSE_ALARMS = 0.01
# Forged packets also break one in thousands of connections without a gateway, at the moment when it opens or closes. So
# does a bit error in a SYN's hop limit, which no checksum of IPv6 covers: a router reports that it has expired, and the
# caller believes it (RFC 8200 §3, RFC 4443 §3.3). This many more in a cell are acceptable.
BROKEN_BY_CHANCE = 2
FORGERY = os.path.join(HERE, "forge.py")
TRANSFERS = os.path.join(HERE, "transfers.py")


@dataclasses.dataclass
class Attack:
    """Attack on connections. `forge` names attacks of forge.py that alternate, with `pace` packets per second for each
    bulk download, from `begin` on for `seconds`; `wire` and `lossy` are settings of the links besides loss; `plan`
    modifies the plan of transfers.py; `prepare` and `during` modify the arena."""
    finding: str
    about: str
    forge: tuple = ()
    pace: float = 50
    begin: float = 1.5
    seconds: float = math.inf
    wire: str = ""
    lossy: str = ""
    plan: dict = dataclasses.field(default_factory=dict)
    prepare: object = None
    during: object = None
    modes: tuple = MODES
    paths: tuple = ("routed", "bridge")
    families: tuple = (4, 6)
    # The attack does harm without a gateway as well: counts are compared, rather than required to be zero.
    harmful: bool = False
    # Program beside the downloads, from the time when the server is ready: maps (arena, args, family) to a command,
    # preceded by its node.
    beside: object = None
    # Attack that has the same connections without this attack's addition; at least 95 % of its goodput must be left
    # with the gateway as well.
    compared_with: str = ""
    # Replacement for downloads at the ends: maps (arena, args, family) to the result of `outcome`.
    ends: object = None

    @property
    def damages(self):
        """Returns whether links cause bit errors."""
        return "damage=" in self.wire + self.lossy


def iptables(family):
    return "iptables" if family == 4 else "ip6tables"


def masquerade(arena, args, family):
    del args
    run(iptables(family), "-w", "-t", "nat", "-A", "POSTROUTING", "-o", "wired", "-j", "MASQUERADE", namespace=arena.namespace("gateway"))


def forward(arena, args, family):
    """Forwards port 6001 of the gateway to port 5001 of the server."""
    address = arena.address("sender", family)
    to = f"{address}:{PORT}" if family == 4 else f"[{address}]:{PORT}"
    run(iptables(family), "-w", "-t", "nat", "-A", "PREROUTING", "-i", "wireless", "-p", "tcp", "--dport", "6001", "-j", "DNAT", "--to-destination", to, namespace=arena.namespace("gateway"))
    arena.target = ("10.2.0.1" if family == 4 else "fd02::1", 6001)


def later(seconds, *commands):
    """Returns a function that runs shell commands at the gateway during the run."""
    def during(arena, args, family, gateway):
        del args, family
        if gateway:
            time.sleep(seconds)
            for command in commands:
                run("sh", "-c", command, namespace=arena.namespace("gateway"))
    return during


def freeze(arena, args, family, gateway):
    """Stops supervisor and worker."""
    del arena, args, family
    if gateway:
        time.sleep(2)
        with gateway.frozen():
            time.sleep(5)


def killed_twice(arena, args, family, gateway):
    """Kills the worker and its replacement, as the kernel does when memory runs out."""
    del arena, args, family
    if gateway:
        for _ in range(2):
            time.sleep(2)
            os.kill(gateway.worker(), signal.SIGKILL)


CONNTRACK_MAX = "/proc/sys/net/netfilter/nf_conntrack_max"


@contextlib.contextmanager
def small_conntrack_table(most):
    """Limits the kernel's connection tracking to `most` entries; all namespaces share the limit."""
    with open(CONNTRACK_MAX, "r+", encoding="ascii") as limit:
        before = limit.read()
        limit.seek(0)
        limit.write(str(most))
    try:
        yield
    finally:
        with open(CONNTRACK_MAX, "w", encoding="ascii") as limit:
            limit.write(before)


def conntrack_full(arena, args, family):
    """Makes the gateway track connections in a table of 128 entries."""
    del args
    arena.resources.enter_context(small_conntrack_table(128))
    run(iptables(family), "-w", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "NEW,ESTABLISHED", "-j", "ACCEPT", namespace=arena.namespace("gateway"))


def sprayed(arena, args, family):
    """Sends 500 new flows a second, from the time when the downloads are under way: they keep the table full."""
    del args
    return "receiver", [sys.executable, os.path.join(HERE, "spray.py"), arena.address("sender", family), "500", "2"]


def of_ends(**values):
    """Sets kernel parameters of both ends; `__` stands for a dot."""
    def prepare(arena, args, family):
        del args, family
        for node in ("sender", "receiver"):
            arena.parameters(node, {name.replace("__", "."): value for name, value in values.items()})
    return prepare


def narrower(mtu):
    """Limits the sender's packets to `mtu` bytes, so that additions by the links fit."""
    def prepare(arena, args, family):
        del args, family
        run("ip", "link", "set", "s0", "mtu", str(mtu), namespace=arena.namespace("sender"))
    return prepare


def any_port(arena, args, family):
    """Makes split accept connections to any port."""
    del args, family
    arena.any_port = True


def second_address(arena, args, family):
    """Gives the receiver a second address."""
    del args
    address, length = ("10.2.0.9", 24) if family == 4 else ("fd02::9", 64)
    run("ip", "addr", "add", f"{address}/{length}", "dev", "r0", *(["nodad"] if family == 6 else []), namespace=arena.namespace("receiver"))
    run("ip", "neigh", "replace", address, "lladdr", MAC["r0"], "dev", "wireless", "nud", "permanent", namespace=arena.namespace("gateway"))
    return address


def subflows(arena, args, family):
    """Sets up Multipath TCP with two addresses of the receiver."""
    address = second_address(arena, args, family)
    for node in ("sender", "receiver"):
        run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2", namespace=arena.namespace(node))
    run("ip", "mptcp", "endpoint", "add", address, "dev", "r0", "subflow", namespace=arena.namespace("receiver"))


def silent(count, leaves=False):
    def beside(arena, args, family):
        source = [second_address(arena, args, family), "r0"] if leaves else []
        return "receiver", [sys.executable, os.path.join(HERE, "silent.py"), arena.address("sender", family), str(PORT), "0", str(count), *source]
    return beside


def crossing(arena, args, family):
    """Both ends open connections to each other at the same time."""
    at, count, script = time.time() + 2, 20, os.path.join(HERE, "crossing.py")
    whole = []
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(Program(arena.namespace(node), sys.executable, script, arena.address(peer, family), "20000", str(count), str(at)))
                for node, peer in (("sender", "receiver"), ("receiver", "sender"))]
        whole = [end.result(args.seconds + PATIENCE) for end in ends]
    broken = max(count - fates.get("whole", 0) for fates in whole)
    return {"connections": count, "counts": dict.fromkeys((*BAD, *BROKEN), 0) | {"failed": broken}, "mbps": 0.0, "seconds": 0.0, "gap": 0.0, "details": [str(fates) for fates in whole if broken]}


def tagged(tags):
    """Sends frames with VLAN tags across the bridge; the share that arrives replaces goodput."""
    def ends(arena, args, family):
        del args, family
        script = os.path.join(HERE, "tagged.py")
        with contextlib.ExitStack() as stack:
            counter = stack.enter_context(Program(arena.namespace("receiver"), sys.executable, script, "count", "r0"))
            counter.line()
            sent = stack.enter_context(Program(arena.namespace("sender"), sys.executable, script, "send", "s0", "2000", str(tags))).result(60)["sent"]
            time.sleep(0.5)
            received = json.loads(counter.stop())["received"]
        return {"connections": 1, "counts": dict.fromkeys((*BAD, *BROKEN), 0), "mbps": received / sent, "seconds": 0.0, "gap": 0.0, "details": []}
    return ends


def full_disk(arena, args, family):
    """Records to a disk of 64 KiB."""
    del args, family
    arena.record = f"/tmp/{arena.prefix}disk"
    os.mkdir(arena.record)
    run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", arena.record)


FOREIGN = "*mangle\\n:PREROUTING ACCEPT\\n:INPUT ACCEPT\\n:FORWARD ACCEPT\\n:OUTPUT ACCEPT\\n:POSTROUTING ACCEPT\\nCOMMIT\\n" \
          "*filter\\n:INPUT ACCEPT\\n:FORWARD ACCEPT\\n:OUTPUT ACCEPT\\n-A FORWARD -m conntrack --ctstate INVALID -j DROP\\nCOMMIT\\n"
FLUSH = [f"{program} -w -t {name} -F" for program in ("iptables", "ip6tables") for name in ("mangle", "raw")]
RESTORE = [f"printf '{FOREIGN}' | {program}-restore -w" for program in ("iptables", "ip6tables")]
NO_RULES = [f"ip {family} rule | sed -n 's/^\\([0-9]*\\):.*fwmark.*/\\1/p' | while read n; do ip {family} rule del pref $n; done" for family in ("-4", "-6")]
ROUTED = ("routed",)
# The stream reaches the forged data ahead of it, and the window's edge is not there before the forgery: the window of a
# fixed buffer does not grow, and moves by at most its size while a forged segment is in flight.
LONGER = {"sizes": [200_000, 500_000], "buffer": 16_000}

ATTACKS = {
    "calm": Attack("", "losses alone, 2 % both ways"),
    "damage-data": Attack("C1", "one bit turned round in 2 % of the packets before the gateway", wire="down.damage=0.02"),
    "damage-acks": Attack("C2", "one bit turned round in 2 % of the packets from the hop", lossy="up.damage=0.02"),
    # Never both links of one direction: two bit errors in a packet can cancel out in its checksum.
    "damage": Attack("C1, C2", "one bit turned round in 2 % of all packets before the gateway, both ways", wire="down.damage=0.02", lossy="up.damage=0.02"),
    "damage-behind": Attack("", "the same behind the gateway, both ways", wire="up.damage=0.02", lossy="down.damage=0.02"),
    "blind-data": Attack("C3", "data with random numbers from the wired side, 50/s for 3 s", ("blind-data",), seconds=3),
    "blind-pairs": Attack("C3", "pairs of such segments, 0.6 s apart", ("blind-pairs",), pace=1 / 0.6, begin=1),
    "poison": Attack("C4", "data far ahead of the receiver's window, 200/s", ("poison",), pace=200, plan=LONGER),
    "poison-old": Attack("C4", "the same with old timestamps", ("poison-old",), pace=200, plan=LONGER),
    "poison-near": Attack("C4", "data about the window's edge that acknowledge what was never sent", ("poison-near",), pace=100),
    "masquerade": Attack("C5", "the gateway masquerades", prepare=masquerade, paths=ROUTED),
    "forward": Attack("C5", "the gateway forwards a port", prepare=forward, paths=ROUTED),
    "blind-rst": Attack("C6", "RST with random numbers, both sides, 50/s each", ("blind-rst-down", "blind-rst-up"), pace=100),
    "blind-syn": Attack("C6", "SYN with random numbers, both sides, 50/s each", ("blind-syn-down", "blind-syn-up", "blind-synack"), pace=150),
    "blind-fin": Attack("C6", "FIN with random numbers, both sides, 50/s each", ("blind-fin-down", "blind-fin-up"), pace=100),
    "blind-ack": Attack("C6", "acknowledgments with random numbers from the hop, windows of zero among them", ("blind-ack", "blind-window"), pace=100),
    "blind-opaque": Attack("C6", "options that nobody knows, random numbers, both sides", ("blind-opaque",), pace=50),
    "syn-flood": Attack("C7", "1,100 SYNs from unused addresses in 0.8 s while connections open", ("strangers",), pace=1375, seconds=0.8,
                        plan={"pause": 0.05, "at_once": 50, "least": 100}),
    "low-ports": Attack("C9", "callers' ports 600 to 660", plan={"ports": [600, 660], "at_once": 20, "least": 60}),
    "rules-flushed": Attack("C10", "tables mangle and raw are flushed by another program", during=later(1.5, *FLUSH), paths=ROUTED, plan={"pause": 0.05, "least": 100}),
    "rules-restored": Attack("C10", "another program restores its own rules, which drop what conntrack calls invalid", during=later(1.5, *RESTORE), paths=ROUTED, plan={"pause": 0.05, "least": 100}),
    "rules-rule": Attack("C10", "the routing rule goes", during=later(1.5, *NO_RULES), paths=ROUTED, modes=("split",), plan={"pause": 0.05, "least": 100}),
    "urgent": Attack("C11", "a byte of urgent data amid those of the caller", plan={"kind": "urgent", "sizes": [0, 0], "up": [200, 40_000], "least": 500}),
    "frozen": Attack("C13", "supervisor and worker stand still for 5 s", during=freeze),
    "lost-resets": Attack("C18", "the server resets at once, 2 % loss and 10 % on the hop", lossy="down.loss=0.1,up.loss=0.1", wire="down.loss=0.02,up.loss=0.02",
                          plan={"kind": "reset", "least": 600, "patience": 12, "sizes": [0, 0], "at_once": 100}, harmful=True),
    "outside": Attack("", "data just outside the window: acknowledged long since, or beyond its edge", ("outside",), pace=100),
    "overlap": Attack("", "other bytes under the numbers of what just passed", ("overlap",), pace=20, harmful=True),
    "future-stamps": Attack("", "timestamps from the future, on segments that move nothing", ("future-stamps",), pace=50),
    "future-echoes": Attack("", "echoes of timestamps that were never sent", ("future-echoes",), pace=50),
    "fin-near": Attack("", "FIN beyond the window and far below what is acknowledged", ("fin-near",), pace=25),
    "fin-under-way": Attack("", "FIN at an in-flight sequence number, which receivers accept", ("fin-under-way",), pace=25, harmful=True),
    "reset-near": Attack("", "RST in the window, not at the next number", ("reset-near",), pace=50),
    "syn-near": Attack("", "SYN and SYN-ACK near the next number, with other options", ("syn-near",), pace=50),
    "reset-sweep": Attack("", "RST over all numbers, 2^16 apart, 5,000/s", ("reset-sweep",), pace=5000),
    "syn-sweep": Attack("", "SYN over all numbers, 2^16 apart, 2,000/s", ("syn-sweep",), pace=2000),
    "zero-window": Attack("", "windows of zero on old acknowledgments and on such of what was never sent", ("zero-window",), pace=50),
    "zero-window-now": Attack("", "windows of zero on acknowledgments as they are", ("zero-window-now",), pace=50),
    "replay": Attack("", "true packets again, up to some seconds later, both sides", ("replay",), pace=100),
    "blocks-under-way": Attack("", "SACK blocks of data in flight, which senders accept", ("blocks-under-way",), pace=10, harmful=True),
    "duplicates-now": Attack("", "the newest acknowledgment again, in fours", ("duplicates-now",), pace=10, harmful=True),
    "wide-window": Attack("", "wide windows on old acknowledgments", ("wide-window",), pace=50),
    "ack-ahead": Attack("", "acknowledgments of what was never sent", ("ack-ahead",), pace=50),
    "forged-blocks": Attack("", "SACK blocks of what was never sent and of what is long acknowledged", ("forged-blocks",), pace=100),
    "duplicates": Attack("", "old acknowledgments in fours from the hop", ("duplicates",), pace=25),
    "wired-acks": Attack("", "from the wired side: acknowledgments of what the receiver never sent, windows of zero", ("wired-acks",), pace=50),
    "icmp": Attack("", "ICMP errors about made-up segments, both sides", ("icmp",), pace=50),
    "garbage": Attack("", "damaged headers and odd options, both sides, 1,000/s", ("garbage",), pace=1000),
    "reorder": Attack("", "5 % of the packets late by 10 ms, 5 % twice, on both links, both ways", wire="reorder=0.05,duplicate=0.05", lossy="reorder=0.05,duplicate=0.05"),
    "accecn": Attack("G1", "an option of AccECN (RFC 9768) on every segment, other each time, CUBIC", prepare=narrower(1480), wire="down.option=172", lossy="up.option=172", plan={"control": "cubic"},
                     modes=("snoop",), compared_with="cubic"),
    "unknown-option": Attack("G1", "the same with an option that nobody knows", prepare=narrower(1480), wire="down.option=76", lossy="up.option=76", plan={"control": "cubic"}, modes=("snoop",), compared_with="cubic"),
    "mptcp": Attack("G1", "Multipath TCP, one subflow, CUBIC", plan={"control": "cubic", "protocol": "mptcp"}, modes=("snoop",), compared_with="cubic"),
    "mptcp-subflows": Attack("G1", "Multipath TCP, two subflows over the same hop, CUBIC", prepare=subflows, plan={"control": "cubic", "protocol": "mptcp"}, modes=("snoop",), paths=ROUTED, compared_with="cubic"),
    "cubic": Attack("", "losses alone, CUBIC", plan={"control": "cubic"}, modes=("snoop",)),
    "md5": Attack("G5", "TCP-MD5 on every segment", plan={"md5": True}),
    "crossing": Attack("G5", "both ends open 20 connections at the same time", prepare=any_port, ends=crossing, paths=ROUTED),
    "mtu-black-hole": Attack("G3", "packets of more than 1,200 bytes vanish on the hop, without ICMP; the sender looks for that", prepare=of_ends(net__ipv4__tcp_mtu_probing=1), lossy="down.mtu=1200"),
    "mtu-black-hole-all": Attack("G3", "the same, and the sender always probes", prepare=of_ends(net__ipv4__tcp_mtu_probing=2), lossy="down.mtu=1200"),
    "silent-40": Attack("G4", "40 connections of the receiver's that fall silent", beside=silent(40), paths=ROUTED),
    "silent-150": Attack("G4", "150 of them", beside=silent(150), paths=ROUTED),
    "departed-40": Attack("G4", "40 connections of a host that leaves", beside=silent(40, leaves=True), paths=ROUTED),
    "ip-options": Attack("", "IPv4 options in every packet; over IPv6 an extension header in those of the caller", plan={"ip_options": True}, modes=("snoop",)),
    "fragments": Attack("", "overlapping fragments of made-up segments, both sides, 100/s", ("fragments",), pace=100),
    "vlan": Attack("", "frames with a VLAN tag across the bridge", ends=tagged(1), paths=("bridge",), families=(4,), modes=("snoop",)),
    "qinq": Attack("", "frames with two tags (802.1ad) across the bridge", ends=tagged(2), paths=("bridge",), families=(4,), modes=("snoop",)),
    "disk-full": Attack("", "the disk that the gateway records to is full", prepare=full_disk, modes=("snoop",)),
    "oom-killed": Attack("", "memory runs out: the kernel kills the worker, twice", during=killed_twice, modes=("snoop",)),
    "conntrack-full": Attack("", "500 new flows a second through a table of 128 tracked connections", prepare=conntrack_full, beside=sprayed, paths=ROUTED),
    "bursts": Attack("", "losses in bursts of 4 on average", lossy="down.burst=4,up.burst=4"),
    "mixed": Attack("", "damage, reordering, and all forgeries that the ends would refuse, in turn", (
        "blind-data", "blind-pairs", "blind-opaque", "blind-ack", "blind-window", "blind-up", "blind-rst-down", "blind-rst-up", "blind-syn-down", "blind-syn-up", "blind-fin-down",
        "blind-fin-up", "poison", "poison-old", "outside", "future-stamps", "future-echoes", "fin-near", "reset-near", "syn-near", "zero-window", "wide-window", "ack-ahead",
        "forged-blocks", "duplicates", "wired-acks", "icmp", "garbage"), pace=200, wire="down.damage=0.01,reorder=0.01,duplicate=0.01", lossy="up.damage=0.01"),
}

BAD = ("corrupt", "forged", "short")
BROKEN = ("silenced", "reset", "failed")


@dataclasses.dataclass(frozen=True)
class Variant:
    """Gateway, or none."""
    name: str
    mode: str = ""
    flow_control: str = ""

    @contextlib.contextmanager
    def installed(self, args, arena, family):
        if not self.mode:
            yield None
            return
        if self.mode == "bare":
            with bare_forwarder(args.accept_all, arena.namespace("gateway"), iptables(family)):
                yield None
            return
        if self.mode == "split":
            ports = "" if arena.any_port else f"ports = [{PORT}]\n"
            rule = f'mode = "split"\ninterface = "wireless"\n{ports}'
        else:
            rule = f'mode = "{self.mode}"\ninterface = "wireless"\n[rule.snoop]\nflow_control = "{self.flow_control}"\n'
        limits, options = 'bridge.wired = "wired"\n' if arena.path == "bridge" else "", ["--record", os.path.join(arena.record, "taken.pcapng")] if arena.record else []
        with Attacked(args, arena.namespace("gateway"), rule, limits, options) as gateway:
            yield gateway


class Attacked(Gateway):
    @contextlib.contextmanager
    def frozen(self):
        processes = [self.worker(), self.program.pid]
        try:
            # The supervisor is stopped first: it would kill a stopped worker.
            for process in processes[::-1]:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)


def link(args, *settings):
    """Returns settings for hop.rs, in which later ones take precedence."""
    return ",".join(filter(None, (*settings,)))


def plan_of(args, attack):
    transfers = args.transfers
    least = attack.plan.get("least", 0)
    if least and not transfers:
        transfers = least
    plan = {"transfers": transfers, "at_once": args.at_once, "bulk": args.bulk, "seconds": args.seconds, "sizes": args.sizes, "up": [0, args.sizes[1] // 4],
            "kind": "close", "control": args.control, "patience": args.silence, "begin": 0.3, "pause": 0, "ports": PORTS}
    plan.update({key: value for key, value in attack.plan.items() if key != "least"})
    if not transfers:
        plan.pop("buffer", None)
    return plan


def pace_of(args, attack):
    """Returns packets per second: proportional to the number of bulk downloads, ten times as many for small
    connections."""
    if attack.plan.get("pause"):
        return attack.pace
    return max(attack.pace, min(attack.pace * (10 if args.transfers else args.bulk), 5000))


def one(args, attack, variant, family, path, seed):
    """Runs once; returns the results of the ends and of the gateway."""
    wire = link(args, f"rate={5 * args.rate:g},delay={args.wired_delay:g},queue=2000", attack.wire)
    lossy = link(args, f"rate={args.rate:g},delay={args.delay:g},queue={args.queue}", f"down.loss={args.loss / 100:g},up.loss={args.loss / 100:g}", attack.lossy)
    plan = plan_of(args, attack)
    with contextlib.ExitStack() as stack:
        arena = stack.enter_context(Arena(args, path, seed, wire, lossy))
        arena.target = (arena.address("sender", family), PORT)
        if plan.get("md5"):
            plan["md5"] = [arena.address("receiver", family), arena.address("sender", family)]
        text = json.dumps(plan)
        if attack.prepare:
            attack.prepare(arena, args, family)
        gateway = stack.enter_context(variant.installed(args, arena, family))
        if attack.ends:
            found = attack.ends(arena, args, family)
            return found | {"treated": 1.0 if variant.mode else None, "seed": seed, "forged": 0, "inside": 0, "links": json.loads(arena.hop.stop()), "gateway": gateway.status() if gateway else None}
        server = stack.enter_context(Program(arena.namespace("sender"), sys.executable, TRANSFERS, "serve", str(PORT), str(seed), text))
        server.line()
        forger = None
        if attack.forge:
            forging = {"wired": "w1", "hop": "l0", "sender": "w0", "receiver": "l1", "pace": pace_of(args, attack), "begin": 0.2 if args.transfers and not attack.plan.get("pause") else attack.begin,
                       "seconds": min(attack.seconds, 86_400), "attacks": attack.forge, "port": PORT,
                       "ahead": [150_000, 30] if args.transfers else [8_000_000, 400]}
            forger = stack.enter_context(Program(arena.namespace("air"), sys.executable, FORGERY, str(seed), json.dumps(forging)))
            forger.line()
        if attack.beside:
            node, command = attack.beside(arena, args, family)
            stack.enter_context(Program(arena.namespace(node), *command)).line()
        address, port = arena.target
        client = stack.enter_context(Program(arena.namespace("receiver"), sys.executable, TRANSFERS, "call", address, str(port), str(seed), text))
        if attack.during:
            attack.during(arena, args, family, gateway)
        ended = client.result(args.seconds + PATIENCE + plan["transfers"] * 0.2)
        status = gateway.status() if gateway else None
        forged = json.loads(forger.stop()) if forger else {"forged": {}, "inside": 0}
        served = json.loads(server.stop())
        links = json.loads(arena.hop.stop())
    return outcome(plan, ended, served) | {"treated": treated(variant, status, links, ended), "seed": seed, "forged": sum(forged["forged"].values()), "inside": forged["inside"], "links": links, "gateway": status}


def treated(variant, status, links, ended):
    """Returns the share of the packets towards the hop (with split, of the connections) that the gateway treated."""
    if not variant.mode:
        return None
    if variant.mode == "bare":
        return 1.0
    if variant.mode == "split":
        return min(1.0, status["split"]["total"] / max(1, len(ended["results"])))
    return min(1.0, status["packets"]["towards_wireless"] / max(1, links[0]["down"]["carried"]))


def outcome(plan, ended, served):
    """Counts connections by the worst status at either end."""
    worst = {}
    details = []
    for place, results in (("caller", ended["results"]), ("server", served["results"])):
        for result in results:
            number, status = result["number"], result["status"]
            if status != "ok":
                details.append(f"{place}, connection {number}: {status} {result['detail']}".strip())
                if worst.get(number, "ok") not in BAD:
                    worst[number] = status
    counts = {status: sum(1 for one in worst.values() if one == status) for status in (*BAD, *BROKEN)}
    done = sorted((one["ended"], one["received"]) for one in ended["results"] if one["status"] == "ok")
    if plan["transfers"]:
        # Until 95 % are complete: the last ones wait for timeouts, with few others beside them.
        done = done[:max(1, math.ceil(0.95 * len(ended["results"])))] if done else []
        seconds = done[-1][0] if done else ended["seconds"]
        received = sum(count for _, count in done)
    else:
        seconds, received = ended["seconds"], sum(one["received"] for one in ended["results"])
    return {"connections": len(ended["results"]), "counts": counts, "mbps": received * 8e-6 / seconds, "seconds": ended["seconds"], "gap": max((one["gap"] for one in ended["results"]), default=0.0),
            "details": details[:20]}


def total(runs, statuses):
    return sum(run["counts"][status] for run in runs for status in statuses)


def differs(harm, alarm):
    """Returns whether more connections were harmed with the gateway than without, beyond chance. `harm`: count and
    number of connections with the gateway, then without; `alarm`: probability below which chance is excluded."""
    return harm[0] > 0 and chance_of_more(*harm) < alarm


def harms(with_runs, without_runs, statuses):
    """Returns the arguments of `differs`."""
    return [number for runs in (with_runs, without_runs) for number in (total(runs, statuses), sum(run["connections"] for run in runs))]


def judge(args, attack, mode, with_runs, without_runs, breaks, alarm):
    """Describes what is worse. `breaks`: the attack breaks connections without a gateway as well; `alarm`: as for
    `differs`."""
    worse = []
    bad, _, bad_without, _ = harm = harms(with_runs, without_runs, BAD)
    if differs(harm, alarm) if attack.harmful else bad > bad_without:
        worse.append(f"{bad} streams corrupt, {bad_without} without")
    broken, _, broken_without, _ = harm = harms(with_runs, without_runs, BROKEN)
    by_chance = attack.forge and broken == total(with_runs, ("reset", "failed")) or attack.damages and broken == total(with_runs, ("failed",))
    if differs(harm, alarm) if breaks else broken > (BROKEN_BY_CHANCE if by_chance else 0):
        worse.append(f"{broken} connections broken, {broken_without} without")
    # A segment forged to lie outside the receiver's window must do so, or the receiver itself accepts it.
    inside, inside_without = (sum(run["inside"] for run in runs) for runs in (with_runs, without_runs))
    if inside or inside_without:
        worse.append(f"{inside} forged segments came inside the window, {inside_without} without")
    share = statistics.median(run["treated"] for run in with_runs)
    # Untreated packets are as without the gateway, but then nothing was tested.
    if share < LEAST_TREATED and mode != "split" and not attack.during and not attack.ends:
        worse.append(f"only {100 * share:.0f} % treated")
    if args.ignore_speed:
        return worse
    if not plan_of(args, attack)["transfers"]:
        gap, gap_without = (max(run["gap"] for run in runs) for runs in (with_runs, without_runs))
        if gap > gap_without + LONGER_SILENCE:
            worse.append(f"silent for {gap:.1f} s, {gap_without:.1f} without")
    # Connections without data, or opened by the clock, have no goodput.
    if not attack.plan.get("pause") and attack.plan.get("sizes") != [0, 0] and not (bad_without or broken_without):
        ratio = statistics.median(pair[0]["mbps"] / pair[1]["mbps"] if pair[1]["mbps"] else 1.0 for pair in zip(with_runs, without_runs))
        if ratio < LEAST_GOODPUT:
            worse.append(f"{100 * ratio:.0f} % of the goodput")
    return worse


def variants(args, attack, path):
    for mode in args.modes:
        if mode not in attack.modes or mode != "snoop" and path == "bridge":
            continue
        for flow_control in args.flow_control if mode == "snoop" else [""]:
            yield Variant(f"{mode} {flow_control}".strip(), mode, flow_control)


def cell(args, name, family, path):
    """Runs all variants and none in turn; not judged yet."""
    attack, none = ATTACKS[name], Variant("none")
    candidates = list(variants(args, attack, path))
    runs = {variant: [] for variant in [none, *candidates]}
    if not candidates:
        return []
    for seed in range(args.seed, args.seed + args.reps):
        for variant in runs:
            run_of = one(args, attack, variant, family, path, seed)
            runs[variant].append(run_of)
            broken = {status: count for status, count in run_of["counts"].items() if count}
            note(f"{name}, IPv{family}, {path}, {variant.name}, seed {seed}: {run_of['mbps']:.2f} Mbps, {run_of['connections']} connections in {run_of['seconds']:.1f} s, "
                 f"longest silence {run_of['gap']:.2f} s, {run_of['forged']} forged, {broken or 'all whole'}")
            for detail in run_of["details"][:3]:
                note(f"    {detail}")
    rows = []
    for variant, found in runs.items():
        rows.append(row(name, (family, path), variant, found) | {"without": runs[none], "usual": usual(args, attack, variant, family, path)})
    return rows


def usual(args, attack, variant, family, path):
    """Returns runs of the attack that it is compared with, with the same gateway; empty if there is none."""
    if not attack.compared_with or not variant.mode:
        return []
    return [one(args, ATTACKS[attack.compared_with], variant, family, path, seed) for seed in range(args.seed, args.seed + args.reps)]


def row(name, place, variant, runs):
    family, path = place
    treated_shares = [run["treated"] for run in runs if run["treated"] is not None]
    return {"attack": name, "finding": ATTACKS[name].finding, "family": family, "path": path, "variant": variant.name, "mode": variant.mode, "runs": runs, "worse": [],
            "connections": sum(run["connections"] for run in runs), "bad": total(runs, BAD), "broken": total(runs, BROKEN), "mbps": statistics.median(run["mbps"] for run in runs),
            "treated": statistics.median(treated_shares) if treated_shares else None, "gap": max(run["gap"] for run in runs)}


def judged(args, name, rows):
    """Judges all cells of an attack, then for each variant with several cells all of them together: many small
    differences are one large one."""
    attack, gateways = ATTACKS[name], [row for row in rows if row["mode"]]
    breaks = attack.harmful or any(row["broken"] for row in rows if not row["mode"])
    several = [cells for _, found in itertools.groupby(sorted(gateways, key=lambda row: row["variant"]), lambda row: row["variant"]) if len(cells := list(found)) > 1]
    alarm = FALSE_ALARMS / max(1, len(gateways) + len(several))
    for one in gateways:
        one["worse"] = judge(args, attack, one["mode"], one["runs"], one["without"], breaks, alarm)
        if one["usual"] and not args.ignore_speed:
            ratio = statistics.median(pair[0]["mbps"] / pair[1]["mbps"] for pair in zip(one["runs"], one["usual"]) if pair[1]["mbps"])
            if ratio < LEAST_GOODPUT:
                one["worse"].append(f"{100 * ratio:.0f} % of the goodput of {attack.compared_with}")
    sums = []
    for cells in several if breaks else []:
        runs, without = ([run for one in cells for run in one[key]] for key in ("runs", "without"))
        whole = row(name, ("all", "all"), Variant(cells[0]["variant"], cells[0]["mode"]), runs)
        for kind, statuses in (("streams corrupt", BAD), ("connections broken", BROKEN)):
            if differs(harm := harms(runs, without, statuses), alarm):
                whole["worse"].append(f"{harm[0]} of {harm[1]} {kind}, {harm[2]} of {harm[3]} without")
        sums.append(whole)
    return rows + sums


def parse():
    parser = arguments(__doc__)
    example_argument(parser, "--hop", "the emulated links")
    example_argument(parser, "--accept-all", "the program of the mode bare")
    parser.add_argument("--attacks", default="all", help="which, separated by commas (default all; see --list)")
    parser.add_argument("--list", action="store_true", help="say what attacks there are")
    parser.add_argument("--families", default="4,6", help="4, 6 or both")
    parser.add_argument("--paths", default="routed,bridge", help="routed, bridge or both")
    parser.add_argument("--modes", default="snoop,split", help="some of snoop, split and bare, which is no gateway: a program behind the same queue that looks at no packet (default snoop,split)")
    parser.add_argument("--flow-control", default="fast,none", help="of snoop: fast, none or both")
    parser.add_argument("--transfers", type=int, default=0, help="small connections a run; 0: bulk downloads for --seconds (default 0)")
    parser.add_argument("--at-once", type=int, default=100, help="small connections that are open at once (default 100)")
    parser.add_argument("--sizes", default="20000-200000", help="bytes of a small connection (default 20000-200000)")
    parser.add_argument("--bulk", type=int, default=4, help="bulk downloads beside each other; one alone depends much on chance (default 4)")
    parser.add_argument("--seconds", type=float, default=8, help="of a run with bulk downloads (default 8)")
    parser.add_argument("--silence", type=float, default=30, help="seconds without a byte after which a connection counts as silenced (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="the first (default 1)")
    parser.add_argument("--reps", type=int, default=1, help="runs of each cell, each with a seed of its own (default 1)")
    parser.add_argument("--rate", type=float, default=20, help="Mbit/s of the hop (default 20)")
    parser.add_argument("--delay", type=float, default=5, help="ms of the hop, one way (default 5)")
    parser.add_argument("--wired-delay", type=float, default=10, help="ms of the wire, one way (default 10)")
    parser.add_argument("--queue", type=int, default=200, help="packets that wait at the hop (default 200)")
    parser.add_argument("--loss", type=float, default=2, help="percent lost on the hop, each way (default 2)")
    parser.add_argument("--control", default="bbr", help="congestion control of the ends (default bbr)")
    parser.add_argument("--offloads", action="store_true", help="the gateway joins what comes in to super-segments")
    parser.add_argument("--json", metavar="FILE", help="write everything there, a line for each row")
    parser.add_argument("--ignore-speed", action="store_true", help="do not judge goodput and how long a silence was")
    parser.add_argument("--require", action="store_true", help="exit 1 when something is worse")
    args = parser.parse_args()
    if args.list:
        for name, attack in ATTACKS.items():
            print(f"{name:16}{attack.finding:8}{attack.about}")
        sys.exit(0)
    args.attacks = chosen(parser, args.attacks, ATTACKS)
    args.families = [int(family) for family in chosen(parser, args.families, ("4", "6"))]
    args.paths = chosen(parser, args.paths, ("routed", "bridge"))
    args.modes = chosen(parser, args.modes, MODES)
    args.flow_control = chosen(parser, args.flow_control, ("fast", "none"))
    low, _, high = args.sizes.partition("-")
    if not (low.isdigit() and high.isdigit() and 0 < int(low) <= int(high)):
        parser.error(f"--sizes {args.sizes}: two numbers of bytes, the smaller first, such as 20000-200000")
    args.sizes = [int(low), int(high)]
    return args


def main():
    args = parse()
    check_machine(args)
    check_built(args.hop, *[args.accept_all] if "bare" in args.modes else [])
    rows = []
    for name in args.attacks:
        attack = ATTACKS[name]
        places = [place for place in itertools.product(args.families, args.paths) if place[0] in attack.families and place[1] in attack.paths]
        found = judged(args, name, [row for family, path in places for row in cell(args, name, family, path)])
        rows += found
        if args.json:
            with open(args.json, "a", encoding="utf-8") as out:
                out.writelines(json.dumps({key: value for key, value in row.items() if key not in ("without", "usual")}) + "\n" for row in found)
    print(f"{args.reps} runs a cell; bad: streams with corrupt, forged or missing bytes; broken: connections silenced, reset or refused; silence: the longest\n")
    table(["attack", "IP", "path", "gateway", "connections", "bad", "broken", "Mbps", "silence s", "treated %", "verdict"],
          [[row["attack"], row["family"], row["path"], row["variant"], row["connections"], row["bad"], row["broken"], f"{row['mbps']:.2f}", f"{row['gap']:.2f}", "" if row["treated"] is None else f"{100 * row['treated']:.0f}",
            "" if row["variant"] == "none" else "WORSE: " + "; ".join(row["worse"]) if row["worse"] else "ok"] for row in rows])
    return 1 if args.require and any(row["worse"] for row in rows) else 0


if __name__ == "__main__":
    end_with(main)

#!/usr/bin/env python3
"""Measures goodput of one bulk transfer over a lossy last hop, and a concurrent ping over that hop: without a device in
between, with lasthop's gateway, and with alternatives that one could install.

Sender and receiver use this machine's unmodified kernel, with SACK. `lasthop lab hold` keeps the links between them
open, with a seed of its own for each run:

    sender -- 99 Mbps -- gateway -- 10 Mbps, lossy in both directions, queue of 100 packets -- receiver
    A: 0 ms + 30 ms one way        B: 25 ms + 5 ms

With --burst the losses come in runs with this mean number of frames (two states by frame, the same loss). With --nat
the gateway masquerades the receiver, which then opens the connection and downloads, or forwards a port to it.

A cell is the median over the seeds of what the receiver reads in 10 s from the connection on; the ping's percentiles
are over all echoes of all seeds. Runs in which the emulated links were late, or the gateway's worker was restarted, are
repeated. kcptun (two-ended) and PEPsal are measured if they are installed.

    sudo python3 benches/live/peers.py                                    # everything: 25 minutes
    sudo python3 benches/live/peers.py --topologies B --systems snoop,split
    sudo python3 benches/live/peers.py --systems bbr,snoop,split --topologies B --losses 2.3,10 --burst 1,4,12 --seeds 9
    sudo python3 benches/live/peers.py --systems cubic,snoop,split --losses 2.3 --nat none,masquerade,forward
    sudo python3 benches/live/peers.py --losses 2.3 --seeds 1 --details out/peers
"""
import contextlib
import itertools
import json
import os
import shutil
import statistics
import time

from common import HERE, Gateway, Program, arguments, check_machine, chosen, counters, end, end_with, fail, goal_arguments, note, percentile, run, skipped, table

PORT = 5001
# Port of the gateway, with --nat forward.
FORWARDED = 6001
# Maximum time of a transfer beyond its duration, in seconds.
PATIENCE = 40
ATTEMPTS = 3
LOSSES = ["0", "2.3", "10"]

# Mbps at 2.3 and 10 % loss. For split, these are the results of PEPsal 2.0.2 with BBR in these topologies, nine seeds
# per cell (B at 2.3 %: three); if PEPsal is installed, its results in the same call.
GOALS = {
    ("snoop", "A"): {"2.3": 9.0, "10": 7.8},
    ("snoop", "B"): {"2.3": 9.1, "10": 8.2},
    ("split", "A"): {"2.3": 9.13, "10": 7.94},
    ("split", "B"): {"2.3": 9.25, "10": 8.50},
}


def errors(loss, burst):
    """Returns an error model with this loss and mean burst length, whose bad state loses all frames."""
    if burst <= 1 or loss <= 0:
        return f'{{ model = "uniform", frame_loss = {loss:.6f} }}'
    return f'{{ model = "two-state-packet", good_to_bad = {loss / (burst * (1 - loss)):.6f}, bad_to_good = {1 / burst:.6f} }}'


def masquerade(lab):
    """Replaces the receiver's address by the gateway's on the wired side."""
    run("iptables", "-w", "-t", "nat", "-A", "POSTROUTING", "-o", lab.device("wired"), "-j", "MASQUERADE", namespace=lab.namespace("gateway"))


def forward(lab):
    """Forwards a port of the gateway to the receiver."""
    run("iptables", "-w", "-t", "nat", "-A", "PREROUTING", "-i", lab.device("wired"), "-p", "tcp", "--dport", str(FORWARDED), "-j", "DNAT",
        "--to-destination", f"{lab.address('receiver')}:{PORT}", namespace=lab.namespace("gateway"))


NATS = {"none": lambda lab: None, "masquerade": masquerade, "forward": forward}
# Minimum ratio to the result without bursts, and without NAT.
LEAST = {"burst": 0.95, "nat": 0.97}


class Lab:
    """Namespaces and links, open in the `with` block."""

    def __init__(self, args, topology, loss, burst, seed):
        command = [args.lasthop, "lab", "hold", os.path.join(HERE, f"{topology.lower()}.toml"), "--scheme", "E2E", "--json",
                   "--seed", str(seed), "--set", f"links.lossy.errors={errors(float(loss) / 100, burst)}", "--set", f"lab.lateness={args.lateness}"]
        if args.details:
            command += ["--pcapng", os.path.join(args.details, "packets.pcapng")]
        self.program = Program(None, *command)

    def __enter__(self):
        self.nodes = json.loads(self.program.line())["nodes"]
        return self

    def __exit__(self, *_):
        self.program.stop()

    def namespace(self, node):
        return self.nodes[node]["namespace"]

    def address(self, node):
        return self.nodes[node]["address"]

    def device(self, link):
        return self.nodes["gateway"]["devices"][link]

    def close(self):
        """Closes the lab; returns the links' results."""
        return json.loads(self.program.stop().strip().splitlines()[-1])


class Direct:
    """No device in between."""

    def __init__(self, control):
        self.control = control

    def missing(self):
        return None

    def pinged(self, lab):
        """Returns the target of the gateway's ping."""
        return lab.address("receiver")

    @contextlib.contextmanager
    def installed(self, args, lab):
        """Yields the address and port that the sender connects to, and the object to ask for details."""
        del args
        yield lab.address("receiver"), PORT, None


class Lasthop(Direct):
    """Gateway with a rule for the receiver."""

    def __init__(self, mode, settings=""):
        super().__init__("cubic")
        self.mode, self.settings = mode, settings

    @contextlib.contextmanager
    def installed(self, args, lab):
        rule = f'mode = "{self.mode}"\ninterface = "{lab.device("lossy")}"\naddresses = ["{lab.address("receiver")}/32"]\n{self.settings}'
        with Gateway(args, lab.namespace("gateway"), rule) as gateway:
            yield lab.address("receiver"), PORT, gateway


class Pepsal(Direct):
    """PEPsal at the gateway, set up like in its own scripts."""

    def __init__(self, control):
        super().__init__("cubic")
        self.outgoing = control

    def missing(self):
        return None if shutil.which("pepsal") else "pepsal"

    @contextlib.contextmanager
    def installed(self, args, lab):
        del args
        gateway, port = lab.namespace("gateway"), "5000"
        for command in ("ip rule add fwmark 1 lookup 100", "ip route add local 0.0.0.0/0 dev lo table 100",
                        f"iptables -t mangle -A PREROUTING -i {lab.device('wired')} -p tcp -j TPROXY --on-port {port} --tproxy-mark 1"):
            run(*command.split(), namespace=gateway)
        with Program(gateway, "pepsal", "-p", port, "-C", self.outgoing) as pepsal:
            listening(gateway, port, pepsal, "-t")
            yield lab.address("receiver"), PORT, None


class Kcptun(Direct):
    """kcptun on sender and receiver, without encryption and compression."""

    CLIENTS, SERVERS = ("kcptun-client", "client_linux_amd64"), ("kcptun-server", "server_linux_amd64")

    def __init__(self, *options):
        super().__init__("cubic")
        self.options = [*options, "--crypt", "none", "--nocomp"]

    @staticmethod
    def found(names):
        return next(filter(None, map(shutil.which, names)), None)

    def missing(self):
        return None if self.found(self.CLIENTS) and self.found(self.SERVERS) else "kcptun"

    @contextlib.contextmanager
    def installed(self, args, lab):
        del args
        sender, receiver, tunnel = lab.namespace("sender"), lab.namespace("receiver"), "4000"
        server = [self.found(self.SERVERS), "--listen", f":{tunnel}", "--target", f"127.0.0.1:{PORT}", *self.options]
        client = [self.found(self.CLIENTS), "--localaddr", "127.0.0.1:5002", "--remoteaddr", f"{lab.address('receiver')}:{tunnel}", *self.options]
        with Program(receiver, *server) as server, Program(sender, *client) as client:
            listening(receiver, tunnel, server, "-u")
            listening(sender, "5002", client, "-t")
            yield "127.0.0.1", 5002, None


def listening(namespace, port, program, kind):
    """Waits until a program listens."""
    for _ in range(100):
        if f":{port} " in run("ss", "-Hln", kind, namespace=namespace):
            return
        if program.process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"{program.command[0]} does not listen on port {port}: {program.said()}")


SYSTEMS = {
    "cubic": Direct("cubic"),
    "bbr": Direct("bbr"),
    "snoop": Lasthop("snoop"),
    "split": Lasthop("split", '[rule.split.wireless]\ncongestion = "bbr"\n[rule.split.wired]\ncongestion = "cubic"'),
    "pepsal": Pepsal("bbr"),
    "kcptun-fast": Kcptun("--mode", "fast"),
    "kcptun-fast2-nofec": Kcptun("--mode", "fast2", "--datashard", "0", "--parityshard", "0"),
}


@contextlib.contextmanager
def ends(args, system, lab, nat, address, port):
    """Yields the sending and the reading program."""
    sender, receiver = map(lab.namespace, ("sender", "receiver"))
    if nat == "masquerade":
        with end(sender, "give", PORT, system.control) as sending:
            sending.line()
            with end(receiver, "fetch", lab.address("sender"), PORT, args.seconds) as reading:
                yield sending, reading
        return
    if nat == "forward":
        address, port = lab.address("gateway"), FORWARDED
    with end(receiver, "receive", PORT, args.seconds) as reading:
        reading.line()
        with end(sender, "send", address, port, system.control) as sending:
            yield sending, reading


def transfer(args, system, lab, nat):
    """Runs one transfer; returns Mbps at the receiver, pings in ms, and whether both ends saw each other's
    addresses."""
    sender, gateway = map(lab.namespace, ("sender", "gateway"))
    NATS[nat](lab)
    with system.installed(args, lab) as (address, port, asked):
        with ends(args, system, lab, nat, address, port) as (sending, reading), end(gateway, "ping", system.pinged(lab), args.seconds, args.pings) as echoes:
            if args.details:
                time.sleep(args.seconds / 2)
                for name, namespace in (("sender", sender), ("gateway", gateway)):
                    with open(os.path.join(args.details, f"ss-{name}.txt"), "w", encoding="utf-8") as out:
                        out.write(run("ss", "-tinom", namespace=namespace))
            read = reading.result(args.seconds + PATIENCE)
            counts = counters(sender, "Tcp")
            pings = echoes.result(args.seconds + PATIENCE)
            # A tunnel does not notify its end that the other one has stopped.
            sent = None
            with contextlib.suppress(RuntimeError):
                sent = sending.result(5)
        restarts = 0
        if asked:
            status = asked.status()
            restarts = status["worker"]["restarts"]
            if args.details:
                with open(os.path.join(args.details, "gateway.json"), "w", encoding="utf-8") as out:
                    json.dump(status, out, indent=2)
    # A sender that still waits for the device in between has not reported its peer.
    seen = None if sent is None else sent["own"] == read["peer"] and sent["peer"] == read["own"]
    return {"mbps": read["bytes"] * 8e-6 / read["seconds"], "ping_ms": pings["ms"], "pings_lost": pings["sent"] - len(pings["ms"]), "addresses_kept": seen,
            "segments": counts["OutSegs"], "resent": counts["RetransSegs"],
            "void": "the gateway's worker was restarted: it was kept from running" if restarts else None}


def kept(answers):
    """Combines the answers of runs on whether addresses were kept; `None` if unknown."""
    return False if False in answers else True if all(answers) else None


def one(args, name, topology, loss, burst, nat, seed):
    """Returns a valid run."""
    details = args.details
    for _ in range(ATTEMPTS):
        if details:
            args.details = os.path.join(details, f"{name}-{topology}-{loss}-{burst:g}-{nat}-{seed}")
            os.makedirs(args.details, exist_ok=True)
        try:
            with Lab(args, topology, loss, burst, seed) as lab:
                outcome = transfer(args, SYSTEMS[name], lab, nat)
                links = lab.close()
        finally:
            args.details = details
        void = links["void"] or outcome["void"]
        if void is None:
            return outcome | {"seed": seed, "lateness_us": links["lateness_us"]}
        note(f"{name}, topology {topology}, {loss} %, bursts of {burst:g}, NAT {nat}, seed {seed} is void: {void}")
    fail(f"void in each of {ATTEMPTS} attempts; end other load on this machine (bound for lateness: {args.lateness})")


def verdict(cell, cells):
    """Judges a cell against its goal."""
    name, topology, loss, burst, nat = key = cell["key"]
    if name in ("snoop", "split") and (burst > 1 or nat != "none"):
        beside, least = cells.get((name, topology, loss, 1, nat)) if burst > 1 else None, LEAST["burst"]
        if nat != "none":
            beside, least = cells.get((name, topology, loss, burst, "none")), LEAST["nat"]
        if beside is None or beside["key"] == key:
            return ""
        share = cell["mbps"] / beside["mbps"] if beside["mbps"] else 0.0
        return f"{'ok' if share >= least else 'MISSED'} ({100 * share:.0f} % of {beside['mbps']:.2f}, >= {100 * least:.0f} %)"
    if burst > 1 or nat != "none":
        return ""
    mbps, goal = cell["mbps"], GOALS.get((name, topology), {}).get(loss)
    if name == "split":
        if beside := cells.get(("pepsal", topology, loss, burst, nat)):
            goal = beside["mbps"]
        # BBR of two kernels is compared to the digit that the seeds agree on.
        goal, mbps = goal and round(goal, 1), round(mbps, 1)
    if goal is None:
        return ""
    return f"{'ok' if mbps >= goal else 'MISSED'} (>= {goal})"


def cell_arguments(parser, systems, seeds, seconds):
    """Adds options for the selection of cells, and for their measurement."""
    parser.add_argument("--systems", default=",".join(systems), help=f"which, separated by commas (default {','.join(systems)})")
    parser.add_argument("--topologies", default="A,B", help="A, B or both (default A,B)")
    parser.add_argument("--losses", default=",".join(LOSSES), help=f"percent of the frames, separated by commas (default {','.join(LOSSES)})")
    parser.add_argument("--burst", default="1", help="mean lengths of runs of lost frames, separated by commas (default 1: each by itself)")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"runs a cell (default {seeds})")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"of each transfer (default {seconds})")
    parser.add_argument("--lateness", default="1 ms", help="bound for the links' lateness, 99th percentile (default 1 ms)")
    # A tunnel may send each ping packet three times: more pings would take a share of the hop.
    parser.add_argument("--pings", type=float, default=10, help="echoes a second beside the transfer (default 10)")


def numbers(parser, option, given, least, most, example):
    """Returns the numbers of an option, as written."""
    try:
        if all(least <= float(one) <= most for one in given.split(",")):
            return given.split(",")
    except ValueError:
        pass
    parser.error(f"{option} {given}: numbers from {least} to {most:g}, separated by commas, such as {example}")


def chosen_cells(parser, args):
    """Returns names of installed systems, topologies, losses as written, bursts."""
    names, topologies = chosen(parser, args.systems, SYSTEMS), chosen(parser, args.topologies, "AB")
    losses = numbers(parser, "--losses", args.losses, 0, 100, "0,2.3,10")
    bursts = [float(burst) for burst in numbers(parser, "--burst", args.burst, 1, 1000, "1,4,12")]
    for name in names[:]:
        if missing := SYSTEMS[name].missing():
            skipped(f"{name}: {missing} is not installed (not in PATH)")
            names.remove(name)
    return names, topologies, losses, bursts


def main():
    parser = arguments(__doc__)
    cell_arguments(parser, SYSTEMS, seeds=3, seconds=10)
    parser.add_argument("--nat", default="none", help=f"at the gateway, separated by commas: {', '.join(NATS)} (default none)")
    parser.add_argument("--details", metavar="DIR", help="folder for each run's packets, gateway status, and sockets half-way")
    goal_arguments(parser)
    args = parser.parse_args()
    nats = chosen(parser, args.nat, NATS)
    names, topologies, losses, bursts = chosen_cells(parser, args)
    check_machine(args)

    cells = {}
    for topology, loss, burst, nat, name in itertools.product(topologies, losses, bursts, nats, names):
        if nat != "none" and name.startswith(("pepsal", "kcptun")) or burst > 1 and float(loss) == 0:
            continue
        runs = [one(args, name, topology, loss, burst, nat, seed) for seed in range(1, args.seeds + 1)]
        pings = [ms for run in runs for ms in run["ping_ms"]]
        mbps = [run["mbps"] for run in runs]
        cells[name, topology, loss, burst, nat] = {
            "key": (name, topology, loss, burst, nat), "system": name, "topology": topology, "loss_percent": float(loss), "burst": burst, "nat": nat,
            "mbps": statistics.median(mbps), "mbps_all": mbps,
            "ping_p50_ms": percentile(pings, 50), "ping_p99_ms": percentile(pings, 99), "pings_lost": sum(run["pings_lost"] for run in runs),
            "addresses_kept": kept([run["addresses_kept"] for run in runs]),
            "lateness_p99_us": max(run["lateness_us"]["p99"] for run in runs),
        }
        note(f"{name}, topology {topology}, {loss} %, bursts of {burst:g}, NAT {nat}: " + ", ".join(f"{one:.2f}" for one in mbps) + " Mbps")

    for cell in cells.values():
        cell["goal"] = verdict(cell, cells)
    rows = []
    for cell in cells.values():
        del cell["key"]
        rows.append([cell["system"], cell["topology"], f"{cell['loss_percent']:g} %", f"{cell['burst']:g}", cell["nat"], f"{cell['mbps']:.2f}",
                     f"{min(cell['mbps_all']):.2f} - {max(cell['mbps_all']):.2f}", f"{cell['ping_p50_ms'] or 0:.0f}", f"{cell['ping_p99_ms'] or 0:.0f}",
                     {True: "yes", False: "no", None: "?"}[cell["addresses_kept"]], f"{cell['lateness_p99_us']:.0f}", cell["goal"]])
    missed = any(cell["goal"].startswith("MISSED") for cell in cells.values())
    if args.json:
        print(json.dumps({"seconds": args.seconds, "seeds": args.seeds, "cells": list(cells.values())}, indent=2))
    else:
        print(f"one transfer of {args.seconds:g} s, median of {args.seeds}; late: the worst 99th percentile of the emulated links\n")
        table(["system", "topology", "loss", "burst", "NAT", "Mbps", "lowest - highest", "ping p50 ms", "p99", "addresses kept", "late us", "goal"], rows)
    return 1 if missed and args.require else 0


if __name__ == "__main__":
    end_with(main)

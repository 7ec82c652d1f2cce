#!/usr/bin/env python3
"""Measures one transfer over a lossy hop with `lasthop tunnel` at both ends of the hop, and with alternatives.

Topologies are those of peers.py: a kernel's CUBIC sender, 10 Mbps, a queue of 100 packets, frames lost in both
directions, and a concurrent ping.

    sender -- gateway ~~~~~ receiver     A: 30 ms each way on the lossy hop     B: 25 ms wired, 5 ms on the hop

The tunnel's ends are gateway and receiver; `tunnel-auto` finds its rate; with `tunnel-snoop` the gateway's snoop
precedes it, for its flow control. Its ping goes through it, like the transfer; the others' takes the same path as their
transfer. `tinyfecvpn` is tinyfecVPN (`tinyvpn` in the path) with 10 coded frames for 20 packets, the share in its own
examples.

    sudo python3 benches/live/tunnel.py --at-once 4                       # everything: 50 minutes on two cores
    sudo python3 benches/live/tunnel.py --topologies A --losses 2.3 --seeds 1 --systems cubic,tunnel
    sudo python3 benches/live/tunnel.py --burst 1,4,12 --losses 2.3,10 --systems tunnel

A cell is the median over the seeds; the ping's percentiles are over all echoes of all seeds. Systems that are not
installed are skipped.
"""
import concurrent.futures
import contextlib
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time

import peers
from common import Gateway, Program, arguments, check_machine, end_with, fail, goal_arguments, note, percentile, run, table

# Minimum Mbps, and maximum median of the ping in ms, by topology and loss.
MBPS = {"A": {"0": 9.0, "2.3": 8.75, "10": 8.0}, "B": {"2.3": 8.75, "10": 8.0}}
P50 = {"A": {"0": 66, "2.3": 70, "10": 70}, "B": {"0": 16, "2.3": 16, "10": 16}}
# Base round-trip time of the ping and of the hop in ms: the limit of the 99th percentile is their sum plus 15.
P99 = {"A": 60 + 60 + 15, "B": 10 + 10 + 15}
# Minimum ratio to a cell's result without bursts.
BURST = 0.95


class Tunnel(peers.Direct):
    """`lasthop tunnel` on gateway and receiver."""

    OWN = {"gateway": "10.99.0.1", "receiver": "10.99.0.2"}
    PORT = 51900

    def __init__(self, repair, rate, snoop=False):
        super().__init__("cubic")
        self.repair, self.rate, self.snoop = repair, rate, snoop

    def pinged(self, lab):
        return self.OWN["receiver"]

    def file(self, folder, node, other, key, lab):
        calls = f'endpoint = "{lab.address(other)}:{self.PORT}"\n' if node == "receiver" else ""
        # The sender is behind the gateway.
        behind = f', "{lab.address("sender")}"' if other == "gateway" else ""
        path = os.path.join(folder, f"{node}.toml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'listen = "0.0.0.0:{self.PORT}"\nprivate_key_file = "{folder}/{node}.key"\naddress = "{self.OWN[node]}/24"\ncontrol = "{folder}/{node}.sock"\n'
                      f'log = "warn"\n[[peer]]\nname = "{other}"\npublic_key = "{key}"\nallowed = ["{self.OWN[other]}"{behind}]\n{calls}'
                      f'rate = "{self.rate}"\nrepair = "{self.repair}"\nkeepalive = "1 s"\n')
        return path

    @contextlib.contextmanager
    def installed(self, args, lab):
        with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder, contextlib.ExitStack() as stack:
            nodes = {"gateway": "receiver", "receiver": "gateway"}
            keys = {node: run(args.lasthop, "tunnel", "keygen", os.path.join(folder, f"{node}.key")).strip() for node in nodes}
            for node, other in nodes.items():
                if node == "receiver":
                    # From now on the route to the sender is the tunnel.
                    run("sh", "-c", f"ip route del {lab.address('sender')} 2>/dev/null || true", namespace=lab.namespace(node))
                file = self.file(folder, node, other, keys[other], lab)
                stack.enter_context(Program(lab.namespace(node), args.lasthop, "tunnel", "run", file))
            run("ip", "route", "replace", self.OWN["receiver"], *way(lab), namespace=lab.namespace("sender"))
            tunnel = Asked(args, os.path.join(folder, "gateway.sock"))
            tunnel.wait()
            if self.snoop:
                rule = f'mode = "snoop"\ninterface = "lasthop0"\naddresses = ["{self.OWN["receiver"]}/32"]'
                stack.enter_context(Gateway(args, lab.namespace("gateway"), rule))
            yield self.OWN["receiver"], peers.PORT, tunnel


class TinyFecVpn(peers.Direct):
    """tinyfecVPN on gateway and receiver: UDPspeeder's code with a device, redundancy at a fixed share."""

    # Address, port and device of its default network.
    RECEIVER, PORT, DEVICE = "10.22.22.1", "4096", "tiny0"

    def __init__(self, *options):
        super().__init__("cubic")
        self.options = [*options, "--tun-dev", self.DEVICE, "--log-level", "2"]

    def missing(self):
        return None if shutil.which("tinyvpn") else "tinyfecVPN (tinyvpn)"

    def pinged(self, lab):
        return self.RECEIVER

    @contextlib.contextmanager
    def installed(self, args, lab):
        del args
        server = ["tinyvpn", "-s", "-l", f"0.0.0.0:{self.PORT}", *self.options]
        client = ["tinyvpn", "-c", "-r", f"{lab.address('receiver')}:{self.PORT}", *self.options]
        gateway, receiver, sender = map(lab.namespace, ("gateway", "receiver", "sender"))
        with Program(receiver, *server) as server:
            peers.listening(receiver, self.PORT, server, "-u")
            with Program(gateway, *client) as client:
                run("ip", "route", "replace", lab.address("sender"), "dev", self.DEVICE, namespace=receiver)
                run("ip", "route", "replace", self.RECEIVER, *way(lab), namespace=sender)
                self.wait(gateway, client)
                yield self.RECEIVER, peers.PORT, None

    def wait(self, gateway, client):
        """Waits until the two ends are connected."""
        for _ in range(10):
            with peers.end(gateway, "ping", self.RECEIVER, 0.5, 10) as echoes:
                if echoes.result(5)["ms"]:
                    return
        raise RuntimeError(f"tinyvpn's ends do not find each other: {client.said()}")


def way(lab):
    """Returns the route to the receiver, as the sender knows it."""
    words = run("ip", "route", "get", lab.address("receiver"), namespace=lab.namespace("sender")).split()
    return ["via", words[words.index("via") + 1], "dev", words[words.index("dev") + 1], "onlink"]


class Asked:
    """Running tunnel."""

    def __init__(self, args, control):
        self.args, self.control = args, control

    def status(self):
        return json.loads(run(self.args.lasthop, "tunnel", "status", "--json", "--control", self.control))

    def wait(self):
        for _ in range(200):
            with contextlib.suppress(RuntimeError):
                peer = self.status()["peers"][0]
                if peer["up"] and peer["mtu"] == 1442:
                    return
            time.sleep(0.05)
        raise RuntimeError("no session between the tunnel's ends")


# Links count from the IP header on: 9.907 Mbps are 10 on Ethernet.
RATE = "9.9 Mbps"
peers.SYSTEMS |= {"tunnel": Tunnel("hybrid", RATE), "tunnel-arq": Tunnel("arq", RATE), "tunnel-auto": Tunnel("hybrid", "auto"),
                  "tunnel-snoop": Tunnel("hybrid", RATE, snoop=True),
                  "tinyfecvpn": TinyFecVpn("-f", "20:10")}
SYSTEMS = ["cubic", "bbr", "snoop", "pepsal", "kcptun-fast", "kcptun-fast2-nofec", "tinyfecvpn", "tunnel-arq", "tunnel-auto", "tunnel-snoop", "tunnel"]


def verdict(cell, cells):
    """Describes the missed goals."""
    name, topology, loss, burst = cell["system"], cell["topology"], cell["loss"], cell["burst"]
    if name != "tunnel":
        return ""
    goals = [(cell["ping_p50_ms"], P50[topology].get(loss), "p50"), (cell["ping_p99_ms"], P99[topology], "p99")]
    missed = [f"{what} > {most} ms" for value, most, what in goals if most and value is not None and value > most]
    least = MBPS[topology].get(loss)
    if burst > 1:
        beside = cells.get((name, topology, loss, 1))
        least = beside and BURST * beside["mbps"]
    if least and cell["mbps"] < least:
        missed.append(f"< {least:.2f} Mbps")
    return "MISSED: " + ", ".join(missed) if missed else "ok"


def measured(args, cells):
    """Returns the results of each cell. Its runs, and those of others, may run at the same time; Ctrl-C stops them."""
    seeds = range(1, args.seeds + 1)
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        runs = {cell: [pool.submit(peers.one, args, *cell, "none", seed) for seed in seeds] for cell in cells}
        try:
            return {cell: summed_up(*cell, [one.result() for one in of]) for cell, of in runs.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def summed_up(name, topology, loss, burst, runs):
    pings, mbps = [ms for one in runs for ms in one["ping_ms"]], [one["mbps"] for one in runs]
    note(f"{name}, topology {topology}, {loss} %, bursts of {burst:g}: " + ", ".join(f"{one:.2f}" for one in mbps) + " Mbps")
    return {"system": name, "topology": topology, "loss": loss, "burst": burst, "mbps": statistics.median(mbps), "mbps_all": mbps,
            "segments": sum(one["segments"] for one in runs), "resent": sum(one["resent"] for one in runs),
            "ping_p50_ms": percentile(pings, 50), "ping_p99_ms": percentile(pings, 99), "pings_lost": sum(one["pings_lost"] for one in runs)}


def main():
    parser = arguments(__doc__)
    peers.cell_arguments(parser, SYSTEMS, seeds=5, seconds=30)
    parser.add_argument("--at-once", type=int, default=1, help="runs at once, each in namespaces of its own (default 1)")
    goal_arguments(parser)
    args = parser.parse_args()
    if args.at_once < 1:
        parser.error("--at-once begins at 1")
    args.details = None
    names, topologies, losses, bursts = peers.chosen_cells(parser, args)
    check_machine(args)
    if not os.path.exists("/dev/net/tun"):
        fail("/dev/net/tun does not exist; run `modprobe tun`")
    wanted = itertools.product(topologies, losses, bursts, names)
    cells = measured(args, [(name, topology, loss, burst) for topology, loss, burst, name in wanted if burst == 1 or float(loss) > 0])
    for cell in cells.values():
        cell["goal"] = verdict(cell, cells)
    if args.json:
        print(json.dumps({"seconds": args.seconds, "seeds": args.seeds, "cells": list(cells.values())}, indent=2))
    else:
        print(f"one transfer of {args.seconds:g} s, median of {args.seeds}\n")
        rows = [[cell["system"], cell["topology"], f"{cell['loss']} %", f"{cell['burst']:g}", f"{cell['mbps']:.2f}", f"{min(cell['mbps_all']):.2f} - {max(cell['mbps_all']):.2f}",
                 f"{1e4 * cell['resent'] / max(1, cell['segments']):.1f}",
                 f"{cell['ping_p50_ms'] or 0:.0f}", f"{cell['ping_p99_ms'] or 0:.0f}", cell["pings_lost"], cell["goal"]] for cell in cells.values()]
        table(["system", "topology", "loss", "burst", "Mbps", "lowest - highest", "resent of 10^4", "ping p50 ms", "p99", "lost", "goal"], rows)
    return 1 if args.require and any(cell["goal"].startswith("MISSED") for cell in cells.values()) else 0


if __name__ == "__main__":
    end_with(main)

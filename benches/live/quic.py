#!/usr/bin/env python3
"""Measures the gateway's repair of QUIC (mode = "quic") with real stacks over an emulated lossy hop.

    server -- wire, 10 Mbps, 25 ms -- box -- hop, 100 Mbps -- client          network namespaces of this machine

The gateway runs in the box, with all connections treated, or all untreated (`ab = "100 %"`, through the same queue). Each
run is a download; its rate is that of the data that reaches the client after the first seconds, without the gateway's
copies. For the simulated figures: benches/quic_snoop.py.

    benches/quic/stacks.py --how                                          # how to build the stacks
    sudo python3 benches/live/quic.py --programs FOLDER --stacks quicgo,aioquic --rtts 2,4 --losses 0,1
"""
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "quic"))

import stacks  # noqa: E402
from common import Gateway, Program, arguments, check_machine, chosen, end_with, go_first, note, run, table  # noqa: E402

SCENARIO = """seed = {seed}
[hosts.server]
[hosts.client]
[routers.box]
[links.wire]
between = ["server", "box"]
rate = "10 Mbps"
delay = "25 ms"
queue = "65 kB"
[links.hop]
between = ["box", "client"]
rate = "100 Mbps"
delay = "{delay} us"
queue = "1000 packets"
errors_down = {{ model = "uniform", frame_loss = {loss} }}
[flows.bulk]
from = "server"
to = "client"
size = "1 GiB"
[lab]
lateness = "{lateness} ms"
"""
LATENESS_MS = 10
# Share left untreated, by arm.
ARMS = {"treated": "0 %", "untreated": "100 %"}
# Time for the handshake and slow start, in seconds.
BEGIN = 2
REPEATS = 3


def received(namespace, device):
    """Returns the bytes that a device has received."""
    return int(run("cat", f"/sys/class/net/{device}/statistics/rx_bytes", namespace=namespace))


def once(args, folder, stack, rtt, loss, arm, seed):
    """Runs a download; returns its rate in Mbps, the gateway's figures, and what makes it void."""
    link = os.path.join(folder, "link.toml")
    with open(link, "w", encoding="utf-8") as file:
        file.write(SCENARIO.format(seed=seed, delay=round(rtt * 500), loss=loss / 100, lateness=LATENESS_MS))
    made = stacks.STACKS[stack]
    with Program(None, args.lasthop, "lab", "hold", link, "--json", "--scheme", "E2E") as lab:
        nodes = json.loads(lab.line())["nodes"]
        server, client, box = nodes["server"], nodes["client"], nodes["box"]
        hop = box["devices"]["hop"]
        words = {"programs": args.programs, "drivers": os.path.join(os.path.dirname(stacks.HERE), "quic", "drivers"), "address": server["address"],
                 "port": stacks.PORT, "way": "down", "bytes": stacks.BYTES, "scratch": folder, "folder": folder,
                 **{name: os.path.join(folder, f"{name}.pem") for name in ("cert", "key", "ca")}}
        far, near = ([word.format(**words) for word in command.split()] for command in (made.server, made.client))
        rule = f'mode = "quic"\ninterface = "{hop}"\nports = {stacks.PORT}\nab = "{ARMS[arm]}"'
        with (Gateway(args, box["namespace"], rule) as gateway, open(os.path.join(folder, "out"), "w+", encoding="utf-8") as log,
              Program(server["namespace"], "sh", "-c", 'cd "$0" && exec "$@" >&2', folder, *far, log=log)):
            time.sleep(1)
            with Program(client["namespace"], "sh", "-c", 'cd "$0" && exec "$@" >&2', folder, *near, log=log) as running:
                device = next(iter(client["devices"].values()))
                time.sleep(BEGIN)
                before, copied, begun = received(client["namespace"], device), copies(gateway), time.monotonic()
                time.sleep(args.seconds)
                if running.process.poll() is not None:
                    raise RuntimeError(f"{stack}: the client ended early: {running.said()[-300:]}")
                arrived, seconds = received(client["namespace"], device) - before, time.monotonic() - begun
                status = gateway.status()
                copied = copies(gateway) - copied
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
        lab.process.send_signal(signal.SIGINT)
        left = json.loads(lab.process.communicate(timeout=60)[0].strip().splitlines()[-1])
    figures = status["rules"][0]["quic"][arm]
    return 8e-6 * (arrived - copied * 1500 * (1 - loss / 100)) / seconds, figures, left["void"]


def copies(gateway):
    """Returns the number of copies that the gateway has sent."""
    return gateway.status()["packets"]["injected_wireless"]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--programs", default=os.path.join(stacks.common.ROOT, "target", "quic"), help="folder of the stacks' programs (default target/quic)")
    parser.add_argument("--stacks", default="all", help="stacks, separated by commas (default: all whose programs are present)")
    parser.add_argument("--rtts", type=stacks.numbers, default=[2, 4], help="round trips of the hop in ms (default 2,4)")
    parser.add_argument("--losses", type=stacks.numbers, default=[1], help="losses of the hop in percent (default 1)")
    parser.add_argument("--reps", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--seconds", type=float, default=12, help="of each measurement (default 12)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    check_machine(args)
    go_first()
    args.programs = os.path.abspath(args.programs)
    present = [name for name, made in stacks.STACKS.items() if all(os.access(os.path.join(args.programs, need), os.X_OK) for need in made.needs)]
    results = []
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder:
        stacks.certificates(folder)
        stacks.files(folder)
        for stack in chosen(parser, args.stacks, present):
            for rtt in args.rtts:
                for loss in args.losses:
                    rates, figures = {arm: [] for arm in ARMS}, {arm: [] for arm in ARMS}
                    for seed in range(1, args.reps + 1):
                        for arm in ARMS:
                            for _ in range(REPEATS):
                                try:
                                    rate, found, void = once(args, folder, stack, rtt, loss, arm, seed)
                                except RuntimeError as error:
                                    note(f"{stack}: {error}")
                                    continue
                                if void:
                                    note(f"{stack} {arm}: void: {void}")
                                    continue
                                note(f"{stack}, hop {rtt:g} ms, {loss:g} %, {arm}: {rate:.2f} Mbps, {found}")
                                rates[arm].append(rate)
                                figures[arm].append(found)
                                break
                    results.append({"stack": stack, "version": stacks.STACKS[stack].version, "rtt_ms": rtt, "loss_percent": loss, "mbps": rates, "figures": figures})

    if args.json:
        print(json.dumps(results, indent=2))
        return 0

    def mean(values):
        return f"{statistics.mean(values):.2f} ({min(values):.2f}-{max(values):.2f})" if values else "-"

    def share(figures):
        cases = sum(one["cases"] for one in figures)
        return f"{sum(one['repaired'] for one in figures)} of {cases}" if figures else "-"

    rows = [[f"{one['stack']} {one['version']}", f"{one['rtt_ms']:g}", f"{one['loss_percent']:g}", *(mean(one["mbps"][arm]) for arm in ARMS), *(share(one["figures"][arm]) for arm in ARMS)]
            for one in results]
    table(["stack", "hop ms", "loss %", "treated Mbps", "untreated", "cases repaired", "confirmed"], rows)
    return 0


if __name__ == "__main__":
    end_with(main)

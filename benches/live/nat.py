#!/usr/bin/env python3
"""Measures goodput behind address translation on the gateway: the same download over the same lossy hop without it,
masqueraded, behind a port forward, both at once, and in a conntrack zone, behind a firewall that drops packets that
connection tracking finds invalid.

    sender -- 99 Mbps, 25 ms -- gateway -- 20 Mbps, 5 ms, lossy in both directions -- receiver

A cell is the median over the seeds of what the receiver reads in some seconds. The goal is 97 % of the same system's
goodput without translation.

    sudo python3 benches/live/nat.py
    sudo python3 benches/live/nat.py --systems snoop --cases direct,masquerade --seeds 1
"""
import contextlib
import json
import os
import statistics

from common import HERE, Gateway, Program, arguments, check_machine, chosen, end, end_with, goal_arguments, note, run, table

PORT, FORWARDED = 5001, 8001
PATIENCE = 40
SHARE = 0.97

STRICT = ["-A FORWARD -m conntrack --ctstate INVALID -j DROP", "-P OUTPUT DROP", "-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"]
MASQUERADE = "-t nat -A POSTROUTING -o {wired} -j MASQUERADE"
FORWARD = "-t nat -A PREROUTING -i {wired} -p tcp --dport {forwarded} -j DNAT --to-destination {receiver}:{port}"
# End that opens the connection, and the rules on the gateway.
CASES = {
    "direct": ("receiver", []),
    "tracked": ("receiver", STRICT),
    "masquerade": ("receiver", [*STRICT, MASQUERADE]),
    "forward": ("sender", [*STRICT, FORWARD]),
    "both": ("sender", [*STRICT, FORWARD, "-t nat -A POSTROUTING -j MASQUERADE"]),
    "zone": ("receiver", [*STRICT, MASQUERADE, "-t raw -A PREROUTING -j CT --zone 7"]),
}
SYSTEMS = {
    "bbr": None,
    "snoop": 'mode = "snoop"',
    "snoop-none": 'mode = "snoop"\nsnoop.flow_control = "none"',
    "split": 'mode = "split"',
}


def transfer(args, system, case, seed):
    command = [args.lasthop, "lab", "hold", os.path.join(HERE, "b.toml"), "--scheme", "E2E", "--json", "--seed", str(seed), "--set",
               f"links.lossy.errors.frame_loss={args.loss} %", "--set", "links.lossy.rate=20 Mbps", "--set", "lab.lateness=50 ms"]
    opener, rules = CASES[case]
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Program(None, *command))
        nodes = json.loads(lab.line())["nodes"]
        space = {name: node["namespace"] for name, node in nodes.items()}
        wired, lossy = (nodes["gateway"]["devices"][link] for link in ("wired", "lossy"))
        sender, receiver = nodes["sender"]["address"], nodes["receiver"]["address"]
        outer = nodes["gateway"]["address"]
        for rule in rules:
            rule = rule.format(wired=wired, receiver=receiver, port=PORT, forwarded=FORWARDED)
            run("iptables", "-w", *rule.split(), namespace=space["gateway"])
        gateway = None
        if SYSTEMS[system]:
            rule = f'interface = "{lossy}"\naddresses = ["{receiver}"]\n{SYSTEMS[system]}'
            gateway = stack.enter_context(Gateway(args, space["gateway"], rule))
        if opener == "receiver":
            sending = stack.enter_context(end(space["sender"], "give", PORT, "bbr"))
            sending.line()
            reading = stack.enter_context(end(space["receiver"], "fetch", sender, PORT, args.seconds))
        else:
            reading = stack.enter_context(end(space["receiver"], "receive", PORT, args.seconds))
            reading.line()
            address = (outer, FORWARDED) if rules else (receiver, PORT)
            sending = stack.enter_context(end(space["sender"], "send", *address, "bbr"))
        read = reading.result(args.seconds + PATIENCE)
        status = gateway.status() if gateway else None
    return {"mbps": read["bytes"] * 8e-6 / read["seconds"], "packets": status and status["packets"], "split": status and status["split"]}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"which, separated by commas (default {','.join(SYSTEMS)})")
    parser.add_argument("--cases", default=",".join(CASES), help=f"which, separated by commas (default {','.join(CASES)})")
    parser.add_argument("--loss", default="2", help="percent of the frames (default 2)")
    parser.add_argument("--seeds", type=int, default=3, help="runs a cell (default 3)")
    parser.add_argument("--seconds", type=float, default=10, help="of each transfer (default 10)")
    goal_arguments(parser)
    args = parser.parse_args()
    check_machine(args)
    systems, cases = chosen(parser, args.systems, SYSTEMS), chosen(parser, args.cases, CASES)
    cells, missed = [], False
    for system in systems:
        bare = None
        for case in cases:
            runs = [transfer(args, system, case, seed) for seed in range(1, args.seeds + 1)]
            mbps = [one["mbps"] for one in runs]
            median = statistics.median(mbps)
            bare = bare or median
            missed |= median < SHARE * bare
            cells.append({"system": system, "case": case, "mbps": median, "mbps_all": mbps, "share": median / bare, "runs": runs})
            note(f"{system}, {case}: " + ", ".join(f"{one:.2f}" for one in mbps) + f" Mbps ({median / bare:.1%})")
    if args.json:
        print(json.dumps({"seconds": args.seconds, "loss_percent": float(args.loss), "cells": cells}, indent=2))
    else:
        rows = [[cell["system"], cell["case"], f"{cell['mbps']:.2f}", f"{min(cell['mbps_all']):.2f} - {max(cell['mbps_all']):.2f}", f"{cell['share']:.1%}"] for cell in cells]
        table(["system", "case", "Mbps", "lowest - highest", "of direct"], rows)
    return 1 if missed and args.require else 0


if __name__ == "__main__":
    end_with(main)

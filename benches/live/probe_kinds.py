#!/usr/bin/env python3
"""Compares results of `lasthop probe` with the true values on random links of many kinds, emulated by
`lasthop lab hold`: each reported quantity is right, unknown (the report says so) or false. Each link takes about a
minute.

    sudo benches/live/probe_kinds.py [--kinds all] [--links 5] [--seed 1] [--at-once 2] [--lab LASTHOP]
"""
import os
import random
import tempfile

import common
from drawn import arguments, between, each

KINDS = ("plain", "jitter", "jitter-free", "jitter-exponential", "duplicates", "policer", "shaper", "steps", "ramp", "slots", "wifi",
         "wifi-duplex", "asymmetric", "far", "others")
RIGHT, UNKNOWN, FALSE = range(3)
# A host limits the packets in front of its own link, so that its socket's buffer would be measured there.
WIRES = [line for router, host in (("behind", "far"), ("before", "near")) for line in (
    f"[routers.{router}]", f"[links.{host}]", f'between = ["{host}", "{router}"]', 'rate = "1 Gbps"', 'delay = "10 us"', 'queue = "1000 packets"')]


def drawn(kind, seed, number):
    """Returns a link of a kind as TOML, and the true values of each direction: down, up."""
    draw = random.Random(f"{kind} {seed} {number}")
    fastest = between(draw, 1e6, 5e7)
    delay = between(draw, 250, 350) if kind == "far" else between(draw, 5, 80)
    keys, truths = [], []
    for way in ("down", "up"):
        rate, queue = fastest * between(draw, 0.5, 1), round(between(draw, 20, 200))
        loss = 0.3 * draw.random() if kind == "asymmetric" else draw.choice((0, 0.03 * draw.random()))
        truth = {"rate": [rate, rate], "base": [2 * delay, 2 * delay], "loss": loss, "queue": queue, "named": [], "may": []}
        if kind == "policer":
            sustained, burst = rate * between(draw, 0.1, 0.6), round(between(draw, 8e3, 0.3 * rate / 8 + 1e4))
            keys.append(f'policer_{way} = {{ rate = "{sustained / 1e3:.0f} kbps", burst = "{burst} B" }}')
            truth.update(rate=[sustained, sustained], queue=None, named=["policer"])
        elif kind == "shaper":
            sustained, burst = rate * between(draw, 0.1, 0.6), round(between(draw, 2e4, 0.1 * rate / 8 + 3e4))
            keys.append(f'shaper_{way} = {{ rate = "{sustained / 1e3:.0f} kbps", burst = "{burst} B" }}')
            truth.update(rate=[sustained, sustained], queue=None, named=["shaper"])
        elif kind in ("steps", "ramp"):
            count, lasts = draw.randint(2, 5), between(draw, 1, 6)
            levels = [rate * between(draw, 0.1, 1) for _ in range(count)]
            points = levels + [levels[0]] if kind == "ramp" else levels
            word = "points" if kind == "ramp" else "steps"
            text = ", ".join(f'{{ at = "{at * lasts:.3f} s", rate = "{level / 1e3:.0f} kbps" }}' for at, level in enumerate(points))
            lap = f'length = "{count * lasts:.3f} s", ' if kind == "steps" else ""
            keys.append(f'rate_variation_{way} = {{ model = "{kind}", {word} = [{text}], {lap}wrap = "repeat" }}')
            truth["rate"] = [min(levels), max(levels)]
            if max(levels) > 1.3 * min(levels):
                truth.update(queue=None, named=["varying_rate"])
            else:
                truth["may"] = ["varying_rate"]
        elif kind == "slots":
            slot = between(draw, 1, 30)
            keys.append(f'slots_{way} = "{slot:.3f} ms"')
            truth.update(base=[2 * delay, 2 * (delay + slot)], named=["slots"])
        elif kind in ("wifi", "wifi-duplex"):
            rate = between(draw, 2e7, 1e8)
            frames, access, backoff = draw.randint(4, 40), between(draw, 100, 400), 135
            failing = between(draw, 0.002, 0.1)
            keys.append(f'aggregation_{way} = {{ frames = {frames}, access = "{access:.0f} us", backoff = "{backoff} us", frame_loss = {failing:.4f} }}')
            air = 12e3 / rate
            most = min(frames, int(5.484e-3 / air), queue)
            lasting = [(1 - failing) * part * 12e3 / (part * air + (access + 0.5 * backoff) * 1e-6) for part in (0.75 * most, most)]
            truth.update(rate=lasting, base=[2 * delay, 2 * delay + 8 * (access + backoff) / 1e3], queue=queue, named=["aggregation"], may=["jitter", "half_duplex"])
        elif kind.startswith("jitter"):
            deviation = between(draw, 1, 0.25 * delay)
            if kind == "jitter-exponential":
                keys.append(f'delay_variation_{way} = {{ model = "exponential", mean = "{deviation:.3f} ms", order = "free" }}')
                truth.update(base=[2 * delay, 2 * delay + 0.5 * deviation], named=["jitter", "reordering"])
            else:
                order = "free" if kind == "jitter-free" else "kept"
                keys.append(f'delay_variation_{way} = {{ model = "normal", mean = "{4 * deviation:.3f} ms", deviation = "{deviation:.3f} ms", order = "{order}" }}')
                truth.update(base=[2 * delay, 2 * delay + 4 * deviation], named=["jitter"] + (["reordering"] if order == "free" else []))
        elif kind == "duplicates":
            share = between(draw, 0.005, 0.1)
            keys.append(f'duplicates_{way} = "{100 * share:.3f} %"')
            truth["named"] = ["duplicates"]
        elif kind == "others":
            truth.update(named=["other_traffic"] if way == "down" else [], loss=None, queue=None if way == "down" else queue)
        keys.append(f'rate{"_up" if way == "up" else ""} = "{rate / 1e3:.0f} kbps"')
        keys.append(f'queue{"_up" if way == "up" else ""} = "{queue} packets"')
        errors = f'{{ model = "uniform", frame_loss = {loss:.5f} }}' if loss else '{ model = "none" }'
        keys.append(f"errors_{way} = {errors}")
        truths.append(truth)
    if kind == "wifi":
        keys.append('medium = "half-duplex"')
    base = [sum(truth["base"][at] for truth in truths) / 2 for at in (0, 1)]
    for truth in truths:
        truth["base"] = base
    text = "\n".join([f'title = "{kind}"', f"seed = {1 + 100 * (1000 * seed + number)}", "[hosts.near]", "[hosts.far]", *WIRES, "[links.hop]", 'between = ["behind", "before"]',
                      f'delay = "{delay:.3f} ms"', *keys, "[flows.unused]", 'from = "far"', 'to = "near"', "size = 1"])
    return text + "\n", truths


def others(nodes, draw, rate):
    """Sends intermittent datagrams on the downlink, until the lab ends."""
    script = ("import random, socket, sys, time\n"
              "seed, rate, host = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]\n"
              "draw, out = random.Random(seed), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "while True:\n"
              "    until, gap = time.monotonic() + draw.expovariate(0.5), 1400 * 8 / (rate * (0.3 + 0.6 * draw.random()))\n"
              "    while time.monotonic() < until:\n"
              "        out.sendto(bytes(1372), (host, 9)); time.sleep(draw.expovariate(1 / gap))\n"
              "    time.sleep(draw.expovariate(0.5))\n")
    return common.Program(nodes["far"]["namespace"], "python3", "-c", script, str(draw.randint(1, 1 << 30)), str(rate), nodes["near"]["address"])


def measure(args, folder, kind, text, truths, draw):
    """Returns the probe's report, and the lab's."""
    beside = (lambda nodes: others(nodes, draw, truths[0]["rate"][0])) if kind == "others" else None
    return common.probed(args, folder, text, beside=beside)[1:]


def judge(report, way, truth):
    """Judges the report on a direction: each quantity with its verdict and a description."""
    found = report[way]
    behaviour = found["behaviour"]
    unknown = [one["quantity"] for one in behaviour["unknown"]]
    missing = lambda quantity: UNKNOWN if quantity in unknown else FALSE
    low, high = truth["rate"]
    verdicts = {}
    if (rate := found["rate_bps"]) is None:
        verdicts["rate"] = missing("rate")
    elif found["rate_is_lower_bound"]:
        verdicts["rate"] = RIGHT if rate["value"] <= 1.05 * high else FALSE
    else:
        least, most = rate["interval"]
        near = 0.95 * low <= rate["value"] <= 1.05 * high
        holds = least <= 1.2 * low and most >= 0.8 * high if high > 1.3 * low and not behaviour["aggregation"] else True
        wide = least <= 1.005 * low and most >= 0.995 * high and most < 3 * least
        verdicts["rate"] = RIGHT if near and holds or wide else FALSE
    base = report["base_rtt_ms"]
    verdicts["base"] = missing("base_delay") if base is None else RIGHT if truth["base"][0] - 1 <= base <= truth["base"][1] + 1 else FALSE
    if truth["loss"] is not None:
        share = found["loss"]["share"]
        verdicts["loss"] = missing("loss") if share is None else RIGHT if share["interval"][0] <= 1.02 * truth["loss"] and share["interval"][1] >= 0.98 * truth["loss"] else FALSE
    queue = found["queue"]
    if queue is None:
        verdicts["queue"] = UNKNOWN
    elif truth["queue"] is None:
        verdicts["queue"] = UNKNOWN if found["behaviour"]["other_traffic"] else FALSE
    elif queue["filled"]:
        verdicts["queue"] = RIGHT if abs(queue["packets"] / truth["queue"] - 1) <= 0.2 else FALSE
    else:
        verdicts["queue"] = RIGHT if queue["packets"] <= 1.2 * truth["queue"] else FALSE
    names = [name for name, part in behaviour.items() if name != "unknown" and part is not None]
    extra = [name for name in names if name not in truth["named"] + truth["may"]]
    missed = [name for name in truth["named"] if name not in names]
    verdicts["named"] = FALSE if extra else UNKNOWN if missed else RIGHT
    words = {"rate": (truth["rate"], rate), "base": (truth["base"], base), "loss": (truth["loss"], found["loss"]["share"]), "queue": (truth["queue"], queue),
             "named": (truth["named"], names)}
    return verdicts, words


def link_of(args, kind, number, kept):
    text, truths = drawn(kind, args.seed, number)
    with tempfile.TemporaryDirectory(prefix="lasthop-probe-") as folder:
        try:
            report, lab = measure(args, folder, kind, text, truths, random.Random(f"others {args.seed} {number}"))
        except RuntimeError as error:
            print(f"{kind} {number}: FALSE: {error}", flush=True)
            kept.keep(f"{args.seed}-{kind}-{number}.json", {"kind": kind, "ways": [{"report": FALSE}], "text": text})
            return
    ways = []
    for way, truth in zip(("down", "up"), truths):
        verdicts, words = judge(report, way, truth)
        ways.append(verdicts)
        for name, verdict in verdicts.items():
            if verdict != RIGHT:
                print(f"{kind} {number} {way} {('', 'unknown', 'FALSE')[verdict]} {name}: {words[name]}", flush=True)
    kept.keep(f"{args.seed}-{kind}-{number}.json", {"kind": kind, "ways": ways, "report": report, "text": text, "late": lab.get("lateness_us")})


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--kinds", default="all", help="kinds, separated by commas (default all)")
    arguments(parser, 5)
    parser.add_argument("--lab", help="lasthop's command for the lab (default that of --lasthop)")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "target", "probe-kinds"), help="folder of results; what is there is not measured again (default target/probe-kinds)")
    args = parser.parse_args()
    args.lab = args.lab or args.lasthop
    kinds, kept = common.chosen(parser, args.kinds, KINDS), common.Kept(args.results)
    all_links = [(kind, number) for number in range(args.first, args.first + args.links) for kind in kinds]
    status = 0
    if not args.only_show:
        common.check_machine(args)
        common.go_first()
        left = [(kind, number) for kind, number in all_links if kept.get(f"{args.seed}-{kind}-{number}.json") is None]
        status = each(args, left, lambda one, _stop: link_of(args, *one, kept))
    counts = {}
    for kind, number in all_links:
        for way in (kept.get(f"{args.seed}-{kind}-{number}.json") or {"ways": []})["ways"]:
            for name, verdict in way.items():
                counts.setdefault((kind, name), [0, 0, 0])[verdict] += 1
    print("kind quantity: right, unknown or missed, false")
    for (kind, name), count in counts.items():
        print(f"{kind:18} {name:7} {count[0]:3} {count[1]:3} {count[2]:3}")
    return status


if __name__ == "__main__":
    common.end_with(main)

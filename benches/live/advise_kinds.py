#!/usr/bin/env python3
"""Compares the advice with measurements on links of many kinds (see probe_kinds.py): `lasthop probe` measures the hop, `lasthop fit` models it, `lasthop advise` names a cure
for downloads, and `lasthop lab` runs every cure on the link itself, between kernels.

    sudo benches/live/advise_kinds.py [--kinds all] [--links 1] [--seed 1] [--at-once 2]
    sudo benches/live/advise_kinds.py --kinds moving --traces MAHIMAHI/traces --measure sim
    benches/live/advise_kinds.py --only-show               # print the results so far

The kinds `moving-...` are those of probe_moving.py, measured with `lasthop probe --moving`; `all` does not include them.
With `--measure sim` the cures run in the simulator, on the true link, instead of the lab.

Results are kept in a folder (--results), one file for each run. An interrupted call continues there.

Two goals: the advised cure has at least 97 % of the throughput without a cure on every link, and at least 95 % of the best cure's on 9 of 10 links. `?` marks a shortfall that
is within the 95 % interval of the runs.
"""
import json
import math
import os
import random
import tempfile

import advise
import common
import probe_kinds
import probe_moving
from drawn import ENDLESS, arguments, each, seed as seed_of

NONE, CURES = advise.NONE, advise.CURES
NO_HARM, NEAR_BEST = 0.97, 0.95
MOVING = "moving-"
# Largest loss of links whose rate moves.
MOST_LOSS = 0.03


def path_of(text, wire, seconds):
    """The scenario of a download over the drawn hop: the hop's keys are those of `probe_kinds.drawn`."""
    hop = text.split("[links.hop]\n", 1)[1].split("[flows.unused]", 1)[0]
    hop = hop.replace('between = ["behind", "before"]', 'between = ["base", "before"]')
    keys = "\n".join(line for line in hop.splitlines() if line)
    return f"""seed = 1
limit = "{seconds:g} s"
[tcp]
preset = "linux-6.18"
[lab]
settings = "kernel"
[hosts.server]
[hosts.client]
[routers.base]
[routers.before]
[links.wire]
between = ["server", "base"]
rate = "990 Mbps"
delay = "{wire:.3f} ms"
queue = "1000 packets"
[links.hop]
{keys}
[links.lan]
between = ["before", "client"]
rate = "1 Gbps"
delay = "10 us"
queue = "1000 packets"
[flows.download]
from = "server"
to = "client"
size = {ENDLESS!r}
close = "off"
[base_station]
router = "base"
link = "hop"
"""


def steps(args, kind, number, kept):
    """Yields for each step the file that it leaves and the function that does it."""
    is_moving = kind.startswith(MOVING)
    if is_moving:
        text = probe_moving.drawn(kind.removeprefix(MOVING), args.seed, number, args.traces, MOST_LOSS)
    else:
        text, truths = probe_kinds.drawn(kind, args.seed, number)
    draw = random.Random(f"others {args.seed} {number}")
    wire = 2 + 18 * draw.random()
    link = kept.path("link.toml")
    with open(link, "w", encoding="utf-8") as file:
        file.write(path_of(text, wire, args.seconds))
    found, fitted = kept.path("found"), kept.path("fitted.toml")

    def probed():
        with tempfile.TemporaryDirectory(prefix="lasthop-probe-") as folder:
            report, _ = probe_moving.measure(args, folder, text) if is_moving else probe_kinds.measure(args, folder, kind, text, truths, draw)
            common.run("cp", "-r", os.path.join(folder, "found"), kept.path(""))
        return report

    fit = ("fit", found, "--wire-delay", f"{wire:.3f} ms", "--out", fitted, "--force", "--json")
    yield "probe.json", probed
    yield "fit.json", lambda: json.loads(advise.call(args.lasthop, *fit))
    yield "advice.json", lambda: advise.advised(args, fitted)
    seed = seed_of(args.seed, number)
    for run in range(1, args.runs + 1):
        for cure in CURES:
            yield f"{args.measure}-{cure}-{run}.json", lambda cure=cure, run=run: measured(args, link, cure, seed + run)


def measured(args, link, cure, seed):
    """Returns the figures of one run of a cure on the true link, in the lab or in the simulator."""
    if args.measure == "lab":
        return advise.measured(args, link, cure, seed)
    out = json.loads(advise.call(args.lasthop, "run", link, "--json", "--scheme", cure, "--runs", "1", "--seed", str(seed)))
    return {"throughput": out["measures"]["throughput"]["mean"]}


def kept_of(args, kind, number):
    return common.Kept(os.path.join(args.results, f"{args.seed}-{kind}-{number}"))


def work(args, one, stop):
    kind, number = one
    kept = kept_of(args, kind, number)
    for name, step in steps(args, kind, number, kept):
        if kept.get(name) is not None:
            continue
        if stop.is_set():
            return
        common.note(f"{kind} {number}: {name.removesuffix('.json')}")
        try:
            kept.keep(name, step())
        except RuntimeError as error:
            common.note(f"{kind} {number}: left out: {name}: {error}")
            if not name.startswith(args.measure):
                return


def judge(args, kind, number):
    """Returns the row of a link; `None` if a part is missing."""
    kept = kept_of(args, kind, number)
    advice = kept.get("advice.json")
    runs = {cure: {run: found["throughput"] for run in range(1, args.runs + 1) if (found := kept.get(f"{args.measure}-{cure}-{run}.json"))} for cure in CURES}
    if advice is None or not all(runs.values()):
        return None
    mean = {cure: sum(values.values()) / len(values) for cure, values in runs.items()}
    said, best = advice["advised"] or NONE, max(mean, key=mean.get)
    family = ((kept.get("probe.json") or {}).get("down", {}).get("moving") or {}).get("family", "")
    return {"kind": kind, "link": number, "family": family, "mbps": mean, "advised": said, "best": best, "over_none": mean[said] / mean[NONE], "over_best": mean[said] / mean[best],
            "no_harm": advise.beside(runs[said], runs[NONE], NO_HARM), "near_best": advise.beside(runs[said], runs[best], NEAR_BEST)}


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--kinds", default="all", help="kinds, separated by commas, or `moving` for all moving-... (default all others)")
    parser.add_argument("--traces", metavar="FOLDER", help="traces of mahimahi, for moving-trace")
    parser.add_argument("--measure", choices=["lab", "sim"], default="lab", help="where the cures are compared (default lab)")
    arguments(parser, 1)
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each cure (default 3)")
    parser.add_argument("--seconds", type=float, default=20, help="duration of each download (default 20)")
    parser.add_argument("--lateness", default="5 ms", help="scheduling delay allowed for the lab's links (default 5 ms)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "target", "advise-kinds"), help="folder of results (default target/advise-kinds)")
    args = parser.parse_args()
    args.lab = args.lasthop
    moving = [MOVING + kind for kind in probe_moving.known(args.traces)]
    kinds = moving if args.kinds == "moving" else list(probe_kinds.KINDS) if args.kinds == "all" else common.chosen(parser, args.kinds, [*probe_kinds.KINDS, *moving])
    links = [(kind, number) for number in range(args.first, args.first + args.links) for kind in kinds]
    status = 0
    if not args.only_show:
        common.check_machine(args)
        common.go_first()
        status = each(args, links, lambda one, stop: work(args, one, stop))
    rows = [row for row in (judge(args, *link) for link in links) if row is not None]
    if args.json:
        print(json.dumps(rows, indent=2))
        return status
    mark = {True: "", None: " ?", False: " !"}
    common.table(["link", "family", *CURES, "advised", "over none", "over best"],
                 [[f"{row['kind']} {row['link']}", row["family"], *(f"{row['mbps'][cure]:.2f}" for cure in CURES), row["advised"], f"{row['over_none']:.2f}{mark[row['no_harm']]}",
                   f"{row['over_best']:.2f}{mark[row['near_best']]}"] for row in rows])
    for goal in ("no_harm", "near_best"):
        print(f"{goal}: {sum(row[goal] is True for row in rows)} of {len(rows)}, {sum(row[goal] is None for row in rows)} within chance")
    if rows:
        print(f"advised over none, geometric mean: {math.exp(sum(math.log(row['over_none']) for row in rows) / len(rows)):.3f}")
    return status


if __name__ == "__main__":
    common.end_with(main)

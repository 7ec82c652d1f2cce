#!/usr/bin/env python3
"""Tests the advice for web pages and calls as well. It continues the work of advise.py: on the same links, in the same
folder (--results), `lasthop advise` chooses a cure for all uses, and `lasthop lab hold` opens the links with the cure,
over which pages and calls run between kernels (browse.py).

    sudo benches/live/uses.py [--links 10] [--seed 1] [--first 0] [--at-once 2]
    benches/live/uses.py --only-show                     # what has been measured so far

Downloads are those that advise.py measured. All cures have the same pages to fetch in the run with the same number, and
the same errors. Each table has for each use the factor of a cure: promised, from the fit, and measured.

Goals, each for 9 of 10 links:
  advice     what is advised for all uses measures within 3 % of the best cure (gain over all uses, as advise has it) of those that harm none
  no harm    no use measures worse with it than without, beyond what may be chance: on all links
"""
import functools
import json
import math
import os
import signal
import sys
import time

import advise
import common
import drawn
from advise import AS_GOOD, CURES, NONE, SHARE
from call import call
from estimate import mean_interval

USES = {"bulk": "Mbps", "pages": "pages/min", "call": "MOS"}
# Seconds of pages, and of a call, as advise simulates them.
SECONDS = 60


def deadline(link):
    """Returns the playout delay of a call in seconds, like in advise."""
    return max(150.0, link.delay + link.wire + 60) / 1e3


def advised(args, path):
    """Returns the advised cure for all uses, and each one's simulated results."""
    return json.loads(call(args.lasthop, "advise", path, "--json", *advise.settings(drawn.WIRE)))["promise"]


def measured(args, link, kept, cure, run):
    """Runs pages and a call over the link, one after the other."""
    control = "bbr" if cure == "E2E-BBR" else "cubic"
    seed = drawn.seed(args.seed, link_number(kept)) + run
    found = {}
    with common.Program(None, args.lasthop, "lab", "hold", kept.path("link.toml"), "--json", "--scheme", cure, "--seed", str(seed), "--set", "lab.congestion=reno",
                        "--set", f"lab.lateness={args.lateness}") as lab:
        nodes = json.loads(lab.line())["nodes"]
        client, server = (f"{nodes[name]['namespace']}={nodes[name]['address']}" for name in ("client", "server"))
        program = [sys.executable, os.path.join(common.HERE, "browse.py")]
        found["pages"] = json.loads(common.run(*program, "pages", client, server, str(SECONDS), str(seed), control))
        found["call"] = json.loads(common.run(*program, "call", client, server, str(SECONDS), f"{deadline(link):.4f}"))
        lab.process.send_signal(signal.SIGINT)
        ended = json.loads(lab.process.communicate(timeout=60)[0].strip().splitlines()[-1])
    return {**found, "late_p99_us": ended["lateness_us"]["p99"], "void": ended["void"]}


def link_number(kept):
    return int(kept.folder.rpartition("-")[2])


def work(args, number, stop):
    link, kept = drawn.Link.drawn(args.seed, number, args.fastest * 1e6), advise.kept_of(args, number)
    steps = [("advice-all.json", lambda: advised(args, kept.path("fitted.toml")))]
    steps += [(f"uses-{cure}-{run}.json", lambda cure=cure, run=run: measured(args, link, kept, cure, run)) for run in range(1, args.runs + 1) for cure in CURES]
    if kept.get("fit.json") is None:
        common.note(f"link {number}: left out: advise.py has not been there")
        return
    for name, step in steps:
        if kept.get(name) is not None:
            continue
        if stop.is_set() or args.minutes and time.monotonic() - args.begun > 60 * args.minutes:
            return
        common.note(f"link {number}: {name.removesuffix('.json')}")
        try:
            kept.keep(name, step())
        except RuntimeError as error:
            if stop.is_set():
                return
            common.note(f"link {number}: left out: {error}")


def values(args, kept, cure, use):
    """Returns the measurements of a use, by number of run."""
    if use == "bulk":
        return advise.throughputs(args, kept, cure)
    runs = {run: kept.get(f"uses-{cure}-{run}.json") for run in range(1, args.runs + 1)}
    return {run: of[use]["value"] for run, of in runs.items() if of}


def factor(these, none):
    """Returns the geometric mean of `these` relative to runs with the same errors without a cure, and the ends of its
    interval."""
    logs = [math.log(these[run] / none[run]) for run in these if run in none and these[run] > 0 and none[run] > 0]
    mean, half = mean_interval(logs, SHARE)
    return math.exp(mean), None if half is None else math.exp(mean - half), None if half is None else math.exp(mean + half)


def judge(args, number):
    """Judges a link; `None` if something is missing."""
    link, kept = drawn.Link.drawn(args.seed, number, args.fastest * 1e6), advise.kept_of(args, number)
    promise = kept.get("advice-all.json")
    found = {cure: {use: values(args, kept, cure, use) for use in USES} for cure in CURES}
    if promise is None or not all(runs for of in found.values() for runs in of.values()):
        return None
    promised = {cure["cure"]: {use["use"]: use["factor"]["mean"] for use in cure["uses"]} for cure in promise["cures"]}
    cures = {cure: {use: {"mean": mean_interval(list(of[use].values()))[0], "promised": promised[cure][use], "measured": factor(of[use], found[NONE][use])} for use in USES}
             for cure, of in found.items()}
    gain = {cure: math.prod(use["measured"][0] for use in of.values()) ** (1 / len(USES)) for cure, of in cures.items()}
    harms = {cure: [use for use, found in of.items() if found["measured"][2] is not None and found["measured"][2] < 1] for cure, of in cures.items()}
    said = promise["advised"] or NONE
    best = max((cure for cure in CURES if not harms[cure]), key=gain.get)
    late = max(of["late_p99_us"] for cure in CURES for run in range(1, args.runs + 1) if (of := kept.get(f"uses-{cure}-{run}.json")))
    return {"link": number, "words": str(link), "cures": cures, "gain": gain, "harms": harms, "advised": said, "best": best, "late_p99_us": late,
            "advised_over_best": gain[said] / gain[best], "goals": {"advice": gain[said] >= (1 - AS_GOOD) * gain[best], "no harm": not harms[said]}}


def show(judged):
    print(f"link {judged['link']}: {judged['words']}")
    rows = []
    for cure, of in judged["cures"].items():
        marks = [mark for mark in ("advised", "best") if judged[mark] == cure]
        rows.append([cure, *(f"{use['mean']:.2f}" for use in of.values()), *(f"{use['promised']:.2f} {use['measured'][0]:.2f}" for use in of.values()), f"{judged['gain'][cure]:.2f}",
                     ", ".join(judged["harms"][cure]) or "-", ", ".join(marks)])
    common.table(["", *(f"{use}, {unit}" for use, unit in USES.items()), *(f"{use}: promised, measured" for use in USES), "gain", "harms", ""], rows)
    print(f"advised {judged['advised']}: {judged['advised_over_best']:.2f} of the best; links at most {judged['late_p99_us'] / 1e3:.1f} ms late (99 %)\n", flush=True)


def main():
    parser = common.arguments(__doc__)
    drawn.arguments(parser, 10)
    advise.where(parser)
    parser.add_argument("--runs", type=int, default=2, help="measured runs of each cure (default 2)")
    parser.add_argument("--most-runs", type=int, default=6, help="of downloads, as advise.py was told (default 6)")
    args = parser.parse_args()
    args.begun = time.monotonic()
    links = range(args.first, args.first + args.links)
    status = 0
    if not args.only_show:
        common.check_machine(args)
        common.go_first()
        status = drawn.each(args, links, functools.partial(work, args))
    judged = [one for one in (judge(args, number) for number in links) if one is not None]
    if args.json:
        print(json.dumps(judged, indent=2))
        return status
    for one in judged:
        show(one)
    for goal in ("advice", "no harm"):
        print(f"{goal}: {sum(one['goals'][goal] for one in judged)} of {len(judged)} links")
    for use in USES:
        near = [abs(of[use]["promised"] / of[use]["measured"][0] - 1) <= advise.WITHIN for one in judged for cure, of in one["cures"].items() if cure != NONE]
        print(f"{use}: what a cure multiplies by, promised within {100 * advise.WITHIN:.0f} % of what is measured: {sum(near)} of {len(near)}")
    return status


if __name__ == "__main__":
    common.end_with(main)

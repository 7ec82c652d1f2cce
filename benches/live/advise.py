#!/usr/bin/env python3
"""Tests the advice on random links, which are unknown to the analysis: `lasthop probe` measures the hop, `lasthop fit`
models it, `lasthop compare` simulates every cure on the model, `lasthop advise` chooses one, and `lasthop lab` runs
every cure on the link itself, between kernels.

    sudo benches/live/advise.py [--links 10] [--seed 1] [--first 0] [--at-once 2]
    benches/live/advise.py --only-show                     # what has been measured so far

The hop is drawn as in probe.py, but no faster than --fastest; the wire in front of it has 99 Mbps and 2 to 20 ms, and
no losses. A run is one download of --seconds. Results are saved in a folder (--results), one file per run, as soon as
it finishes, and are not repeated: after Ctrl-C the next call continues.

Four goals, each for 9 of 10 links:
  simulated  the mean throughput of every cure, simulated on the fit, is within 10 % of the lab's. The luck in the
             measured runs' errors is removed: the simulator, on the link itself, has the same errors, run by run,
             and many more (a control variate). If a mean is not within 10 %, the table has `?` if the 95 % interval
             is, otherwise `!`
  winner     the cure that is fastest in the simulator measures within 3 % of the fastest
  advice     the advised cure (or no cure) measures within 3 % of the fastest
  no harm    it does not measure worse than no cure, beyond chance, on all links
"""
import functools
import json
import math
import os
import signal
import sys
import time

import common
import drawn

sys.path.append(os.path.join(common.ROOT, "benches", "agreement"))
from call import call  # noqa: E402
from estimate import mean_interval, over, steadied, t_quantile  # noqa: E402

NONE = "E2E-CUBIC"
CURES = (NONE, "E2E-BBR", "SNOOP", "SPLIT-BBR", "LINK-HYBRID")
GOALS = ("simulated", "winner", "advice", "no harm")
WITHIN = 0.10
# Confidence level of intervals.
SHARE = 0.95
AS_GOOD = 0.03
# Width of the interval at which the simulation of a mean stops.
SIMULATED_TO = 0.03


def settings(values):
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def probed(args, kept, seed):
    """Measures the hop from the client's side. The namespaces' congestion control does not matter; every kernel has
    Reno."""
    found, key = kept.path("found"), kept.path("probe.key")
    if not os.path.exists(key):
        call(args.lasthop, "probe", "keygen", key)
    with common.Program(None, args.lasthop, "lab", "hold", kept.path("link.toml"), "--json", "--seed", str(seed), "--set", "lab.congestion=reno") as lab:
        nodes = json.loads(lab.line())["nodes"]
        base, client = nodes["base"], nodes["client"]
        with common.Program(base["namespace"], args.lasthop, "probe", "serve", "--key", key) as server:
            server.until("listening at")
            common.run(args.lasthop, "probe", base["address"], "--key", key, "--out", found, "--force", "--json", "--seconds", str(args.probe_seconds), namespace=client["namespace"])
        lab.process.send_signal(signal.SIGINT)
        lab.process.communicate(timeout=60)
    with open(os.path.join(found, "probe.json"), encoding="utf-8") as file:
        return json.load(file)


def simulated(args, path, seed, more):
    """Returns the throughput of each cure in Mbps, by run: runs with the same number have the same errors as the
    lab's."""
    def one(cure, run):
        out = call(args.lasthop, "run", path, "--json", "--scheme", cure, "--runs", "1", "--seed", str(seed + run), *settings(more))
        return json.loads(out)["measures"]["throughput"]["mean"]

    def known(values):
        mean, half = mean_interval(values, SHARE)
        return half is not None and half <= SIMULATED_TO * mean

    found = {cure: [] for cure in CURES}
    for cure, values in found.items():
        while len(values) < args.simulations or len(values) < args.most_simulations and not known(values):
            values.append(one(cure, len(values) + 1))
    return found


def advised(args, path):
    """Returns the advised cure for downloads, and its promised gain."""
    out = json.loads(call(args.lasthop, "advise", path, "--for", "bulk", "--json", *settings(drawn.WIRE)))
    return {"advised": out["promise"]["advised"], "promise": out["promise"]}


def measured(args, path, cure, seed):
    """Measures one run in the lab."""
    out = call(args.lasthop, "lab", path, "--runs", "1", "--json", "--schemes", cure, "--seed", str(seed), "--set", f"lab.lateness={args.lateness}")
    row = json.loads(out)["schemes"][0]
    measures = {name: measure["mean"] for name, measure in row["measures"].items()}
    if not measures["throughput"]:
        raise RuntimeError(f"{cure}: nothing arrived")
    return {"throughput": measures["throughput"], "measures": measures, "late_p99_us": row["lateness_us"]["p99"], "void": row["void"]}


def throughputs(args, kept, cure):
    """Returns the lab's measurements of a cure, by number of run."""
    runs = {run: kept.get(f"lab-{cure}-{run}.json") for run in range(1, max(args.runs, args.most_runs) + 1)}
    return {run: of["throughput"] for run, of in runs.items() if of}


def luck_off(args, kept, cure):
    """Returns the measured mean of a cure, corrected by `steadied`."""
    return steadied(throughputs(args, kept, cure), dict(enumerate(kept.get("on-link.json")[cure], 1)))


def is_known(args, kept, cure):
    """Returns whether the mean is known to the precision that the goal needs, and whether it meets the goal."""
    mean, variance, freedom = luck_off(args, kept, cure)
    if variance is None or t_quantile((1 + SHARE) / 2, freedom) * math.sqrt(variance) > WITHIN * mean:
        return False
    return within(over(kept.get("on-fit.json")[cure], (mean, variance, freedom), SHARE)) is not None


def steps(args, number, link, kept):
    """Returns for each step the file that it writes, and the function that runs it."""
    # The measurement has other errors than the transfers.
    seed = drawn.seed(args.seed, number)
    original, fitted = kept.path("link.toml"), kept.path("fitted.toml")
    transfer = {**drawn.WIRE, "flows.download.size": drawn.ENDLESS, "flows.download.close": "off", "limit": f"{args.seconds:g} s"}
    fit = ("fit", kept.path("found"), "--wire-delay", f"{link.wire:.3f} ms", "--out", fitted, "--force", "--json")
    yield "probe.json", lambda: probed(args, kept, seed)
    yield "fit.json", lambda: json.loads(call(args.lasthop, *fit))
    yield "on-fit.json", lambda: simulated(args, fitted, seed, transfer)
    yield "on-link.json", lambda: simulated(args, original, seed, {})
    yield "advice.json", lambda: advised(args, fitted)
    for run in range(1, max(args.runs, args.most_runs) + 1):
        for cure in CURES:
            if run <= args.runs or not is_known(args, kept, cure):
                yield f"lab-{cure}-{run}.json", lambda cure=cure, run=run: measured(args, original, cure, seed + run)


def kept_of(args, number):
    return common.Kept(os.path.join(args.results, f"{args.seed}-{args.fastest:g}Mbps-{args.seconds:g}s-{number}"))


def work(args, number, stop):
    """Runs the missing steps of a link."""
    link, kept = drawn.Link.drawn(args.seed, number, args.fastest * 1e6), kept_of(args, number)
    with open(kept.path("link.toml"), "w", encoding="utf-8") as file:
        file.write(link.path(args.seconds))
    for name, step in steps(args, number, link, kept):
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
            if not name.startswith("lab-"):
                return


def within(found):
    """Returns whether it meets the goal; `None` if it does not, but within chance."""
    value, low, high = found
    if abs(value - 1) <= WITHIN:
        return True
    return None if low is None or (low <= 1 + WITHIN and high >= 1 - WITHIN) else False


def link_over_lab(simulated, measured, lab):
    """Compares simulation and measurement of the same link with the same errors: only their difference varies."""
    differences = [value - simulated[run - 1] for run, value in measured.items()]
    mean, half = mean_interval(differences, SHARE)
    return (lab[0] - mean) / lab[0], *((None, None) if half is None else ((lab[0] - mean - half) / lab[0], (lab[0] - mean + half) / lab[0]))


def beside(these, those, least):
    """Returns whether runs are on average at least `least` times as good as those with the same errors; `None` if they
    are not, but within chance."""
    logs = [math.log(these[run] / those[run]) for run in these if run in those]
    mean, half = mean_interval(logs, SHARE) if logs else (0.0, None)
    if mean >= math.log(least):
        return True
    return None if half is None or mean + half >= math.log(least) else False


def judge(args, number):
    """Judges a link; `None` if something is missing."""
    link, kept = drawn.Link.drawn(args.seed, number, args.fastest * 1e6), kept_of(args, number)
    known = [kept.get(f"{name}.json") for name in ("on-fit", "on-link", "advice")]
    throughput = {cure: throughputs(args, kept, cure) for cure in CURES}
    if any(one is None for one in known) or not all(throughput.values()):
        return None
    fitted, original, advice = known
    rows = {}
    for cure in CURES:
        lab = luck_off(args, kept, cure)
        half = None if lab[1] is None else t_quantile((1 + SHARE) / 2, lab[2]) * math.sqrt(lab[1])
        rows[cure] = {"fit": mean_interval(fitted[cure], SHARE), "link": mean_interval(original[cure], SHARE), "lab": (lab[0], half), "runs": len(throughput[cure]),
                      "fit_over_lab": over(fitted[cure], lab, SHARE), "link_over_lab": link_over_lab(original[cure], throughput[cure], lab)}
    lab = {cure: rows[cure]["lab"][0] for cure in CURES}
    fastest = max(CURES, key=lab.get)
    said = advice["advised"] or NONE
    winner = max(CURES, key=lambda cure: rows[cure]["fit"][0])
    return {
        "link": number, "words": str(link), "cures": rows,
        "winner_simulated": winner, "winner_measured": fastest, "advised": said,
        "advised_over_best": lab[said] / lab[fastest], "advised_over_none": lab[said] / lab[NONE],
        "late_p99_us": max(kept.get(f"lab-{cure}-{run}.json")["late_p99_us"] for cure in CURES for run in throughput[cure]),
        "goals": {
            "simulated": verdict([within(row["fit_over_lab"]) for row in rows.values()]),
            "winner": beside(throughput[winner], throughput[fastest], 1 - AS_GOOD),
            "advice": beside(throughput[said], throughput[fastest], 1 - AS_GOOD),
            "no harm": beside(throughput[said], throughput[NONE], 1.0) is not False,
        },
    }


def verdict(parts):
    """Combines the verdicts on the parts of a link: right, wrong, or unknown."""
    return False if False in parts else None if None in parts else True


def with_half(value):
    mean, half = value
    return f"{mean:.2f}" if half is None else f"{mean:.2f} ± {half:.2f}"


def show(judged):
    """Prints a link for people."""
    print(f"link {judged['link']}: {judged['words']}")
    rows = []
    for cure, row in judged["cures"].items():
        marks = [mark for mark, name in (("simulated best", "winner_simulated"), ("measured best", "winner_measured"), ("advised", "advised")) if judged[name] == cure]
        off = {True: "", None: " ?", False: " !"}[within(row["fit_over_lab"])]
        rows.append([cure, with_half(row["fit"]), with_half(row["link"]), f"{with_half(row['lab'])} ({row['runs']})",
                     f"{row['fit_over_lab'][0]:.2f}{off}", f"{row['link_over_lab'][0]:.2f}", ", ".join(marks)])
    common.table(["Mbps", "on the fit", "on the link", "lab (runs)", "fit/lab", "link/lab", ""], rows)
    missed = [goal + (" (may be chance)" if held is None else "") for goal, held in judged["goals"].items() if not held]
    print(f"advised {judged['advised']}: {judged['advised_over_best']:.2f} of the best, {judged['advised_over_none']:.2f} times none; "
          f"links at most {judged['late_p99_us'] / 1e3:.1f} ms late (99 %); missed: {', '.join(missed) or 'nothing'}\n", flush=True)


def where(parser):
    """Adds the options for selecting, storing and displaying runs."""
    parser.add_argument("--fastest", type=float, default=30, help="Mbps of the fastest direction, at most 90 (default 30)")
    parser.add_argument("--seconds", type=float, default=30, help="duration of each download (default 30, as advise simulates it)")
    parser.add_argument("--probe-seconds", type=int, default=60, help="duration of the measurement, 10 to 300 (default 60)")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many minutes")
    parser.add_argument("--lateness", default="2 ms", help="how late the lab's links may be (default 2 ms)")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "target", "advise"), help="folder of runs (default target/advise)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def arguments():
    parser = common.arguments(__doc__)
    drawn.arguments(parser, 10)
    where(parser)
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each cure (default 3)")
    parser.add_argument("--most-runs", type=int, default=6, help=f"more of a cure whose mean they do not tell to {100 * WITHIN:.0f} %%, up to so many (default 6)")
    parser.add_argument("--simulations", type=int, default=20, help="simulated runs of each cure (default 20)")
    parser.add_argument("--most-simulations", type=int, default=200, help=f"more of a cure whose mean they do not tell to {100 * SIMULATED_TO:.0f} %%, up to so many (default 200)")
    parser.add_argument("--require", action="store_true", help="end with status 1 unless every goal holds in 9 links of 10, and no advice harms")
    return parser


def main():
    parser = arguments()
    args = parser.parse_args()
    args.begun = time.monotonic()
    if not 1 < args.fastest <= 90:
        parser.error("--fastest: give 1 to 90; the wire has 99 Mbps")
    if min(args.links, args.runs, args.simulations, args.at_once) < 1:
        parser.error("--links, --runs, --simulations and --at-once begin at 1")
    links = range(args.first, args.first + args.links)
    status = 0
    if not args.only_show:
        common.check_machine(args)
        common.go_first()
        status = drawn.each(args, links, functools.partial(work, args))
    judged = [one for one in (judge(args, number) for number in links) if one is not None]
    held = {goal: sum(one["goals"][goal] is True for one in judged) for goal in GOALS}
    missed = {goal: sum(one["goals"][goal] is False for one in judged) for goal in GOALS}
    if args.json:
        print(json.dumps({"links": judged, "held": held, "missed": missed, "of": len(judged)}, indent=2))
    else:
        for one in judged:
            show(one)
        for goal in GOALS:
            unknown = len(judged) - held[goal] - missed[goal]
            print(f"{goal}: {held[goal]} of {len(judged)} links" + (f"; on {unknown} more it may be chance that it is not" if unknown else ""))
        for key, name in (("fit_over_lab", "the fit"), ("link_over_lab", "the link itself")):
            pairs = [within(row[key]) for one in judged for row in one["cures"].values()]
            print(f"means simulated on {name} within {100 * WITHIN:.0f} % of the lab's: {pairs.count(True)} of {len(pairs)}; {pairs.count(False)} are surely off")
        if len(judged) < len(links):
            print(f"{len(links) - len(judged)} of {len(links)} links are not done")
    right = len(judged) == len(links) and all(held[goal] >= 0.9 * len(judged) for goal in GOALS) and held["no harm"] == len(judged)
    return status or int(args.require and not right)


if __name__ == "__main__":
    common.end_with(main)

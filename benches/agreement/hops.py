#!/usr/bin/env python3
"""Tests whether the simulator predicts this machine's kernel on random hops: each is simulated, and measured in the
lab.

A hop has 1 to 200 Mbps, 1 to 300 ms one way, a queue of 10 to 200 packets, and loses 0 to 10 % of the frames in each
direction, independently, in bursts or in bad periods. Hosts have their default queues. Under each scheme the same
download runs several times in the lab and in the simulator, with the same errors.

    sudo python3 benches/agreement/hops.py --hops 60 --at-once 2
    python3 benches/agreement/hops.py --only-table                            # a row per hop, from the stored runs
    python3 benches/agreement/hops.py --only-table --page docs/agreement.md   # the summary on the page, from the stored runs

Each run is saved in a file (--results) as soon as it finishes, and is not repeated: after Ctrl-C the next call
continues.
"""
import csv
import json
import os
import random
import statistics
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "live")]
import common  # noqa: E402
import drawn  # noqa: E402
import page  # noqa: E402
from call import call  # noqa: E402
from estimate import t_quantile  # noqa: E402

SCHEMES = ("E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR")
FIELDS = ("seed", "hop", "run", "scheme", "seconds", "measured", "simulated", "host_drops", "void", "about")
# Maximum relative difference between the simulated and the measured mean.
WITHIN = 0.10
LOCK = threading.Lock()


def hop(seed, number):
    """Returns the link with this number."""
    draw = random.Random(f"hops {seed} {number}")
    down, up = (drawn.direction(draw, fastest=2e8) for _ in range(2))
    return drawn.Link(down, up, drawn.between(draw, 1, 300), drawn.between(draw, 2, 20))


def seconds(link):
    """Returns the duration for which a download is representative: some tens of round trips."""
    return round(min(40, 10 + 50 * 2e-3 * (link.delay + link.wire)), 1)


def throughputs(told):
    return {row["scheme"]: row["measures"]["throughput"]["mean"] for row in told["schemes"]}


def host_drops(told):
    """Returns the packets that hosts dropped in front of their own links, by scheme."""
    hosts = ("server", "client")
    of = lambda row: row["measures"].get("queue_full_drops", {}).get("mean", 0)  # noqa: E731
    return {scheme["scheme"]: sum(of(row) for row in scheme.get("links", []) if row["from"] in hosts) for scheme in told["schemes"]}


def one(args, done, settled, number, stop):
    """Runs what is missing of a hop, except for the settled cells."""
    link = hop(args.seed, number)
    took = seconds(link)
    with tempfile.TemporaryDirectory(prefix="lasthop-hops-") as folder:
        path = os.path.join(folder, "hop.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(link.path(took))
        for run in range(args.runs):
            schemes = [scheme for scheme in SCHEMES if (args.seed, number, run, scheme) not in done and (number, scheme) not in settled]
            if not schemes or stop.is_set():
                continue
            words = [path, "--schemes", ",".join(schemes), "--runs", "1", "--json", "--seed", str(drawn.seed(args.seed, number) + run)]
            try:
                lab = json.loads(call(args.lasthop, "lab", *words, "--set", f"lab.lateness={args.lateness}"))
                sim = json.loads(call(args.lasthop, "compare", *words))
            except RuntimeError as error:
                common.note(f"hop {number}, run {run}, left out: {error}")
                continue
            measured, simulated, drops = throughputs(lab), throughputs(sim), host_drops(sim)
            void = {row["scheme"]: row["void"] for row in lab["schemes"]}
            for scheme in schemes:
                keep(args.results, {
                    "seed": args.seed, "hop": number, "run": run, "scheme": scheme, "seconds": took, "measured": measured[scheme], "simulated": simulated[scheme],
                    "host_drops": drops[scheme], "void": void[scheme], "about": str(link),
                })
            common.note(f"hop {number}, run {run}: " + ", ".join(f"{scheme} {measured[scheme]:.2f} / {simulated[scheme]:.2f}" for scheme in schemes))


def keep(path, row):
    with LOCK:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)


def verdict(rows):
    """Returns the ratio of the means for a hop under a scheme, half of its 95 % interval, and whether it is within,
    open, or off. The runs share their errors: the remaining chance is estimated from the differences of pairs."""
    measured, simulated = ([float(row[name]) for row in rows] for name in ("measured", "simulated"))
    mean = statistics.fmean(measured)
    if mean == 0:
        return None
    ratio = statistics.fmean(simulated) / mean
    if len(rows) < 2:
        return ratio, None, "within" if abs(ratio - 1) <= WITHIN else "open"
    half = t_quantile(0.975, len(rows) - 1) * statistics.stdev([(s - ratio * m) / mean for s, m in zip(simulated, measured)]) / len(rows) ** 0.5
    if abs(ratio - 1) <= WITHIN:
        return ratio, half, "within"
    return ratio, half, "open" if abs(ratio - 1) - half <= WITHIN else "off"


def judged(rows):
    """Returns the rows of each hop and scheme, and their verdicts, by number and scheme."""
    cells = {}
    for row in rows:
        cells.setdefault((int(row["hop"]), row["scheme"]), []).append(row)
    return cells, {key: found for key, some in cells.items() if (found := verdict(some))}


def table(rows):
    """Returns Markdown with a row per hop."""
    cells, verdicts = judged(rows)
    lines = ["| hop | " + " | ".join(SCHEMES) + " |", "|---|" + "--:|" * len(SCHEMES)]
    for number in sorted({number for number, _ in cells}):
        words = []
        about = next(row["about"] for row in rows if int(row["hop"]) == number)
        for scheme in SCHEMES:
            if (number, scheme) not in verdicts:
                words.append("")
                continue
            ratio, half, what = verdicts[number, scheme]
            measured = statistics.fmean(float(row["measured"]) for row in cells[number, scheme])
            words.append(f"{measured:.2f}, {ratio:.2f}" + (f" ± {half:.2f}" if half is not None else "") + ("" if what == "within" else f" {what}"))
        lines.append(f"| {about} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def summary(rows):
    """Returns Markdown with a row per scheme, and the counts."""
    cells, verdicts = judged(rows)
    hops = {number for number, _ in cells}
    lines = ["| scheme | hops | within 10 % | open | off | ratio: median deviation | lowest | highest |", "|---|" + "--:|" * 7]
    for scheme in SCHEMES:
        found = [verdicts[number, scheme] for number in hops if (number, scheme) in verdicts]
        if not found:
            continue
        counts = [sum(what == wanted for _, _, wanted in found) for what in ("within", "open", "off")]
        ratios = [ratio for ratio, _, _ in found]
        deviation = statistics.median(abs(ratio - 1) for ratio in ratios)
        lines.append(f"| {scheme} | {len(found)} | {' | '.join(map(str, counts))} | {100 * deviation:.1f} % | {min(ratios):.2f} | {max(ratios):.2f} |")
    whole = sum(all(verdicts.get((number, scheme), (0, 0, ""))[2] == "within" for scheme in SCHEMES) for number in hops)
    host = sum(float(row["host_drops"]) > 0 for row in rows)
    lines += ["", f"{len(hops)} hops; all four schemes within {100 * WITHIN:.0f} % on {whole}. Runs in which a host dropped its own packets: {host} of {len(rows)}."]
    return "\n".join(lines)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--hops", type=int, default=60, help="how many (default 60)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each scheme (default 3)")
    parser.add_argument("--outside", action="store_true", help="repeat only the cells that the stored runs put outside 10 %%")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument("--at-once", type=int, default=1, help="labs beside each other (default 1)")
    parser.add_argument("--lateness", default="1 ms", help="how late the lab's links may be (default 1 ms)")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "docs", "data", "hops.csv"), help="file of runs (default docs/data/hops.csv)")
    parser.add_argument("--page", help="page whose summary of hops is written, as docs/agreement.md")
    parser.add_argument("--only-table", action="store_true", help="measure nothing")
    args = parser.parse_args()
    rows = [row for row in page.read_rows(args.results) if int(row["seed"]) == args.seed]
    if not args.only_table:
        if os.geteuid() != 0:
            common.fail("needs root: it makes network namespaces")
        done = {(int(row["seed"]), int(row["hop"]), int(row["run"]), row["scheme"]) for row in rows}
        settled = {key for key, (_, _, what) in judged(rows)[1].items() if what == "within"} if args.outside else set()
        status = drawn.each(args, range(args.first, args.first + args.hops), lambda number, stop: one(args, done, settled, number, stop))
        rows = [row for row in page.read_rows(args.results) if int(row["seed"]) == args.seed]
        if status:
            sys.exit(status)
    if args.page:
        page.replace(args.page, "hops", summary(rows))
    print(f"{table(rows)}\n\n{summary(rows)}")


if __name__ == "__main__":
    main()

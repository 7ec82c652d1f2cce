#!/usr/bin/env python3
"""Tests the causes of losses and the limits of transfers that `lasthop diagnose` reports. One download with this
kernel's TCP runs in the lab over each of several random links, drawn as in probe.py, except that one in three loses at
most 1 % and another nothing. Captures come from the gateway and the sender; the emulated link's own log has the actual
fates.

    sudo benches/live/diagnose.py [--links 40] [--seed 1] [--first 0] [--at-once 2]
    benches/live/diagnose.py --only-show                   # what has been measured so far

Goals: at the gateway 95 % of the losses to corruption and 95 % of those to congestion are classified correctly, at the
sender 90 %; the limit is correct in 9 of 10 transfers.

The actual limit: the log shows when the hop had something to send. A round trip in which it always had is limited by
the bottleneck; any other by the congestion window, after corruption or congestion, depending on the last loss before;
before any loss by slow start. The limit with most of the time counts; if the next one has less than a tenth of the time
less, that is correct as well.

Losses that were not repaired before the end cannot be seen, and are counted separately. Results are saved in a folder
(--results), one file per link.
"""
import collections
import json
import os
import shutil
import sys
import time

import common
import drawn
import pcapng

sys.path.append(os.path.join(common.ROOT, "benches", "agreement"))
from call import call  # noqa: E402

HOP, SENDER = "base:hop", "server"
POINTS = {"gateway": (HOP, 0.95), "sender": (SENDER, 0.90)}
RIGHT = {"channel": "corruption", "queue": "congestion"}
EITHER = 0.1
# Maximum loss of successive links: with heavy losses, queues seldom overflow.
GREATEST_LOSS = (0.1, 0.01, 0.0)


def limits(packets, rate, round_trip):
    """Returns the share of the time of each limit, from the hop's log: when it was idle, and what was lost last."""
    free, idle, lost = packets[0]["at"], [], []
    for packet in packets:
        if packet["fate"] == "queue":
            lost.append((packet["at"], "after-congestion"))
            continue
        if packet["at"] > free:
            idle.append((free, packet["at"]))
        free = max(free, packet["at"]) + 8 * packet["bytes"] / rate
        if packet["fate"] == "channel":
            lost.append((packet["at"], "after-corruption"))
    shares, begin, end = collections.Counter(), packets[0]["at"], packets[-1]["at"]
    while begin < end:
        until = min(begin + round_trip, end)
        while idle and idle[0][1] <= begin:
            idle.pop(0)
        before = [cause for at, cause in lost if at < begin]
        limit = "bottleneck" if not idle or idle[0][0] >= until else before[-1] if before else "slow-start"
        shares[limit] += (until - begin) / (end - packets[0]["at"])
        begin = until
    return dict(shares)


def measured(args, number, kept):
    """Runs one transfer; returns for each capture the diagnosis of each actual loss, the number of false losses, and
    the limits."""
    link = drawn.Link.drawn(args.seed, number, args.fastest * 1e6, GREATEST_LOSS[number % len(GREATEST_LOSS)])
    with open(kept.path("link.toml"), "w", encoding="utf-8") as file:
        file.write(link.path(args.seconds))
    folder = kept.path("captures")
    try:
        out = call(args.lasthop, "lab", kept.path("link.toml"), "--schemes", "E2E-CUBIC", "--runs", "1", "--json", "--pcapng", folder,
                   "--seed", str(drawn.seed(args.seed, number)), "--set", f"lab.lateness={args.lateness}")
        row = json.loads(out)["schemes"][0]
        capture = os.path.join(folder, "E2E-CUBIC-0.pcapng")
        truth = pcapng.data_packets(capture, HOP)
        points = {}
        for place, (point, _) in POINTS.items():
            report = json.loads(call(args.lasthop, "diagnose", capture, "--interface", point, "--json"))
            points[place] = judged(report, pcapng.data_packets(capture, point), truth)
        round_trip = 2e-3 * (link.delay + link.wire) + 8 * truth[0]["bytes"] / link.down["rate"]
        return {"link": number, "words": str(link), "points": points, "limits": limits(truth, link.down["rate"], round_trip),
                "late_p99_us": row["lateness_us"]["p99"], "throughput": row["measures"]["throughput"]["mean"]}
    finally:
        if not args.keep_captures:
            shutil.rmtree(folder, ignore_errors=True)


def judged(report, mine, truth):
    """Judges a capture whose packets are `mine`: returns pairs of actual fate and diagnosis, with their counts."""
    sent = {packet["number"]: packet["sent"] for packet in mine}
    said, direction = {}, None
    for flow in report["captures"][0]["flows"]:
        direction = direction or flow["directions"][0]
        for loss in flow["directions"][0]["losses"]:
            if loss["packet"] in sent:
                said[sent[loss["packet"]]] = loss["cause"] if loss["needless"] is None else "needless"
    pairs = collections.Counter()
    for packet in truth:
        word = said.pop(packet["sent"], None)
        if packet["fate"] or word:
            pairs[packet["fate"] or "none", word or "unseen"] += 1
    return {"pairs": [[*pair, count] for pair, count in sorted(pairs.items())], "vantage": direction["vantage"], "limit": direction["limit"],
            "limits": {one["factor"]: one["share"] for one in direction["limits"]}}


def right_limits(shares):
    most = max(shares.values())
    return [limit for limit, share in shares.items() if share > most - EITHER]


def show(results):
    """Prints tables; returns whether every goal is met."""
    met = True
    for result in results:
        line = [f"link {result['link']}: {result['words']}; {result['throughput']:.2f} Mbps, {result['late_p99_us'] / 1e3:.1f} ms late (99 %)"]
        for place, of in result["points"].items():
            wrong = [f"{count} {fate} said {said}" for fate, said, count in of["pairs"] if said != RIGHT.get(fate) and said not in ("unseen", "needless")]
            truth = right_limits(result["limits"])
            limit = of["limit"] if of["limit"] in truth else f"{of['limit']} {of['limits']} (so: {result['limits']})"
            line.append(f"  {place}: {'; '.join(wrong) or 'every loss right'}; limit {limit}")
        print("\n".join(line))
    print()
    rows = []
    for place, (_, least) in POINTS.items():
        total = collections.Counter()
        for result in results:
            for fate, said, count in result["points"][place]["pairs"]:
                total[fate, said] += count
        for fate, right in RIGHT.items():
            seen = sum(count for (of, said), count in total.items() if of == fate and said != "unseen")
            share = total[fate, right] / seen if seen else 1.0
            met = met and share >= least
            counts = [total[fate, word] for word in ("corruption", "congestion", "unknown", "needless", "unseen")]
            rows.append([f"{place}, lost by the {fate}", *counts, f"{100 * share:.1f} %", f"{100 * least:.0f} %"])
        limits = sum(result["points"][place]["limit"] in right_limits(result["limits"]) for result in results)
        met = met and limits >= 0.9 * len(results)
        rows.append([f"{place}, limit", *[""] * 5, f"{limits} of {len(results)}", "9 of 10"])
        rows.append([f"{place}, arrived", *(total["none", word] for word in ("corruption", "congestion", "unknown", "needless")), "", "", ""])
    common.table(["", "corruption", "congestion", "unknown", "needless", "unseen", "right", "goal"], rows)
    return met


def main():
    parser = common.arguments(__doc__)
    drawn.arguments(parser, 40)
    parser.add_argument("--fastest", type=float, default=45, help="Mbps of the fastest direction, at most 90 (default 45): near the rate of the wire, 99 Mbps, that is a second queue")
    parser.add_argument("--seconds", type=float, default=15, help="duration of each download (default 15)")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many minutes")
    parser.add_argument("--lateness", default="2 ms", help="how late the lab's links may be (default 2 ms)")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "target", "diagnose"), help="folder of results (default target/diagnose)")
    parser.add_argument("--keep-captures", action="store_true", help="leave the captures there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--require", action="store_true", help="end with status 1 unless every goal is met")
    args = parser.parse_args()
    begun = time.monotonic()
    if not 1 < args.fastest <= 90:
        parser.error("--fastest: give 1 to 90; the wire has 99 Mbps")
    numbers = range(args.first, args.first + args.links)
    kept = {number: common.Kept(os.path.join(args.results, f"{args.seed}-{args.fastest:g}Mbps-{args.seconds:g}s-{number}")) for number in numbers}

    def work(number, stop):
        over = args.minutes and time.monotonic() - begun > 60 * args.minutes
        if kept[number].get("result.json") is not None or stop.is_set() or over:
            return
        common.note(f"link {number}")
        try:
            kept[number].keep("result.json", measured(args, number, kept[number]))
        except RuntimeError as error:
            if not stop.is_set():
                common.note(f"link {number}: left out: {error}")

    status = 0
    if not args.only_show:
        common.check_machine(args)
        status = drawn.each(args, numbers, work)
    results = [result for number in numbers if (result := kept[number].get("result.json"))]
    if args.json:
        print(json.dumps(results, indent=2))
    if not results:
        return status or int(args.require)
    met = show(results) if not args.json else True
    if len(results) < len(numbers):
        common.note(f"{len(numbers) - len(results)} of {len(numbers)} links are not done")
        met = False
    return status or int(args.require and not met)


if __name__ == "__main__":
    common.end_with(main)

"""Infers losses on a hop from the lengths and times of returning datagrams, and compares with the truth of a trace.

An acknowledgment that reports a gap is longer than one that does not: each gap adds at least 2 bytes to an ACK frame
(RFC 9000 §19.3.1). Four rules use this:

    single   a returning datagram of at most MOST bytes is at least STEP bytes longer than the one before
    pair     so is the next one; a single control frame, such as MAX_STREAM_DATA, has no effect
    level    it and the next one are longer than each of the LEVEL before: other fields of the frame can hide a byte of
             the gap (a shorter acknowledgment delay), and vary from one return to the next
    shift    `level`; or it and the next one are shorter than each of the LEVEL before by FALL: some receivers update
             the window in each return, until a gap keeps the application from reading

At a step, the packet that caused it left the device one round trip of the hop before. The candidates for the lost packet
are the packets that left nearest to the one before it.
"""
import bisect
import collections
import math
import random

# Bytes that a gap adds, at least: a gap and a range of one byte each.
STEP = 2
# Returns before a step that the rule `level` compares with.
LEVEL = 2
# Bytes of window updates (MAX_DATA, MAX_STREAM_DATA) that are missing, at least and at most.
FALL = (5, 14)
# Longer returning datagrams carry data of the receiver.
MOST = 199
# Shorter datagrams of the data direction are acknowledgments and control frames, not candidates.
DATA = 200
# Candidates for each step.
CANDIDATES = 6
# Time for which a device can hold returns before the sender's probe timer expires, us: the default max_ack_delay.
HOLD_US = 25_000.0
# Tolerance in assigning a return to the latest departure, us.
TOLERANCE = 300.0
# Receiver's delay and transmission times where jitter hides them, us.
TYPICAL_US = 300.0
# Packets of a burst leave within this time of each other, us.
BURST_US = 200.0
RULES = ("single", "pair", "level", "shift")

# A step of the returning lengths: time when it is known and time of the datagram that has it, in us.
Step = collections.namedtuple("Step", "known at")
# What the device sees of a trace: departures of data packets and their times (us), returns as (time, length), the hop's
# round trip (us), and times at which packets were lost before the device.
View = collections.namedtuple("View", "data times back hop upstream")
# Outcome of a rule. Counts: `lost` packets of the hop; `steps`; `hits`, steps with a lost packet among the candidates;
# `elsewhere`, other steps that a loss before or behind the hop explains. `placebo`: share of all bare returns whose
# candidates include a lost packet, which is what hits / steps would be by chance. `ranks` and `delays`: for each packet
# found, its best rank among the candidates, from 1, and the time from its departure until the step is known, us.
# `in_time`: packets that are repaired while returns are held, if the candidates are tried one after the other, each for a
# round trip of the hop, from the time on when the step is known.
Outcome = collections.namedtuple("Outcome", "lost steps hits elsewhere placebo ranks delays in_time")


def returns(packets, jitter_ms=0.0, loss=0.0, seed=1):
    """Returns time (us) and length of the returning packets, in order, after the return link has added an exponential
    delay of this mean without changing their order, and has lost this share of them."""
    draw = random.Random(seed)
    found, last = [], 0.0
    for packet in packets:
        if packet.kind != "<":
            continue
        delay = draw.expovariate(1 / (jitter_ms * 1000)) if jitter_ms else 0.0
        if loss and draw.random() < loss:
            continue
        last = max(last, packet.time + delay)
        found.append((last, packet.length))
    return found


def departures(packets):
    """Returns the packets of the data direction that the device had and that may be candidates."""
    return [packet for packet in packets if packet.kind in (">", "x", "q") and packet.length >= DATA]


def processing(packets, configured_us):
    """Returns the receiver's delay and the transmission times, in us: the 10th percentile of the time by which a bare
    return is later than the configured round trip after the latest packet that can have caused it."""
    times = [packet.time for packet in departures(packets)]
    later = []
    for at, length in returns(packets):
        index = bisect.bisect_right(times, at - configured_us) - 1
        if length <= MOST and index >= 0:
            later.append(at - configured_us - times[index])
    return sorted(later)[len(later) // 10] if later else 0.0


def view(packets, configured_us, jitter_ms=0.0, return_loss=0.0, seed=1, emulated_ms=0.0):
    """Returns what a device sees that knows the median round trip of the hop: the configured one, the receiver's delay,
    and the median of the jitter. `emulated_ms` is the jitter that the packets already have."""
    data = departures(packets)
    delay = TYPICAL_US if emulated_ms else processing(packets, configured_us)
    hop = configured_us + delay + math.log(2) * (jitter_ms + emulated_ms) * 1000
    upstream = [packet.time for packet in packets if packet.kind == "u" and packet.length >= DATA]
    return View(data, [packet.time for packet in data], returns(packets, jitter_ms, return_loss, seed), hop, upstream)


def steps(back, rule):
    """Returns the steps in the lengths of returning datagrams, given as (time, length).

    Raises ValueError for an unknown rule.
    """
    if rule not in RULES:
        raise ValueError(f"unknown rule {rule!r}; there are {', '.join(RULES)}")
    found = []
    if rule in ("level", "shift"):
        bare = [one for one in back if one[1] <= MOST]
        for index in range(LEVEL, len(bare) - 1):
            before = [length for _, length in bare[index - LEVEL:index]]
            after = [length for _, length in bare[index:index + 2]]
            falls = FALL[0] <= min(before) - max(after) <= FALL[1]
            if min(after) > max(before) or rule == "shift" and falls:
                found.append(Step(bare[index + 1][0], bare[index][0]))
        return found
    for index in range(1, len(back)):
        (at, length), before = back[index], back[index - 1][1]
        if not before + STEP <= length <= MOST:
            continue
        if rule == "single":
            found.append(Step(at, at))
        elif index + 1 < len(back) and before + STEP <= back[index + 1][1] <= MOST:
            found.append(Step(back[index + 1][0], at))
    return found


def margin(times, at):
    """Returns the tolerance in assigning a return to the latest departure: half of the distance to the next one, at most
    TOLERANCE."""
    index = bisect.bisect_right(times, at)
    if not 0 < index < len(times):
        return 0.0
    return min(TOLERANCE, (times[index] - times[index - 1]) / 2)


def candidates(times, at, round_trip_us, count=CANDIDATES):
    """Returns the indices of the packets that a step at time `at` may signal, the likeliest first: the one before the
    packet that caused the step, then those that left nearest to it. `times` are the departures, in order."""
    sent = at - round_trip_us
    middle = bisect.bisect_right(times, sent + margin(times, sent)) - 2
    if middle < 0:
        return []
    low, high, found = middle - 1, middle + 1, [middle]
    while len(found) < count and (low >= 0 or high < len(times)):
        if high >= len(times) or (low >= 0 and times[middle] - times[low] < times[high] - times[middle]):
            found.append(low)
            low -= 1
        else:
            found.append(high)
            high += 1
    return found


def chance(seen):
    """Returns the share of the bare returns whose candidates include a lost packet."""
    near = [any(seen.data[index].kind == "x" for index in candidates(seen.times, at, seen.hop)) for at, length in seen.back if length <= MOST]
    return sum(near) / len(near) if near else 0.0


def judge(seen, rule, placebo=0.0):
    """Applies a rule to a view and returns its outcome; `placebo` is passed on."""
    ranks, delays, timely, hits, elsewhere, found = {}, {}, set(), 0, 0, steps(seen.back, rule)
    for step in found:
        near = candidates(seen.times, step.at, seen.hop)
        lost = [(rank, index) for rank, index in enumerate(near, 1) if seen.data[index].kind == "x"]
        hits += bool(lost)
        for rank, index in lost:
            if rank < ranks.get(index, CANDIDATES + 1):
                ranks[index] = rank
                delays[index] = step.known - seen.times[index]
            if step.known - step.at + rank * seen.hop <= HOLD_US:
                timely.add(index)
        if near and not lost:
            first, last = seen.times[min(near)], seen.times[max(near)]
            before = bisect.bisect_right(seen.upstream, last) - bisect.bisect_left(seen.upstream, first)
            elsewhere += before > 0 or any(seen.data[index].kind == "q" for index in near)
    return Outcome(lost=sum(packet.kind == "x" for packet in seen.data), steps=len(found), hits=hits, elsewhere=elsewhere, placebo=placebo,
                   ranks=sorted(ranks.values()), delays=sorted(delays.values()), in_time=len(timely))


def shape(packets, configured_us):
    """Returns what the datagrams of a trace look like: a dictionary of `returns`, `data` packets, `bare` returns, counts of
    each bare `lengths`, the numbers of changes of length by 1 byte and of increases by STEP or more, the number of `bursts`
    of data packets that leave within BURST_US of each other, and losses between two packets that arrived (`alone`), with
    the number of those that the next packet's return reports before another packet arrives (`prompt`)."""
    seen = view(packets, configured_us)
    data, times = seen.data, seen.times
    bare = [length for _, length in seen.back if length <= MOST]
    changes = [after - before for before, after in zip(bare, bare[1:])]
    causes = {bisect.bisect_right(times, at - seen.hop + margin(times, at - seen.hop)) - 1 for at, _ in seen.back}
    alone = [index for index in range(1, len(data) - 1) if [packet.kind for packet in data[index - 1:index + 2]] == [">", "x", ">"]]
    return {"returns": len(seen.back), "data": len(data), "bare": len(bare), "lengths": collections.Counter(bare),
            "changes_1": sum(abs(change) == 1 for change in changes), "rises": sum(change >= STEP for change in changes),
            "bursts": sum(after - before > BURST_US for before, after in zip([-BURST_US * 2, *times], times)),
            "alone": len(alone), "prompt": sum(index + 1 in causes for index in alone)}

"""Matching of flowlets, the rule of PEMI (arXiv 2602.12732) for inferring losses from the times of returning packets.

A flowlet is a train of data packets without a gap. Where it has as many replies as packets, nothing was lost; where it
has none, all was; otherwise a monotonic matching that minimises the sum of |reply - departure - round trip| decides
which packets have no reply.
"""
import ack_signal

# A new flowlet begins after a gap of this many smoothed intervals.
GAP = 2.0
SMOOTHING = 1 / 8
# A longer flowlet is given up.
LONGEST = 100
# Time after the last packet plus one round trip when a flowlet without a later reply is complete, in round trips.
PATIENCE = 0.5
# An unmatched packet this close to a matched one (us) is not lost.
NEAR_US = 100.0
# Fewer replies per packet than this: the receiver acknowledges every second packet, and a single packet without a reply is not lost.
ELICITING = 0.6


def split(times):
    """Returns the flowlets as (first, last + 1) of the indices of departure times, in us."""
    found, first, smoothed = [], 0, None
    for index in range(1, len(times)):
        gap = times[index] - times[index - 1]
        if smoothed is not None and gap > GAP * smoothed:
            found.append((first, index))
            first = index
        smoothed = gap if smoothed is None else (1 - SMOOTHING) * smoothed + SMOOTHING * gap
    if times:
        found.append((first, len(times)))
    return found


def matched(sent, replies, round_trip):
    """Returns the indices of the packets that have a reply, by monotonic matching of every reply to a packet of its own.
    There must not be more replies than packets."""
    many, few = len(sent), len(replies)
    infinite = float("inf")
    # cost[r][p]: of matching the first r replies to some of the first p packets.
    cost = [[0.0] * (many + 1)] + [[infinite] * (many + 1) for _ in range(few)]
    for reply in range(1, few + 1):
        row, above = cost[reply], cost[reply - 1]
        for packet in range(reply, many + 1):
            with_it = above[packet - 1] + abs(replies[reply - 1] - sent[packet - 1] - round_trip)
            row[packet] = min(row[packet - 1], with_it)
    found, packet = [], many
    for reply in range(few, 0, -1):
        while cost[reply][packet] == cost[reply][packet - 1]:
            packet -= 1
        packet -= 1
        found.append(packet)
    return found[::-1]


def unmatched(sent, replies, round_trip):
    """Returns the indices of the packets of a flowlet that are inferred to be lost."""
    if len(replies) >= len(sent):
        return []
    answered = matched(sent, replies, round_trip)
    left = sorted(set(range(len(sent))) - set(answered))
    left = [index for index in left if not any(abs(sent[index] - sent[other]) <= NEAR_US for other in answered)]
    if answered and len(replies) < ELICITING * len(sent):
        alone = set(left)
        left = [index for index in left if index - 1 in alone or index + 1 in alone]
    return left


def judge(seen):
    """Applies the rule to a view of ack_signal; returns an outcome as `ack_signal.judge` does. `steps` are all packets that
    are inferred to be lost, and each packet found has rank 1. Nothing is held, so that all are in time."""
    data, times, back, hop = seen.data, seen.times, seen.back, seen.hop
    inferred, delays, reply = [], [], 0
    flowlets = split(times)
    for number, (first, end) in enumerate(flowlets):
        # Replies from here on belong to the next flowlet.
        later = float("inf")
        if number + 1 < len(flowlets):
            next_sent = times[flowlets[number + 1][0]]
            later = next_sent + hop - ack_signal.margin(times, next_sent)
        over = times[end - 1] + (1 + PATIENCE) * hop
        mine = []
        while reply < len(back) and back[reply][0] < min(later, over):
            mine.append(back[reply][0])
            reply += 1
        # Those after the patience belong to no flowlet.
        while reply < len(back) and back[reply][0] < later:
            reply += 1
        complete = min(over, back[reply][0]) if reply < len(back) else over
        if end - first > LONGEST:
            continue
        for index in unmatched(times[first:end], mine, hop):
            inferred.append(first + index)
            if data[first + index].kind == "x":
                delays.append(complete - times[first + index])
    lost = sum(packet.kind == "x" for packet in data)
    return ack_signal.Outcome(lost=lost, steps=len(inferred), hits=len(delays), elsewhere=0, placebo=lost / len(data) if data else 0.0,
                              ranks=[1] * len(delays), delays=sorted(delays), in_time=len(delays))

#!/usr/bin/env python3
"""Tests of the analysis in this folder, on sequences made by hand: `python3 benches/quic/test_quic.py`."""
import os
import tempfile
import unittest

import ack_signal
import flowlets
import tables
import trace
from trace import Packet

HOP_US = 2000.0
SPACING_US = 1200.0


def download(count, lost=(), every=2, base=36, extra=None, open_for=8):
    """Returns the trace of a receiver that acknowledges every second packet, and at once if one is missing. Its
    acknowledgment has 2 bytes more for each of the gaps of the last `open_for` returns; `extra` are bytes of control
    frames by number of the return."""
    packets, unacknowledged, gaps, number = [], 0, [], 0
    for index in range(count):
        sent = index * SPACING_US
        packets.append(Packet(sent, "x" if index in lost else ">", 1452))
        if index in lost:
            continue
        unacknowledged += 1
        new_gap = index - 1 in lost
        if new_gap:
            gaps.append(number)
        if unacknowledged >= every or new_gap:
            length = base + 2 * sum(number - since < open_for for since in gaps) + (extra or {}).get(number, 0)
            packets.append(Packet(sent + HOP_US, "<", length))
            unacknowledged, number = 0, number + 1
    return sorted(packets, key=lambda packet: packet.time)


def outcome(packets, rule, **conditions):
    seen = ack_signal.view(packets, HOP_US, **conditions)
    return ack_signal.judge(seen, rule, ack_signal.chance(seen))


class Rules(unittest.TestCase):
    def test_every_rule_names_the_lost_packet_of_a_textbook_receiver(self):
        packets = download(200, lost={50, 101, 150})
        for rule in ack_signal.RULES:
            found = outcome(packets, rule)
            self.assertEqual((found.lost, found.ranks, found.steps, found.hits), (3, [1, 1, 1], 3, 3), rule)

    def test_a_loss_is_known_one_hop_round_trip_after_the_next_packet(self):
        self.assertEqual(outcome(download(200, lost={50}), "single").delays, [SPACING_US + HOP_US])

    def test_the_hold_leaves_time_for_one_candidate_for_each_round_trip(self):
        back = [Packet(at * SPACING_US + 100, "<", 36 + 2 * (at > 51)) for at in range(100)]
        # The lost packet is the second candidate of the step that the return after packet 51 shows.
        for hop_us, rank, in_time in ((2000.0, 2, 1), (12000.0, 2, 1), (13000.0, 2, 0), (24000.0, 1, 1), (26000.0, 1, 0)):
            lost = 51 if rank == 1 else 52
            data = [Packet(at * SPACING_US, "x" if at == lost else ">", 1452) for at in range(100)]
            seen = ack_signal.View(data, [packet.time for packet in data], [(packet.time + hop_us, packet.length) for packet in back], hop_us, [])
            found = ack_signal.judge(seen, "single")
            self.assertEqual((found.ranks, found.in_time), ([rank], in_time), (hop_us, rank))

    def test_the_pair_rule_waits_for_the_next_return(self):
        # The packet after the gap was acknowledged at once; the next return covers two more.
        self.assertEqual(outcome(download(200, lost={50}), "pair").delays, [SPACING_US + HOP_US + 2 * SPACING_US])

    def test_a_single_control_frame_is_a_false_step_of_the_single_rule_only(self):
        packets = download(200, extra={20: 6, 40: 8})
        self.assertEqual([outcome(packets, rule).steps for rule in ack_signal.RULES], [2, 0, 0, 0])

    def test_data_of_the_receiver_is_no_step(self):
        self.assertEqual(outcome(download(200, extra={20: 600}), "single").steps, 0)

    def test_a_byte_hidden_by_another_field_is_a_step_of_the_level_rule_only(self):
        # As in Chromium, where an immediate acknowledgment has a delay field that is a byte shorter.
        lengths = [35, 35, 35, 36, 36, 36, 36, 35, 35]
        back = [(index * 2400.0, length) for index, length in enumerate(lengths)]
        self.assertEqual([len(ack_signal.steps(back, rule)) for rule in ack_signal.RULES], [0, 0, 1, 1])

    def test_missing_window_updates_are_a_step_of_the_shift_rule_only(self):
        # As in MsQuic, which adds MAX_DATA and MAX_STREAM_DATA while the application reads.
        lengths = [47, 47, 47, 38, 38, 38, 38, 47, 47]
        back = [(index * 2400.0, length) for index, length in enumerate(lengths)]
        self.assertEqual([step.at for step in ack_signal.steps(back, "shift")], [7200.0, 16800.0])
        self.assertEqual([step.at for step in ack_signal.steps(back, "level")], [16800.0])

    def test_a_control_frame_that_ends_is_no_fall(self):
        back = [(index * 2400.0, 44 if index == 10 else 36) for index in range(20)]
        self.assertEqual(ack_signal.steps(back, "shift"), [])

    def test_alternating_lengths_are_no_step_of_the_level_rule(self):
        back = [(index * 2400.0, 33 + index % 2) for index in range(50)]
        self.assertEqual(ack_signal.steps(back, "level"), [])

    def test_padded_returns_have_no_steps(self):
        padded = [packet._replace(length=55) if packet.kind == "<" else packet for packet in download(200, lost={50, 101})]
        for rule in ack_signal.RULES:
            found = outcome(padded, rule)
            self.assertEqual((found.steps, found.ranks), (0, []), rule)

    def test_an_unknown_rule_is_refused(self):
        with self.assertRaisesRegex(ValueError, "unknown rule 'triple'; there are single, pair, level, shift"):
            ack_signal.steps([], "triple")

    def test_a_loss_before_the_device_explains_a_step(self):
        packets = download(200, lost={50})
        upstream = [packet._replace(kind="u", time=51 * SPACING_US) if packet.kind == "x" else packet for packet in packets]
        found = outcome(sorted(upstream, key=lambda packet: packet.time), "single")
        self.assertEqual((found.lost, found.hits, found.elsewhere), (0, 0, 1))

    def test_lost_returns_hide_a_loss(self):
        packets = download(400, lost={50, 150, 250})
        self.assertEqual(len(outcome(packets, "single").ranks), 3)
        gone = outcome(packets, "single", return_loss=1.0)
        self.assertEqual((gone.ranks, gone.steps), ([], 0))

    def test_jitter_keeps_the_order_of_returns_and_repeats_with_the_seed(self):
        packets = download(400)
        first, again, other = (ack_signal.returns(packets, jitter_ms=4, seed=seed) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual([time for time, _ in first], sorted(time for time, _ in first))

    def test_jitter_moves_the_first_candidate_away_but_leaves_the_packet_among_the_nearest(self):
        lost = set(range(50, 2000, 100))
        ranks = outcome(download(2100, lost=lost), "single", jitter_ms=2).ranks
        self.assertLess(ranks.count(1), 0.7 * len(lost))
        self.assertGreater(len(ranks), 0.8 * len(lost))


class Shapes(unittest.TestCase):
    def test_a_textbook_receiver(self):
        shape = ack_signal.shape(download(200, lost={50, 101, 150}), HOP_US)
        self.assertEqual((shape["data"], shape["returns"], shape["alone"], shape["prompt"]), (200, shape["bare"], 3, 3))
        self.assertEqual((shape["rises"], shape["changes_1"], sorted(shape["lengths"])), (3, 0, [36, 38]))

    def test_a_receiver_that_does_not_hurry_is_not_prompt(self):
        slow = [Packet(index * SPACING_US, "x" if index == 52 else ">", 1452) for index in range(100)]
        slow += [Packet(index * SPACING_US + HOP_US, "<", 55) for index in range(9, 100, 10)]
        shape = ack_signal.shape(sorted(slow, key=lambda packet: packet.time), HOP_US)
        self.assertEqual((shape["alone"], shape["prompt"]), (1, 0))

    def test_bursts_are_counted(self):
        times = [0, 20, 40, 10000, 10020, 20000]
        shape = ack_signal.shape([Packet(float(time), ">", 1200) for time in times] + [Packet(30000.0, "<", 40)], HOP_US)
        self.assertEqual(shape["bursts"], 3)


class Candidates(unittest.TestCase):
    TIMES = [index * 1000.0 for index in range(20)]

    def test_the_packet_before_the_cause_is_first_and_the_others_follow_by_distance(self):
        self.assertEqual(ack_signal.candidates(self.TIMES, 12000.0, 2000.0), [9, 10, 8, 11, 7, 12])

    def test_there_is_none_before_the_second_packet(self):
        self.assertEqual(ack_signal.candidates(self.TIMES, 2000.0, 2000.0), [])

    def test_at_the_end_earlier_packets_fill_the_list(self):
        self.assertEqual(ack_signal.candidates(self.TIMES, 21000.0, 2000.0), [18, 19, 17, 16, 15, 14])

    def test_chance_is_the_share_of_returns_near_a_loss(self):
        seen = ack_signal.view(download(1000, lost={500}), HOP_US)
        # Six candidates around one lost packet; every second packet is acknowledged.
        self.assertAlmostEqual(ack_signal.chance(seen), 3 / len(seen.back), delta=1.5 / len(seen.back))


class Flowlets(unittest.TestCase):
    def test_a_gap_of_more_than_twice_the_interval_begins_a_flowlet(self):
        self.assertEqual(flowlets.split([0, 100, 200, 300, 1000, 1100, 1200]), [(0, 4), (4, 7)])

    def test_as_many_replies_as_packets_mean_no_loss(self):
        self.assertEqual(flowlets.unmatched([0, 1000, 2000], [2000, 3000, 4000], 2000), [])

    def test_no_reply_means_that_all_are_lost(self):
        self.assertEqual(flowlets.unmatched([0, 1000, 2000], [], 2000), [0, 1, 2])

    def test_the_packet_without_a_reply_at_its_time_is_lost(self):
        self.assertEqual(flowlets.unmatched([0, 1000, 2000, 3000], [2010, 4020, 5005], 2000), [1])

    def test_packets_beside_a_matched_one_are_not_lost(self):
        self.assertEqual(flowlets.unmatched([0, 50, 2000], [2000, 4000], 2000), [])

    def test_single_packets_without_a_reply_are_not_lost_when_every_second_is_acknowledged(self):
        self.assertEqual(flowlets.unmatched([0, 1000, 2000, 3000, 4000, 5000], [3000, 5000, 7000], 2000), [])
        self.assertEqual(flowlets.unmatched([0, 1000, 2000, 3000, 4000, 5000], [3000, 7000], 2000), [2, 3, 4])

    def test_long_flowlets_are_given_up(self):
        seen = ack_signal.view(download(300, lost={150}), HOP_US)
        self.assertEqual(flowlets.judge(seen).steps, 0)

    def test_a_loss_in_a_burst_with_replies_to_each_packet_is_found(self):
        packets = []
        for burst in range(20):
            for index in range(5):
                sent, lost = burst * 40000.0 + index * 1000.0, (burst, index) == (10, 2)
                packets.append(Packet(sent, "x" if lost else ">", 1200))
                packets += [] if lost else [Packet(sent + HOP_US, "<", 40)]
        found = flowlets.judge(ack_signal.view(sorted(packets, key=lambda packet: packet.time), HOP_US))
        self.assertEqual((found.lost, found.steps, found.hits), (1, 1, 1))


class Traces(unittest.TestCase):
    def test_a_trace_is_read_as_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            packets = download(20, lost={7})
            trace.write(path, {"stack": "none", "seed": 3}, packets)
            about, again = trace.read(path)
        self.assertEqual(about, {"stack": "none", "seed": "3"})
        self.assertEqual(again, packets)

    def test_a_bad_line_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("time_us,kind,length\n1.0,>,1200\n2.0,?,40\n")
            with self.assertRaisesRegex(ValueError, r"trace.csv:3: not a packet: '2.0,\?,40'; expected time_us,kind,length"):
                trace.read(path)


    def test_points_that_show_other_datagrams_are_refused(self):
        trace.check([(1200, 1200)] * 998 + [(40, 1200), (1200, 40)], "run")
        with self.assertRaisesRegex(ValueError, "run: 20 of 1000 datagrams have another length"):
            trace.check([(1200, 1200)] * 980 + [(40, 1200), (1200, 40)] * 10, "run")


class Tables(unittest.TestCase):
    def test_wilsons_interval(self):
        # 8 of 10: 49.0 to 94.3 % (Wilson 1927, as tabulated for 95 %).
        self.assertEqual((tables.interval(8, 10), tables.interval(0, 10), tables.interval(0, 0)), ("49–94", "0–28", "–"))


class Page(unittest.TestCase):
    def test_the_page_shows_the_tables_of_the_files(self):
        with open(tables.PAGE, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(tables.filled(text, tables.blocks()), text, "run benches/quic/tables.py")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests of what speed.py reads and computes, on outputs made by hand: `python3 benches/peers/test_speed.py`."""
import json
import os
import tempfile
import tomllib
import unittest

import measure
import programs
import report
import speed
from measure import Turn

PERF = "1234567,,instructions:u,900000,100.00,,\n"
NO_PERF = "<not supported>,,instructions:u,0,100.00,,\n"
VALGRIND = "==7== Cachegrind, a cache and branch-prediction profiler\n==7== \n==7== I   refs:      970,461,291\n"
NS2 = "109763 frames down, 107530 up\n10 transfers, 53.548 simulated seconds each, 6138.4 packets sent each\n"
RENO, WEB, CUBIC = (next(case for case in programs.CASES if case.name == name) for name in ("Reno", "web", "CUBIC"))


def lasthop_output(incomplete=0.0, link="hop"):
    ends = (("wired", "source", 1), (link, "base", 5942.5), (link, "mobile", 3524.25))
    measures = {"incomplete": {"mean": incomplete}, "throughput": {"mean": 1.4, "ci95": 0.1}}
    return json.dumps({"measures": measures, "links": [{"link": name, "from": end, "measures": {"frames": {"mean": mean}}} for name, end, mean in ends]})


def measured(cases, **rows):
    """Returns a result with the given nanoseconds a frame by program."""
    return {"machine": {"processor": "A processor", "processors": 2, "load": 0.1}, "date": "2026-12-01", "turns": 5, "counter": "perf stat",
            "programs": {name: {"about": "a version"} for name in rows}, "speed": cases, "results": []}


class Statistics(unittest.TestCase):
    def test_start_up_is_not_part_of_a_transfer(self):
        # 0.5 s to start, 10 ms a transfer.
        found = measure.cost([Turn(0.5 + 0.2, 0.5 + 2.2)], (20, 220))
        self.assertAlmostEqual(found.best, 0.010)

    def test_the_best_is_between_the_fastest_runs_and_a_disturbed_small_run_does_not_lower_it(self):
        # In the second turn another program delayed the small run: its slope is too low.
        found = measure.cost([Turn(0.2, 2.2), Turn(1.2, 2.2), Turn(0.2, 3.2)], (0, 200))
        self.assertAlmostEqual(found.best, 0.010)
        for value, wanted in zip((found.low, found.median, found.high), (0.005, 0.010, 0.015)):
            self.assertAlmostEqual(value, wanted)

    def test_ratios_pair_the_programs_of_a_turn(self):
        # The machine is twice as slow in the second turn, for both.
        found = measure.ratio(([600.0, 1200.0], 600.0), ([100.0, 200.0], 100.0))
        self.assertEqual(found, (6.0, 6.0, 6.0))

    def test_an_interval_has_student_s_quantile(self):
        mean, half = measure.mean_interval([1.0, 2.0, 3.0])
        self.assertAlmostEqual(mean, 2.0)
        self.assertAlmostEqual(half, 4.30 / 3 ** 0.5)
        self.assertEqual(measure.mean_interval([5.0]), (5.0, None))


class Readers(unittest.TestCase):
    def test_perf_without_a_counter_counts_nothing(self):
        self.assertEqual(measure.perf_instructions(PERF), 1234567)
        self.assertIsNone(measure.perf_instructions(NO_PERF))

    def test_valgrind_groups_digits(self):
        self.assertEqual(measure.valgrind_instructions(VALGRIND), 970461291)
        self.assertIsNone(measure.valgrind_instructions("==7== nothing\n"))

    def test_lasthop_s_frames_are_those_of_the_lossy_hop_in_all_runs(self):
        lasthop = programs.Lasthop("lasthop")
        for link, case in (("hop", CUBIC), ("wireless", RENO)):
            self.assertEqual(lasthop.transmissions(lasthop_output(link=link), case, 4), (4 * 5942.5, 4 * 3524.25))

    def test_an_unfinished_transfer_is_no_result(self):
        with self.assertRaisesRegex(SystemExit, "lasthop did not finish every transfer of the case CUBIC"):
            programs.Lasthop("lasthop").transmissions(lasthop_output(incomplete=0.5), CUBIC, 4)
        with self.assertRaisesRegex(SystemExit, "ns-2 did not finish"):
            programs.Ns2("ns").transmissions("", RENO, 4)

    def test_ns2_prints_the_frames_of_both_directions(self):
        self.assertEqual(programs.Ns2("ns").transmissions(NS2, WEB, 10), (109763, 107530))

    def test_ns3_prints_json(self):
        peer = programs.Ns3("wheel", "")
        self.assertEqual(peer.transmissions('{"seconds": [48.2], "failed": 0, "down": 5949, "up": 3364}', CUBIC, 1), (5949, 3364))
        with self.assertRaisesRegex(SystemExit, "ns-3 wheel did not finish every transfer of the case CUBIC"):
            peer.transmissions('{"seconds": [48.2], "failed": 1, "down": 5949, "up": 3364}', CUBIC, 2)

    def test_the_version_is_in_the_name_of_the_library(self):
        for name, wanted in (("libns3.44-core.so", "3.44"), ("libns3.46.1-core-optimized.so", "3.46.1"), ("libns3-core.so.37", "3.37"), ("libns3-core.so", "of unknown version")):
            self.assertEqual(programs.version(name), wanted)

    def test_a_build_says_whether_it_has_logs_and_assertions(self):
        for content, wanted in ((b"", "without logs and without assertions"), (b"ESTABLISHED -> FIN_WAIT_1", "with logs and without assertions"),
                                (b'ESTABLISHED -> FIN_WAIT_1\0NS_ASSERT failed, cond="', "with logs and with assertions")):
            with tempfile.TemporaryDirectory() as folder:
                for module in ("core", "internet"):
                    with open(os.path.join(folder, f"libns3.44-{module}.so"), "wb") as file:
                        file.write(content)
                self.assertEqual(programs.Ns3("build", "", folder, folder).about(), f"3.44, {wanted}")

    def test_a_folder_without_ns3_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(folder, programs.Ns3("build", "--ns3-build", folder, folder).missing())
            with self.assertRaisesRegex(SystemExit, "give the folder into which ns-3 was installed"):
                programs.own(folder)

    def test_the_processor_s_name_is_the_kernel_s(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("processor\t: 0\nmodel name\t: A fast one: 3 GHz\n")
            file.flush()
            self.assertEqual(measure.machine(file.name)["processor"], "A fast one: 3 GHz")


class Links(unittest.TestCase):
    def test_bursts_have_the_mean_length_and_loss_that_the_link_names(self):
        link = programs.SLOW._replace(loss=0.02, burst=4)
        model = tomllib.loads(f"errors = {programs.errors(link)}")["errors"]
        enter, leave = model["good_to_bad"], model["bad_to_good"]
        self.assertAlmostEqual(1 / leave, 4)
        self.assertAlmostEqual(enter / (enter + leave), 0.02)

    def test_both_programs_get_the_same_link(self):
        link = programs.LINKS[1]
        ours = programs.Lasthop("lasthop").command(CUBIC, 2, link=link)
        peer = programs.Ns3("wheel", "")
        peer.binary = "transfer"
        theirs = peer.command(CUBIC, 2, link=link)
        self.assertIn('links.hop.rate="10 Mbps"', ours)
        self.assertIn("--rate=10Mbps", theirs)
        self.assertIn('links.hop.delay="100 ms"', ours)
        self.assertIn("--delay=100", theirs)
        self.assertIn('links.hop.queue="200 packets"', ours)
        self.assertIn("--queue=200", theirs)


class Report(unittest.TestCase):
    CASE = {
        "case": "CUBIC", "title": "CUBIC",
        "programs": {
            "lasthop": {"seconds": {"best": 0.001}, "frames": {"down": 5930.2, "up": 3414.4}, "ns_per_frame": {"best": 107, "low": 105, "high": 120}, "instructions_per_frame": 900.4},
            "ns-3 wheel": {"seconds": {"best": 0.06}, "frames": {"down": 5935, "up": 3670}, "ns_per_frame": {"best": 6247, "low": 6000, "high": 7000}},
        },
        "ratios": {"ns-3 wheel": {"best": 58.4, "low": 50.0, "high": 66.7}},
    }

    def test_the_table_names_processor_spread_and_frames(self):
        text = report.speed(measured([self.CASE], **{"lasthop": 1, "ns-3 wheel": 2}))
        self.assertIn("A processor, 2 processors", text)
        self.assertIn("| CUBIC | lasthop | 1 | 5930 + 3414 | 107 (105 – 120) | 900 |", text)
        self.assertIn("| 58.4 (50.0 – 66.7) |", text)

    def test_a_large_difference_is_bold(self):
        row = {"link": "a link", "scheme": "CUBIC", "programs": {
            "lasthop": {"mbps": 9.6, "half": 1e-15, "failed": 0}, "ns-3 3.44": {"mbps": 9.1, "half": 0.2, "failed": 0},
            "ns-3 3.37": {"mbps": 9.5, "half": None, "failed": 2}, "ns-3 3.30": {"mbps": None, "half": None, "failed": 3}}}
        text = report.results({"results": [row]})
        self.assertIn("| a link | CUBIC | 9.6 | 9.1 ± 0.2 | 9.5, 2 failed | –, 3 failed | **+5.5 %** | +1.1 % | – |", text)

    def test_a_page_keeps_the_rest(self):
        begin = report.BEGIN.format("speed")
        page = f"# Title\n\n{begin}\nold\n{report.END}\n\nmore\n{report.BEGIN.format('results')}\nother\n{report.END}\n"
        new = report.replaced(page, "speed", "new\n")
        self.assertEqual(new, page.replace("old", "new"))
        with self.assertRaisesRegex(ValueError, "has no lines"):
            report.replaced("# Title\n", "speed", "new")

    def test_a_requirement_is_missed_by_a_slower_ratio_and_by_no_measurement(self):
        self.assertEqual(speed.missed({"ns-3": 50}, [self.CASE]), [])
        self.assertEqual(speed.missed({"ns-3": 60, "ns-2": 6}, [self.CASE]),
                         ["CUBIC: ns-3 wheel takes 58.40 times lasthop's time, at least 60 wanted", "ns-2 was not measured"])


if __name__ == "__main__":
    unittest.main()

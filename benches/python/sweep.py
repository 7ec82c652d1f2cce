#!/usr/bin/env python3
"""Measures the speed of a sweep of many short runs: on one core, on two, and on two workers of a Dask cluster.

    pip install '.[cluster]'
    python benches/python/sweep.py

Prints runs per second of wall-clock time, the best of several rounds, since other load disturbs them; one core and two
alternate, so that they are disturbed alike. Goals: two cores are 1.8 times as fast as one, Dask reaches 85 % of that.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster

import lasthop

GOAL_CORES, GOAL_DASK = 1.8, 0.85


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="4 MiB", help="of each transfer [%(default)s]")
    parser.add_argument("--points", type=int, default=500, help="points of the sweep [%(default)s]")
    parser.add_argument("--runs", type=int, default=20, help="runs of each point [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each way [%(default)s]")
    arguments = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)

    scenario = lasthop.Scenario.builtin("wavelan-lan").set({"flows.bulk.size": arguments.size})
    values = [600 + 2 * number for number in range(arguments.points // 2)]
    grid = lasthop.Grid(scenario, {"tcp.mss": values}, schemes=["E2E", "LL-TCP-AWARE"], runs=arguments.runs)
    total = len(grid) * grid.runs
    print(f"{len(grid)} points with {grid.runs} runs each, {total} in all, transfers of {arguments.size}")
    cores = os.sched_getaffinity(0)
    seconds: dict[str, list[float]] = {}

    def measure(way: str, number: int, **options: Any) -> None:
        # One core is one: the thread that writes files shares it. Threads started by this one stay there as well.
        os.sched_setaffinity(0, {min(cores)} if way == "one core" else cores)
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            lasthop.sweep(grid, out=Path(folder) / "sweep", **options)
            seconds.setdefault(way, []).append(time.perf_counter() - begun)
        print(f"round {number + 1}: {way:<16} {total / seconds[way][-1]:8.0f} runs/s", flush=True)

    # Without a cluster, whose processes are busy even when idle.
    for number in range(arguments.rounds):
        measure("one core", number, jobs=1)
        measure("two cores", number, jobs=2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        # Workers import the package with their first task.
        lasthop.sweep(lasthop.Grid(scenario, {"tcp.mss": values[:20]}, runs=5), client=client)
        for number in range(arguments.rounds):
            measure("two Dask workers", number, client=client)
    rate = {way: total / min(of) for way, of in seconds.items()}
    gain, dask = rate["two cores"] / rate["one core"], rate["two Dask workers"] / rate["two cores"]
    for way in rate:
        print(f"{way:<16} {rate[way]:8.0f} runs/s")
    print(f"two cores: {gain:.2f} times one (goal {GOAL_CORES}); Dask: {dask:.0%} of two cores (goal {GOAL_DASK:.0%})")


if __name__ == "__main__":
    main()

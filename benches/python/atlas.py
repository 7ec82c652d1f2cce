#!/usr/bin/env python3
"""Measures the speed and memory of an atlas: on two threads of one process, and on two local workers of Dask.

    pip install '.[cluster]'
    python benches/python/atlas.py

Prints links per second of wall-clock time and of CPU time, and the memory of all processes of the command. Rounds
alternate, so that other load disturbs both ways alike; on a machine that is busy otherwise, only CPU time can be
compared. Goals: Dask reaches 90 % of two threads, and the command takes less than 2 GB.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

GOAL_SHARE, GOAL_BYTES = 0.9, 2e9

THREADS = "import sys; from lasthop import atlas; atlas.compute(sys.argv[1], int(sys.argv[2]), jobs=2)"


def session_bytes(session: int) -> int:
    """Returns the proportional set size of all processes of a session."""
    total = 0
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.getsid(int(process.name)) == session:
                rollup = (process / "smaps_rollup").read_text()
                total += next(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def measure(command: list[str]) -> tuple[float, float, int]:
    """Runs a command; returns its duration, the CPU time of all its processes, and their maximum memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0

    def watch() -> None:
        nonlocal most
        while process.poll() is None:
            most = max(most, session_bytes(process.pid))
            time.sleep(0.5)

    watcher = threading.Thread(target=watch)
    watcher.start()
    if process.wait() != 0:
        sys.exit(f"{command} failed")
    seconds = time.perf_counter() - begun
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=2000, help="links of each round, rounded up to whole thousands [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each way [%(default)s]")
    arguments = parser.parse_args()
    links = arguments.links
    ways = {
        "two threads": lambda out: [sys.executable, "-c", THREADS, out, str(links)],
        "two Dask workers": lambda out: [sys.executable, "-m", "lasthop.atlas", "--out", out, "--links", str(links), "--workers", "2"],
    }
    found: dict[str, list[tuple[float, float, int]]] = {way: [] for way in ways}
    for number in range(arguments.rounds):
        for way, command in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                found[way].append(measure(command(folder)))
            seconds, cpu, most = found[way][-1]
            print(
                f"round {number + 1}: {way:<16} {links / seconds:6.1f} links/s, {links / cpu:6.1f} per CPU second, "
                f"{most / 1e6:5.0f} MB",
                flush=True,
            )
    of = {way: [min(rounds[at] for rounds in measured) for at in (0, 1)] for way, measured in found.items()}
    share = [of["two threads"][at] / of["two Dask workers"][at] for at in (0, 1)]
    most = max(rounds[2] for measured in found.values() for rounds in measured)
    print(f"Dask: {share[0]:.0%} of two threads, by CPU time {share[1]:.0%} (goal {GOAL_SHARE:.0%})")
    print(f"memory: {most / 1e6:.0f} MB (goal {GOAL_BYTES / 1e6:.0f})")


if __name__ == "__main__":
    main()

"""Sweeps and studies on a real Dask cluster of several processes."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, digests
from distributed import Client, LocalCluster

import lasthop
from lasthop import _lasthop, cluster


def start(workers: int) -> LocalCluster:
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with start(2) as workers, Client(workers) as client:
        yield client


def grid_of(size: str, points: int, runs: int) -> lasthop.Grid:
    scenario = lasthop.Scenario.parse(SMALL, "small").set({"flows.download.size": size})
    return lasthop.Grid(scenario, {"tcp.mss": range(600, 600 + points)}, schemes=["E2E", "LL"], runs=runs)


@pytest.mark.parametrize(("points", "runs"), [(90, 3), (3, 200), (1, 1)])
def test_rows_are_those_of_one_process(client: Client, tmp_path: Path, points: int, runs: int) -> None:
    """With many points in a task, or many tasks in a point, the bytes are the same."""
    grid = grid_of("20 KiB", points, runs)
    told: list[tuple[int, int]] = []
    there = lasthop.sweep(grid, client=client, out="there", progress=lambda done, total: told.append((done, total)))
    here = lasthop.sweep(grid, out="here")
    assert digests(Path("here")) == digests(Path("there"))
    assert there.table.equals(here.table)
    assert told[-1] == (len(grid) * runs,) * 2 and told == sorted(told)
    # The same without a folder.
    assert lasthop.sweep(grid, client=client).table.equals(lasthop.sweep(grid).table)


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    grid = grid_of("4 MiB", 150, 4)
    lasthop.sweep(grid, out="here")
    killed: list[int] = []
    with start(3) as workers, Client(workers) as client:
        pids = list(client.run(os.getpid).values())
        assert len(set(pids)) == 3 and os.getpid() not in pids

        def kill_one(done: int, total: int) -> None:
            if not killed and total * 0.2 < done < total * 0.8:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(done)

        lasthop.sweep(grid, client=client, out="there", progress=kill_one)
        # The worker is dead, and others did its work.
        assert pids[0] not in client.run(os.getpid).values()
    assert killed
    assert digests(Path("here")) == digests(Path("there"))


def test_what_is_there_is_not_computed_again(client: Client, tmp_path: Path) -> None:
    grid = grid_of("100 KiB", 200, 2)
    whole = lasthop.sweep(grid, out="whole")

    class Enough(Exception):
        pass

    def enough(done: int, total: int) -> None:
        if any(Path("rows").glob("part-*")):
            raise Enough

    with pytest.raises(Enough):
        lasthop.sweep(grid, client=client, out="rows", progress=enough)
    there = {path: path.stat().st_mtime_ns for path in Path("rows").glob("part-*")}
    assert 0 < len(there) < len(whole.files) == 7
    totals: set[int] = set()
    lasthop.sweep(grid, client=client, out="rows", progress=lambda done, total: totals.add(total))
    assert len(totals) == 1 and 0 < totals.pop() < len(grid) * 2
    assert all(path.stat().st_mtime_ns == time for path, time in there.items())
    assert digests(Path("rows")) == digests(Path("whole"))
    with pytest.raises(lasthop.SweepError, match="holds another sweep"):
        lasthop.sweep(grid_of("100 KiB", 199, 2), client=client, out="rows")


def test_a_client_that_was_killed_loses_nothing(tmp_path: Path) -> None:
    """The planning process dies; the next one completes its folder, here without a cluster."""
    (tmp_path / "grid.toml").write_text(
        'scenario = "small.toml"\nruns = 2\n[vary]\n"tcp.mss" = [' + ", ".join(map(str, range(600, 1000))) + "]\n"
    )
    (tmp_path / "small.toml").write_text(SMALL.replace("200 KiB", "4 MiB"))
    program = tmp_path / "program.py"
    program.write_text("""
import lasthop, os, pathlib, signal
from distributed import Client, LocalCluster

def kill_me(done, total):
    if any(pathlib.Path("rows").glob("part-*")):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        lasthop.sweep("grid.toml", client=client, out="rows", progress=kill_me)
""")
    result = subprocess.run([sys.executable, program], capture_output=True, check=False, timeout=60)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert 0 < len(list(Path("rows").glob("part-*"))) < 7
    lasthop.sweep("grid.toml", out="rows")
    lasthop.sweep("grid.toml", out="whole")
    assert digests(Path("rows")) == digests(Path("whole"))


def test_studies(client: Client) -> None:
    """Studies have cells of several scenarios, and claims and figures based on them."""
    there = lasthop.reproduce("balakrishnan1997", table=3, runs=2, client=client)
    here = lasthop.reproduce("balakrishnan1997", table=3, runs=2)
    assert there.table.equals(here.table) and there.claims == here.claims
    web = [lasthop.reproduce("xylomenos-kokkinakis", table="III", runs=1, client=of).table for of in (client, None)]
    assert web[0].equals(web[1])


def test_errors_of_workers_come_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same version, built from other sources.
    other = f"{_lasthop.__version__} (sources 0123456789abcdef)"
    future = client.submit(cluster.measure, b"", (), 1, other)
    message = re.escape(f"a worker has lasthop {_lasthop.__build__}, the client {other}")
    with pytest.raises(RuntimeError, match=message):
        future.result()
    # A file that is missing when the workers look for it.
    Path("losses.txt").write_text("0 0 1 0")
    scenario = lasthop.Scenario.parse(SMALL, "small").set(
        {"links.radio.errors": {"model": "replay", "file": "losses.txt"}}
    )
    grid = lasthop.Grid(scenario, {"tcp.mss": [700, 800]}, runs=2)
    Path("losses.txt").unlink()
    with pytest.raises(lasthop.ScenarioError, match="losses.txt") as caught:
        lasthop.sweep(grid, client=client)
    assert caught.value.key == "links.radio.errors.file"
    with pytest.raises(TypeError, match="give a dask.distributed.Client"):
        lasthop.sweep(grid, client="tcp://localhost:8786")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jobs: given together with client"):
        lasthop.sweep(grid, client=client, jobs=2)


def test_tasks_grow_and_shrink() -> None:
    pace = cluster._Pace()
    sizes = []
    for _ in range(10):
        pace.learn(pace.size, pace.size * 0.001)
        sizes.append(pace.of(10**9, 4))
    assert sizes[0] == 16 and sizes[-1] == pytest.approx(500, abs=2)
    # Smaller tasks towards the end, and when runs become long.
    assert pace.of(800, 4) == 100 and pace.of(3, 4) <= 100
    for _ in range(20):
        pace.learn(pace.size, pace.size * 2.0)
    assert pace.size == 1

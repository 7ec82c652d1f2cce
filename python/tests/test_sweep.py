"""Sweeps on the local cores."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, Command, digests

import lasthop

VARY = {"links.radio.rate": ["1 Mbps", "2 Mbps"], "tcp.mss": [700, 1000]}


def test_rows_are_those_of_the_command(command: Command, small: lasthop.Scenario, tmp_path: Path) -> None:
    sweep = ["sweep", "small.toml", "--vary", "links.radio.rate=1 Mbps,2 Mbps", "--vary", "tcp.mss=700,1000"]
    sweep += ["--schemes", "E2E,LL"]
    result = lasthop.sweep(small, VARY, schemes=["E2E", "LL"])
    told = list(csv.reader(io.StringIO(command.text(*sweep, "--csv"))))
    # Additional columns of numbers.
    assert result.table.column_names[:3] == ["links.radio.rate", "links.radio.rate_Mbps", "tcp.mss"]
    same = result.table.drop_columns(["links.radio.rate_Mbps"])
    assert same.column_names == told[0]

    def text(value: Any) -> str:
        # The command writes 3, Python 3.0.
        return "" if value is None else str(int(value)) if value == int_or_none(value) else str(value)

    def int_or_none(value: Any) -> int | None:
        return int(value) if isinstance(value, (int, float)) and float(value).is_integer() else None

    assert [[text(value) for value in row.values()] for row in same.to_pylist()] == told[1:]
    command.text(*sweep, "--out", "rows.parquet")
    written = pq.read_table("rows.parquet")
    mss = written["tcp.mss"].cast(pa.int64())
    assert written.set_column(1, "tcp.mss", mss).equals(same)
    # A folder of parts has the same rows, in the same order.
    parts = lasthop.sweep(small, VARY, schemes=["E2E", "LL"], out="rows")
    assert parts.table.equals(result.table) and parts.table.schema.equals(result.table.schema)
    assert pq.read_table("rows").num_rows == len(result) == 8


def test_what_is_varied_is_numbers(small: lasthop.Scenario) -> None:
    errors = [{"model": "exponential", "mean_bytes": "64 KiB"}, {"model": "none"}]
    vary = {
        "links.radio.delay": ["500 us", "2 ms"],
        "links.radio.queue": ["10 packets", "64 KiB"],
        "links.radio.errors": errors,
        "tcp.mss": [700, 1000],
        "flows.download.start": ["1.5 s"],
        "tcp.timestamps": [True],
    }
    table = lasthop.sweep(small, vary, runs=1).table
    numbers = {
        "links.radio.delay_us": (pa.float64(), {500.0, 2000.0}, b"us"),
        "links.radio.queue_packets": (pa.float64(), {10.0, None}, b"packets"),
        "links.radio.queue_KiB": (pa.float64(), {64.0, None}, b"KiB"),
        "links.radio.errors.mean_bytes_KiB": (pa.float64(), {64.0, None}, b"KiB"),
        "tcp.mss": (pa.int64(), {700, 1000}, None),
        "flows.download.start_s": (pa.float64(), {1.5}, b"s"),
    }
    for name, (kind, values, unit) in numbers.items():
        assert table[name].type == kind and set(table[name].to_pylist()) == values, name
        assert (table.schema.field(name).metadata or {}).get(b"unit") == unit, name
    assert set(table["tcp.timestamps"].to_pylist()) == {"true"}
    # The numbers are beside the given values, in the same row.
    rows = {(row["links.radio.queue"], row["links.radio.queue_packets"]) for row in table.to_pylist()}
    assert rows == {("10 packets", 10.0), ("64 KiB", None)}
    # Everything but names and words is a number.
    texts = [field.name for field in table.schema if field.type == pa.string()]
    assert texts == [key for key in vary if key != "tcp.mss"] + ["scheme"]


def test_number_of_threads_does_not_matter(small: lasthop.Scenario, tmp_path: Path) -> None:
    grid = lasthop.Grid(small, {"tcp.mss": range(500, 580)}, runs=3)
    assert len(grid) == 80
    results = [lasthop.sweep(grid, jobs=jobs, out=tmp_path / str(jobs)) for jobs in (1, 2, 5)]
    assert len(results[0].files) == 2
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "5")
    assert results[0].table.equals(lasthop.sweep(grid).table)


def test_a_second_call_computes_only_what_is_missing(small: lasthop.Scenario, tmp_path: Path) -> None:
    # Long enough for a progress call in the middle.
    slow = small.set({"flows.download.size": "4 MiB"})
    grid = lasthop.Grid(slow, {"tcp.mss": range(500, 900)}, runs=2)
    whole = lasthop.sweep(grid, out="whole")
    assert len(whole.files) == 7

    class Enough(Exception):
        pass

    def enough(done: int, total: int) -> None:
        if done > 0 and any(Path("rows").glob("part-*")):
            raise Enough

    with pytest.raises(Enough):
        lasthop.sweep(grid, out="rows", progress=enough)
    there = {path: path.stat().st_mtime_ns for path in Path("rows").glob("part-*")}
    assert 0 < len(there) < 7
    totals: list[int] = []
    again = lasthop.sweep(grid, out="rows", progress=lambda done, total: totals.append(total))
    assert set(totals) == {sum(2 * pq.read_metadata(file).num_rows for file in whole.files if not_in(file, there))}
    assert all(path.stat().st_mtime_ns == time for path, time in there.items())
    assert digests(Path("rows")) == digests(Path("whole")) and again.table.equals(whole.table)
    # Everything is present, so nothing is run.
    totals.clear()
    lasthop.sweep(grid, out="rows", progress=lambda done, total: totals.append(total))
    assert sum(totals) == 0


def not_in(file: Path, there: dict[Path, int]) -> bool:
    return file.name not in {path.name for path in there}


def test_a_process_that_was_killed_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL.replace("200 KiB", "4 MiB"))
    program = """
import lasthop, sys
grid = lasthop.Grid("small.toml", {"tcp.mss": range(500, 900)}, runs=2)
lasthop.sweep(grid, out=sys.argv[1])
"""
    with subprocess.Popen([sys.executable, "-c", program, "rows"]) as process:
        while process.poll() is None and not list(Path("rows").glob("part-*")):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    some = len(list(Path("rows").glob("part-*")))
    assert 0 < some < 7
    # An incomplete temporary file may remain; readers skip it.
    (tmp_path / "rows" / f".part-00006.parquet.{os.getpid() + 1}").write_bytes(b"half")
    for out in ("rows", "whole"):
        subprocess.run([sys.executable, "-c", program, out], check=True)
    names = [name for name in digests(Path("rows")) if not name.startswith(".")]
    assert {name: digests(Path("rows"))[name] for name in names} == digests(Path("whole"))
    assert pq.read_table("rows").equals(pq.read_table("whole"))


def test_another_grid_in_the_same_folder_is_refused(small: lasthop.Scenario, tmp_path: Path) -> None:
    lasthop.sweep(small, VARY, out="rows")
    before = digests(Path("rows"))
    for other, message in [
        (lasthop.Grid(small, VARY, seed=8), "`seed = 7` there, `seed = 8` here"),
        (lasthop.Grid(small, {**VARY, "tcp.mss": [700]}), r"there, `vary.\"tcp.mss\" = \[\"700\"\]` here"),
        (lasthop.Grid(small.set({"links.radio.delay": "11 ms"}), VARY), '`delay = "10 ms"` there, `delay = "11 ms"`'),
    ]:
        with pytest.raises(lasthop.SweepError, match=message):
            lasthop.sweep(other, out="rows")
    assert digests(Path("rows")) == before
    with pytest.raises(lasthop.SweepError, match="is not empty, and holds no sweep"):
        Path("thesis").mkdir()
        Path("thesis/chapter.tex").touch()
        lasthop.sweep(small, VARY, out="thesis")
    Path("file").touch()
    with pytest.raises(OSError, match="file"):
        lasthop.sweep(small, VARY, out="file")


def test_grids_from_files(tmp_path: Path, small: lasthop.Scenario) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "small.toml").write_text(SMALL)
    text = """
scenario = "small.toml"
schemes = ["E2E", "LL"]
runs = 2
[vary]
"tcp.mss" = [700, 1000]
links.radio.rate = ["1 Mbps", "2 Mbps"]
"""
    (tmp_path / "sub" / "grid.toml").write_text(text)
    grid = lasthop.Grid.load("sub/grid.toml")
    assert (len(grid), grid.runs, grid.seed, grid.schemes) == (8, 2, 7, ["E2E", "LL"])
    expected = lasthop.sweep(small, {key: VARY[key] for key in reversed(VARY)}, schemes=["E2E", "LL"], runs=2)
    assert lasthop.sweep("sub/grid.toml").table.equals(expected.table)
    for change, message in [
        (("runs", "rnus"), "grid.toml: unknown key 'rnus'; known: scenario, schemes, runs, seed, vary"),
        (('scenario = "small.toml"', ""), "grid.toml: scenario: missing"),
        (("runs = 2", "runs ="), "grid.toml: not valid TOML"),
        (("[700, 1000]", "700"), "grid.toml: vary: tcp.mss: cannot be 700; give a list of values"),
        (("runs = 2", "runs = 0"), "runs: cannot be 0"),
    ]:
        (tmp_path / "sub" / "grid.toml").write_text(text.replace(*change))
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            lasthop.Grid.load("sub/grid.toml")


def test_wrong_grids(small: lasthop.Scenario) -> None:
    with pytest.raises(ValueError, match="vary: scheme: cannot be varied; give schemes=..."):
        lasthop.sweep(small, {"scheme": ["E2E"]})
    with pytest.raises(ValueError, match="vary: tcp.mss: no values given"):
        lasthop.sweep(small, {"tcp.mss": []})
    with pytest.raises(ValueError, match="too many combinations"):
        lasthop.sweep(small, {"tcp.mss": range(1001), "limit": ["1 s"] * 1000})
    with pytest.raises(lasthop.ScenarioError, match="tcp.mss"):
        lasthop.sweep(small, {"tcp.mss": [1000, "huge"]})
    with pytest.raises(ValueError, match="vary: missing"):
        lasthop.sweep(small)
    with pytest.raises(ValueError, match="given together with a grid"):
        lasthop.sweep(lasthop.Grid(small, VARY), runs=3)


def test_what_does_not_exist_is_null(small: lasthop.Scenario) -> None:
    table = lasthop.sweep(small, {"limit": ["1 ms", "60 s"]}, runs=2, out="rows").table
    assert table["radio_goodput"].null_count == 1 and table["radio_goodput"].type == pa.float64()

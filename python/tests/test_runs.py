"""Runs, comparisons and traces, whose numbers equal those of the command."""

from __future__ import annotations

import csv
import io
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Command

import lasthop


def as_json(measures: dict[str, lasthop.Estimate]) -> dict[str, Any]:
    return {
        name: {"unit": of.unit, "mean": of.mean, "ci95": of.ci95, "runs": of.runs} for name, of in measures.items()
    }


def test_run_has_the_numbers_of_the_command(command: Command, small: lasthop.Scenario) -> None:
    told: Any = command.json("run", "small.toml", "--scheme", "LL", "--runs", "9", "--seed", "3")
    result = lasthop.run(small, "LL", runs=9, seed=3)
    assert as_json(result.measures) == told["measures"]
    assert (result.scheme, result.seed, result.runs) == (told["scheme"], told["seed"], told["runs"])
    # The same with another number of threads, and a file instead of a scenario object.
    assert lasthop.run("small.toml", "LL", runs=9, seed=3, jobs=1).samples.equals(result.samples)


def test_compare_has_the_numbers_of_the_command(command: Command, small: lasthop.Scenario) -> None:
    told: Any = command.json("compare", "small.toml")
    result = lasthop.compare(small)
    assert [row["scheme"] for row in told["schemes"]] == list(result.schemes)
    for row in told["schemes"]:
        assert as_json(result[row["scheme"]]) == row["measures"]


def test_flows_and_links_have_the_numbers_of_the_command(command: Command, small: lasthop.Scenario) -> None:
    told: Any = command.json("compare", "small.toml", "--schemes", "E2E,LL", "--runs", "4")
    result = lasthop.compare(small, ["E2E", "LL"], runs=4)
    for key, table, label in [("flows", result.flows, "flow"), ("links", result.links, "link")]:
        rows = table.to_pylist()
        expected = [(scheme["scheme"], row) for scheme in told["schemes"] for row in scheme[key]]
        assert len(rows) == len(expected) > 1
        for row, (scheme, one) in zip(rows, expected, strict=True):
            assert (row["scheme"], row[label], row["from"], row["to"]) == (scheme, one[label], one["from"], one["to"])
            for name, measure in one["measures"].items():
                assert (row[name], row[f"{name}_ci95"]) == (measure["mean"], measure["ci95"]), name
    assert lasthop.run(small, "LL", runs=4).flows["rtt_p50"].to_pylist()[0] > 0


def test_a_series_is_that_of_the_command(command: Command, small: lasthop.Scenario, tmp_path: Path) -> None:
    trace = lasthop.trace(small, "LL")
    table = trace.series(0.05)
    path = tmp_path / "series.csv"
    command.text("run", "small.toml", "--scheme", "LL", "--series", str(path), "--interval", "50 ms")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert table.column_names == list(rows[0])
    assert [float(row["time"]) for row in rows] == table["time"].to_pylist()
    with pytest.raises(ValueError, match="interval"):
        trace.series(0)


def test_states_of_connections_are_those_of_the_command(command: Command, small: lasthop.Scenario) -> None:
    table = lasthop.trace(small, "LL").tcp_info(0.05)
    lines = command.text("trace", "small.toml", "--scheme", "LL", "--csv", "--tcp-info", "50 ms").splitlines()
    rows = [line.split(",") for line in lines if ",tcp-info," in line]
    assert [float(row[0]) for row in rows] == table["time"].to_pylist()
    options = [dict(pair.split("=") for pair in row[14].split()) for row in rows]
    assert [row["state"] for row in options] == table["state"].to_pylist()
    assert [int(row["snd_cwnd"]) for row in options] == table["snd_cwnd"].to_pylist()
    with pytest.raises(ValueError, match="interval"):
        lasthop.trace(small, "LL").tcp_info(0)


def test_schemes_that_are_the_same_run_say_so(command: Command, small: lasthop.Scenario) -> None:
    names = ["E2E", "E2E-IETF-SACK", "LL"]
    result = lasthop.compare(small.set({"tcp.recovery": "sack"}), names, runs=1)
    assert result.same_as == {"E2E": "E2E-IETF-SACK"}
    assert result.remarks == {"E2E": "same as E2E-IETF-SACK: tcp.recovery is set"}
    assert "(same as E2E-IETF-SACK: tcp.recovery is set)" in str(result)
    told: Any = command.json("compare", "small.toml", "--schemes", ",".join(names), "--set", "tcp.recovery=sack")
    assert [row["same_as"] for row in told["schemes"]] == ["E2E-IETF-SACK", None, None]
    assert not lasthop.compare(small, names, runs=1).remarks


def test_a_wrong_value_names_what_set_it(small: lasthop.Scenario) -> None:
    with pytest.raises(lasthop.ScenarioError, match=r"\(set by set\(\)\): tcp.mss"):
        small.set({"tcp.mss": 0})


def test_estimates() -> None:
    estimate = lasthop.Estimate(2.0, 0.5, 3, "Mbps")
    assert (estimate.low, estimate.high, str(estimate)) == (1.5, 2.5, "2.000 ± 0.500 Mbps")
    single = lasthop.Estimate(2.0, None, 1, "count")
    assert (single.low, single.high, str(single)) == (2.0, 2.0, "2.000 count")


def test_tables_say_what_they_are(small: lasthop.Scenario) -> None:
    result = lasthop.compare(small, ["E2E", "LL"], runs=3)
    assert result.table.column_names[:4] == ["scheme", "runs", "throughput", "throughput_ci95"]
    assert result.table["scheme"].to_pylist() == ["E2E", "LL"]
    assert result.samples.column_names[:3] == ["scheme", "run", "throughput"]
    assert result.samples["run"].to_pylist() == [0, 1, 2, 0, 1, 2]
    mean = result.samples["throughput"].to_numpy()[3:].mean()
    assert result["LL"]["throughput"].mean == pytest.approx(mean)
    metadata = {key.decode(): value.decode() for key, value in result.table.schema.metadata.items()}
    assert metadata["lasthop.version"] == lasthop.__version__
    assert metadata["lasthop.build"] == lasthop.__build__
    assert (metadata["lasthop.seed"], metadata["lasthop.runs"]) == ("7", "3")
    assert lasthop.Scenario.parse(metadata["lasthop.toml"]) == small
    assert result.table.schema.field("throughput").metadata == {b"unit": b"Mbps"}
    assert result.table.schema.field("throughput_ci95").metadata == {b"unit": b"Mbps"}
    assert "LL " in str(result) and "± " in str(result)
    # One run has no interval: null, not a number.
    single = lasthop.run(small, runs=1)
    assert single.table["throughput_ci95"].to_pylist() == [None] and single["throughput"].ci95 is None


def test_numbers_are_not_copied(small: lasthop.Scenario) -> None:
    """Buffers stay in Rust's memory on the way to NumPy, Arrow and back."""
    core = lasthop.compare(small, ["E2E", "LL"], runs=5)
    columns = core._core.run_rows(core._values)
    from lasthop._tables import table

    arrow = table(columns, {})
    for name, kind, length, buffers in columns:
        if kind != "float64":
            continue
        values = buffers[1]
        assert values is not None and length == 10
        # NumPy does not own it: it belongs to a Rust vector.
        assert not values.flags.owndata and type(values.base).__name__ == "PySliceContainer"
        chunk = arrow[name].chunk(0)
        assert chunk.buffers()[1].address == values.ctypes.data
        assert chunk.to_numpy(zero_copy_only=True).ctypes.data == values.ctypes.data

    trace = lasthop.trace(small)
    columns = trace._core.columns()
    arrow = table(columns, {})
    by_name = {name: buffers for name, _, _, buffers in columns}
    for name in ("time", "seq", "len", "ack"):
        values = by_name[name][1]
        assert values is not None
        assert arrow[name].chunk(0).buffers()[1].address == values.ctypes.data
    # The same holds for texts: their bytes, and the indices of repeated ones.
    texts = arrow["point"].chunk(0)
    assert texts.indices.buffers()[1].address == by_name["point"][1].ctypes.data  # type: ignore[union-attr]
    assert texts.dictionary.buffers()[2].address == by_name["point"][3].ctypes.data  # type: ignore[union-attr]


def test_a_table_outlives_its_result(small: lasthop.Scenario) -> None:
    table = lasthop.trace(small).table
    copies = [lasthop.trace(small).table for _ in range(3)]
    assert all(table.equals(copy) for copy in copies)


@pytest.mark.parametrize("scheme", ["E2E", "LL-SMART-TCP-AWARE", "SPLIT", "SACK/SR"])
def test_trace_has_the_records_of_the_command(command: Command, small: lasthop.Scenario, scheme: str) -> None:
    text = command.text("trace", "small.toml", "--scheme", scheme, "--run", "2", "--csv")
    told = list(csv.DictReader(io.StringIO(text)))
    trace = lasthop.trace(small, scheme, run=2)
    assert trace.table.column_names == list(told[0])
    assert len(trace) == trace.table.num_rows == len(told)
    for name in trace.table.column_names:
        form = "{:.9f}".format if name == "time" else str
        mine = ["" if value is None else form(value) for value in trace.table[name].to_pylist()]
        assert mine == [row[name] for row in told], name
    trace.table.validate(full=True)
    assert trace.table.schema.field("seq").type == pa.uint32()
    assert str(trace) == command.text("trace", "small.toml", "--scheme", scheme, "--run", "2")


def test_trace_apart(small: lasthop.Scenario, tmp_path: Path, command: Command) -> None:
    trace = lasthop.trace(small, "LL-TCP-AWARE")
    assert trace.packets.num_rows + trace.events.num_rows == len(trace)
    assert set(trace.packets["event"].to_pylist()) == set(lasthop.Trace.PACKET_EVENTS)
    assert "dupack-suppressed" in trace.events["event"].to_pylist()
    assert trace.flows == ["download"] and trace.points[0] == "server"
    result = lasthop.run(small, "LL-TCP-AWARE", runs=1)
    assert trace.measures == {name: of.mean for name, of in result.measures.items()}
    trace.to_pcapng(tmp_path / "mine.pcapng", point="server")
    command.text("trace", "small.toml", "--scheme", "LL-TCP-AWARE", "--pcapng", "its.pcapng", "--point", "server")
    assert (tmp_path / "mine.pcapng").read_bytes() == (tmp_path / "its.pcapng").read_bytes()
    with pytest.raises(ValueError, match="no capture point \"client\"; expected one of server, "):
        trace.to_pcapng(tmp_path / "other.pcapng", point="client")
    with pytest.raises(FileNotFoundError):
        trace.to_pcapng(tmp_path / "nowhere" / "other.pcapng")


def test_study_has_the_numbers_of_the_command(command: Command, tmp_path: Path) -> None:
    told: Any = command.json("reproduce", "balakrishnan1997", "--table", "5", "--runs", "3", "--out", "its")
    study = lasthop.reproduce("balakrishnan1997", table=5, runs=3)
    rows = [row for table in told["tables"] for row in table["rows"]]
    mine = [{key: row[key] for key in rows[0]} for row in study.table.to_pylist()]
    assert mine == rows
    assert [claim._asdict() for claim in study.claims] == [
        {"id": claim["claim"], **{key: claim[key] for key in ("text", "holds", "evidence")}} for claim in told["claims"]
    ]
    study.write(tmp_path / "mine")
    for name in ("cells.csv", "index.html"):
        assert (tmp_path / "mine" / name).read_bytes() == (tmp_path / "its" / name).read_bytes()
    figure = lasthop.reproduce("balakrishnan1997", figure=4, runs=1).figures[0]
    assert figure.id == "figure-4" and figure._repr_svg_().startswith("<svg")
    with pytest.raises(ValueError, match="balakrishnan1997 has no table 7; it has 2, 3, 4, 5"):
        lasthop.reproduce("balakrishnan1997", table=7)
    with pytest.raises(ValueError, match="no study caceres1995; expected one of "):
        lasthop.reproduce("caceres1995")
    with pytest.raises(ValueError, match="not both"):
        lasthop.reproduce("balakrishnan1997", table=2, figure=3)


def test_progress_is_told_and_its_exceptions_end_the_runs(small: lasthop.Scenario) -> None:
    told: list[tuple[int, int]] = []
    lasthop.compare(small, ["E2E", "LL"], runs=50, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (100, 100) and told == sorted(told)

    def enough(done: int, total: int) -> None:
        raise LookupError(f"enough at {done}")

    begun = time.monotonic()
    with pytest.raises(LookupError, match="enough at"):
        lasthop.run(small.set({"flows.download.size": "1 GiB"}), runs=1000, progress=enough)
    assert time.monotonic() - begun < 10


def test_other_threads_go_on_meanwhile(small: lasthop.Scenario) -> None:
    """The interpreter lock is released: another thread proceeds while this one simulates on all cores."""
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.002):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.monotonic()
    lasthop.run(small.set({"flows.download.size": "64 MiB"}), runs=10)
    seconds = time.monotonic() - begun
    stop.set()
    thread.join()
    # With the lock held there would be one or none.
    assert ticks > 5 and ticks > 20 * seconds, (ticks, seconds)

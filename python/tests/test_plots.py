from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import matplotlib.pyplot as plt
import pytest

import lasthop

# Without a display.
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    yield
    plt.close("all")


def test_sequence(small: lasthop.Scenario) -> None:
    trace = lasthop.trace(small, "LL")
    ax = trace.plot_sequence()
    assert ax.get_title() == small.title and ax.get_xlabel() == "time (s)"
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["LL", "LL, retransmitted", "LL, base station, retransmitted"]
    sent, again, local = (line.get_xydata() for line in ax.lines)
    table = trace.packets.to_pylist()
    mine = [row for row in table if row["point"] == "server" and row["from"] == "initiator" and row["len"]]
    assert len(sent) == sum(row["event"] == "sent" for row in mine)
    assert len(again) == sum(row["event"] == "retransmitted" for row in mine) > 0
    repairs = [row for row in table if row["point"] != "server" and row["event"] == "retransmitted" and row["len"]]
    assert len(local) == len(repairs) > 0
    assert sent[-1][1] == pytest.approx(200, abs=2)
    # Another scheme in the same axes has another colour.
    lasthop.trace(small, "SPLIT").plot_sequence(ax=ax)
    assert ax.get_legend_handles_labels()[1][3:5] == ["SPLIT", "SPLIT, base station"]
    colours = [line.get_color() for line in ax.lines]
    assert colours[0] not in colours[1:]
    with pytest.raises(ValueError, match='no flow "upload"; expected one of download'):
        trace.plot_sequence(flow="upload")


def test_window(small: lasthop.Scenario) -> None:
    trace = lasthop.trace(small, "E2E")
    _, given = plt.subplots()
    ax = trace.plot_window(ax=given)
    assert ax is given
    line = ax.lines[0].get_xydata()
    windows = [row for row in trace.events.to_pylist() if row["event"] == "window" and row["point"] == "server"]
    assert [y * 1024 for y in line[:-1, 1]] == [row["cwnd"] for row in windows]
    assert line[-1][0] == trace.table["time"][-1].as_py()


def test_comparison(small: lasthop.Scenario) -> None:
    result = lasthop.compare(small, ["E2E", "LL-TCP-AWARE", "SPLIT"])
    ax = result.plot_comparison()
    assert [bar.get_width() for bar in ax.patches] == [result[name]["throughput"].mean for name in result.schemes]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["E2E", "LL-TCP-AWARE", "SPLIT"]
    assert ax.get_xlabel() == "throughput (Mbps)"
    assert result.plot_comparison("local_retransmissions").get_xlabel() == "local retransmissions (count)"
    with pytest.raises(ValueError, match="no measure 'speed'; expected one of "):
        result.plot_comparison("speed")
    # A single run has no interval, but can be drawn.
    lasthop.compare(small, ["E2E"], runs=1).plot_comparison()


def test_sweep(small: lasthop.Scenario) -> None:
    loss = "links.radio.errors.frame_loss"
    result = lasthop.sweep(small, {loss: ["3 %", "0.1 %"]}, schemes=["E2E", "LL"])
    ax = result.plot()
    assert ax.get_legend_handles_labels()[1] == ["E2E", "LL"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (f"{loss} (percent)", "throughput (Mbps)")
    assert ax.get_xscale() == "log" and [label.get_text() for label in ax.get_xticklabels()] == ["0.1", "3"]
    rows = [row for row in result.table.to_pylist() if row["scheme"] == "E2E"]
    drawn = ax.lines[0].get_xydata().tolist()
    assert drawn == [[row[f"{loss}_percent"], row["throughput"]] for row in reversed(rows)]
    # Words are categories on the axis; other varied keys have lines of their own.
    two = lasthop.sweep(small, {"tcp.recovery": ["reno", "sack"], "tcp.mss": [700, 1000]}, runs=1)
    given = plt.subplots()[1]
    ax = two.plot("timeouts", x="tcp.recovery", ax=given)
    assert ax is given and ax.get_legend_handles_labels()[1] == ["mss 700", "mss 1000"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["reno", "sack"]
    ax = two.plot()
    assert ax.get_xlabel() == "tcp.mss" and len(ax.get_legend_handles_labels()[1]) == 2
    with pytest.raises(ValueError, match="no measure 'speed'; expected one of "):
        two.plot("speed")
    with pytest.raises(ValueError, match="no varied key 'rate'; expected one of tcp.recovery, tcp.mss"):
        two.plot(x="rate")
    with pytest.raises(ValueError, match="nothing is varied"):
        lasthop.sweep(small, {}, runs=1).plot()

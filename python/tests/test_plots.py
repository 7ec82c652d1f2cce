from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import lasthop


def shown(figure: lasthop.Figure) -> tuple[list[str], list[str]]:
    """Returns the texts of a figure, and the words of its data."""
    image = ElementTree.fromstring(figure.svg)
    assert figure._repr_svg_() == figure.svg and figure.caption in repr(figure)
    texts = ["".join(node.itertext()) for node in image.iter("{http://www.w3.org/2000/svg}text")]
    return texts, [node.text or "" for node in image.iter("{http://www.w3.org/2000/svg}title")]


def test_sequence(small: lasthop.Scenario) -> None:
    trace = lasthop.trace(small, "LL")
    texts, _ = shown(trace.plot_sequence())
    assert texts[:4] == [small.title, "LL, sent", "LL, retransmitted", "LL, base station, retransmitted"]
    assert {"time (s)", "sequence number (KB)"} <= set(texts)
    # Another trace in the same figure.
    texts, _ = shown(trace.plot_sequence(lasthop.trace(small, "SPLIT")))
    assert "SPLIT, sent" in texts and "LL, sent" in texts
    with pytest.raises(ValueError, match='no flow "upload"; expected one of download'):
        trace.plot_sequence(flow="upload")


def test_window(small: lasthop.Scenario) -> None:
    trace = lasthop.trace(small, "E2E")
    texts, _ = shown(trace.plot_window())
    assert texts[0] == small.title and "congestion window (KB)" in texts
    both, _ = shown(trace.plot_window(lasthop.trace(small, "LL")))
    assert both[1:3] == ["E2E", "LL"]


def test_comparison(small: lasthop.Scenario) -> None:
    result = lasthop.compare(small, ["E2E", "LL-TCP-AWARE", "SPLIT"])
    texts, data = shown(result.plot_comparison())
    assert texts[0] == small.title and "throughput (Mbps)" in texts
    assert [words.partition(":")[0] for words in data if ":" in words] == ["E2E", "LL-TCP-AWARE", "SPLIT"]
    for words, scheme in zip(data[-3:], result.schemes, strict=True):
        mean, ci95 = map(float, re.findall(r"[\d.]+", words.partition(":")[2]))
        assert mean == pytest.approx(result[scheme]["throughput"].mean, abs=6e-4)
        assert ci95 == pytest.approx(result[scheme]["throughput"].ci95, abs=6e-4)
    assert "local retransmissions (count)" in shown(result.plot_comparison("local_retransmissions"))[0]
    with pytest.raises(ValueError, match="no measure 'speed'; expected one of "):
        result.plot_comparison("speed")
    # A single run has no interval, but can be drawn.
    assert "±" not in lasthop.compare(small, ["E2E"], runs=1).plot_comparison().svg


def test_sweep(small: lasthop.Scenario) -> None:
    loss = "links.radio.errors.frame_loss"
    result = lasthop.sweep(small, {loss: ["3 %", "0.1 %"]}, schemes=["E2E", "LL"])
    texts, data = shown(result.plot())
    assert {"E2E", "LL", f"{loss} (percent)", "throughput (Mbps)"} <= set(texts)
    rows = {row[f"{loss}_percent"]: row for row in result.table.to_pylist() if row["scheme"] == "E2E"}
    points = [words for words in data if words.startswith("E2E, ")]
    assert [words.partition(":")[0] for words in points] == ["E2E, 0.1", "E2E, 3"]
    assert float(points[0].split(": ")[1].split()[0]) == pytest.approx(rows[0.1]["throughput"], abs=6e-4)
    # Words are groups of bars; other varied keys have series of their own.
    two = lasthop.sweep(small, {"tcp.recovery": ["reno", "sack"], "tcp.mss": [700, 1000]}, runs=1)
    texts, data = shown(two.plot("timeouts", x="tcp.recovery"))
    assert {"reno", "sack", "mss 700", "mss 1000", "timeouts (count)"} <= set(texts)
    assert {"reno, mss 700", "sack, mss 1000"} <= {words.partition(":")[0] for words in data}
    assert "tcp.mss" in shown(two.plot())[0]
    with pytest.raises(ValueError, match="no measure 'speed'; expected one of "):
        two.plot("speed")
    with pytest.raises(ValueError, match="no varied key 'rate'; expected one of tcp.recovery, tcp.mss"):
        two.plot(x="rate")
    with pytest.raises(ValueError, match="nothing is varied"):
        lasthop.sweep(small, {}, runs=1).plot()

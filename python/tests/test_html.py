"""Display of results in notebooks."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Protocol

import lasthop


class Shown(Protocol):
    def _repr_html_(self) -> str: ...


def rows(result: Shown) -> list[list[str]]:
    """Returns the cells of all tables, headings included; fails if the HTML is not well-formed."""
    html = result._repr_html_()
    tables = ElementTree.fromstring(f"<div>{html}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in tables.iter("tr")]


def test_run(small: lasthop.Scenario) -> None:
    result = lasthop.run(small.set(title="A <b>small</b> & slow link"), "LL")
    assert "A &lt;b&gt;small&lt;/b&gt; &amp; slow link<br/>LL, 4 runs from seed 7" in result._repr_html_()
    throughput = result["throughput"]
    assert ["throughput", f"{throughput.mean:.3f}", f"± {throughput.ci95:.3f}", "Mbps"] in rows(result)
    assert len(rows(result)) == len(result.measures) + 1
    assert lasthop.run(small, "LL", runs=1)._repr_html_()


def test_comparison(small: lasthop.Scenario) -> None:
    plain = rows(lasthop.compare(small, ["E2E", "LL"]))
    assert plain[0][:4] == ["scheme", "Mbps", "95 % interval", "timeouts"] and "remark" not in plain[0]
    result = lasthop.compare(small.set({"tcp.recovery": "sack"}, limit="200 ms"), ["E2E", "E2E-IETF-SACK", "SPLIT"])
    head, e2e, *_ = rows(result)
    assert {"relay timeouts", "unfinished"} <= set(head)
    assert e2e[0] == "E2E" and e2e[-1] == "same as E2E-IETF-SACK: tcp.recovery is set"
    assert e2e[head.index("unfinished")] == "1"


def test_sweep(small: lasthop.Scenario) -> None:
    result = lasthop.sweep(small, {"tcp.mss": range(500, 550)}, runs=1)
    head, first, *others, last = rows(result)
    assert head == ["tcp.mss", "scheme", "Mbps", "95 % interval"]
    assert first[:2] == ["500", "E2E"] and first[2] == f"{result.table['throughput'][0].as_py():.3f}"
    assert len(others) == 39 and last == ["\u2026 and 10 more rows in .table"]


def test_study() -> None:
    study = lasthop.reproduce("balakrishnan1997", table=2, runs=2)
    head, *cells = rows(study)
    assert head[:3] == ["table", "cell", "metric"] and cells[0][0] == "2"
    assert any(row[1:2] == ["yes"] or row[1:2] == ["no"] for row in cells) == bool(study.claims)


def test_trace(small: lasthop.Scenario) -> None:
    trace = lasthop.trace(small)
    head, first, *_, last = rows(trace)
    assert head[0] == "time" and first[0] == f"{trace.table['time'][0].as_py():.6f}"
    assert last == [f"\u2026 and {len(trace) - 40} more rows in .table"]

"""Results as HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .links import Advice, Diagnosis, Fit
    from .runs import Comparison, Estimate, RunResult, Trace
    from .studies import Study
    from .sweeps import SweepResult

#: Maximum number of rows in a table; a line states how many more there are.
MOST = 40

#: Metrics of a comparison, with headings; the last ones are shown only if they are above zero.
_SHOWN = {
    "timeouts": "timeouts",
    "relay_timeouts": "relay timeouts",
    "recoveries": "recoveries",
    "source_retransmissions": "source rtx",
    "local_retransmissions": "local rtx",
}
_SHORT = {
    "handoff_gap": "gap ms",
    "handoff_lost": "lost in handoffs",
    "marks": "marks",
    "incomplete": "unfinished",
    "starved": "starved",
}


def number(value: object) -> str:
    """Formats a value for people: three decimals, fewer for large numbers, none for integers."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.1f}"


def _table(caption: Sequence[str], head: Sequence[str], rows: Iterable[Sequence[object]], more: int = 0) -> str:
    """Returns a table; texts are aligned to the left, numbers to the right."""

    def cell(value: object) -> str:
        if isinstance(value, str):
            return f'<td style="text-align: left">{escape(value)}</td>'
        return f'<td style="text-align: right">{number(value)}</td>'

    lines = ["<table>", f'<caption style="text-align: left">{"<br/>".join(map(escape, caption))}</caption>']
    lines.append(f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>")
    lines.append("<tbody>")
    lines += [f"<tr>{''.join(map(cell, row))}</tr>" for row in rows]
    if more > 0:
        lines.append(f'<tr><td colspan="{len(head)}">… and {more} more rows in <code>.table</code></td></tr>')
    return "\n".join([*lines, "</tbody>", "</table>"])


def _interval(value: float | None) -> str:
    return "" if value is None else f"± {value:.3f}"


def run(result: RunResult) -> str:
    """Returns a table with a row per metric."""
    rows = [(name, of.mean, _interval(of.ci95), of.unit) for name, of in result.measures.items()]
    caption = [result.scenario.title, f"{result.scheme}, {result.runs} runs from seed {result.seed}"]
    return _table(caption, ["measure", "mean", "95 % interval", "unit"], rows)


def comparison(result: Comparison) -> str:
    """Returns a table with a row per scheme, with the columns of ``lasthop compare``."""

    def mean(measures: dict[str, Estimate], name: str) -> float | None:
        return measures[name].mean if name in measures else None

    rows = result.measures
    columns = {name: title for name, title in _SHOWN.items() if any(name in of for of in rows.values())}
    columns |= {name: title for name, title in _SHORT.items() if any(mean(of, name) for of in rows.values())}
    remarks = result.remarks
    head = ["scheme", "Mbps", "95 % interval", *columns.values()] + (["remark"] if remarks else [])

    def row(scheme: str, of: dict[str, Estimate]) -> list[object]:
        line: list[object] = [scheme, mean(of, "throughput"), _interval(of["throughput"].ci95)]
        line += [mean(of, name) for name in columns]
        return line + ([remarks.get(scheme, "")] if remarks else [])

    caption = [result.scenario.title, f"{result.runs} runs per scheme from seed {result.seed}"]
    return _table(caption, head, [row(scheme, of) for scheme, of in rows.items()])


def sweep(result: SweepResult) -> str:
    """Returns a table with a row per point: varied keys, and throughput."""
    keys = list(result.grid.vary)
    shown = result.table.slice(0, MOST)
    names = [*keys, "scheme", "throughput", "throughput_ci95"]
    rows = [
        [str(row[key]) for key in keys] + [row["scheme"], row["throughput"], _interval(row["throughput_ci95"])]
        for row in shown.select(names).to_pylist()
    ]
    caption = [result.grid.scenario.title, f"{result.grid.runs} runs per point from seed {result.grid.seed}"]
    return _table(caption, [*keys, "scheme", "Mbps", "95 % interval"], rows, len(result) - len(shown))


def study(result: Study) -> str:
    """Returns a table with a row per number, and the verdicts on the claims."""
    names = ["table", "cell", "metric", "unit", "published", "measured", "ci95"]
    shown = result.table.slice(0, MOST).select(names)
    rows = [[*list(row.values())[:-1], _interval(row["ci95"])] for row in shown.to_pylist()]
    text = _table([result.title, result.citation], [*names[:-1], "95 % interval"], rows, len(result.table) - len(shown))
    if not result.claims:
        return text
    verdicts = {True: "yes", False: "no", None: "open"}
    claims = [(claim.id, verdicts[claim.holds], claim.text) for claim in result.claims]
    return f"{text}\n{_table(['Conclusions'], ['claim', 'holds', ''], claims)}"


def trace(result: Trace) -> str:
    """Returns a table of the first records."""
    rows = result.table.slice(0, MOST)
    used = [name for name in rows.column_names if rows[name].null_count < len(rows)]

    def text(value: object) -> object:
        return f"{value:.6f}" if isinstance(value, float) else value

    lines = [[text(value) for value in row.values()] for row in rows.select(used).to_pylist()]
    caption = [result.scenario.title, f"run {result.run} under {result.scheme} from seed {result.seed}"]
    return _table(caption, used, lines, len(result) - len(rows))


def diagnosis(result: Diagnosis) -> str:
    """Returns a table with a row per direction: its limit, and its losses."""
    names = ["flow", "from", "to", "packets", "goodput_bps", "rtt_ms", "limit", "corruption", "congestion", "unknown"]
    shown = result.flows.slice(0, MOST)
    rows = [list(row.values()) for row in shown.select(names).to_pylist()]
    return _table([repr(result), *result.missing], names, rows, len(result.flows) - len(shown))


def fit(result: Fit) -> str:
    """Returns a table with a row per model of each direction."""
    names = ["direction", "model", "rank", "free", "aic"]
    rows = [list(row.values()) for row in result.models.select(names).to_pylist()]
    return _table(str(result).split("\n"), names, rows)


def advice(result: Advice) -> str:
    """Returns a table with a row per cure and use, and the verdict."""
    rows = [
        [row["cure"], row["needs"], row["use"], row["value"], _interval(row["ci95"]), row["unit"], row["ratio"]]
        for row in result.table.to_pylist()
    ]
    return _table(str(result).split("\n"), ["cure", "needs", "use", "value", "95 % interval", "unit", "times"], rows)

"""Single scenarios: runs, comparisons, traces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from . import _html, _lasthop, plots
from ._tables import metadata, table
from ._types import Column, Floats, Progress
from .plots import Figure
from .scenario import JOBS, RUNS, SEEDS, Scenario, ScenarioLike, SchemeLike, count, scheme_name, scheme_names


@dataclass(frozen=True)
class Estimate:
    """Mean over runs with its 95 % Student-t interval.

    Attributes:
        mean: mean value in ``unit``.
        ci95: half the width of the interval; ``None`` for a single run.
        runs: number of runs with this metric.
        unit: ``Mbps``, ``ms``, ``percent``, ``count`` and the like (docs/output.md).
    """

    mean: float
    ci95: float | None
    runs: int
    unit: str

    @property
    def low(self) -> float:
        """Lower end of the interval; the mean for a single run."""
        return self.mean - (self.ci95 or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval; the mean for a single run."""
        return self.mean + (self.ci95 or 0.0)

    def __str__(self) -> str:
        interval = "" if self.ci95 is None else f" ± {self.ci95:.3f}"
        return f"{self.mean:.3f}{interval} {self.unit}"


@dataclass(frozen=True)
class _Measured:
    """Measurements of several schemes over the same runs."""

    scenario: Scenario
    seed: int
    runs: int
    _core: _lasthop.Sweep = field(repr=False)
    _values: list[Floats] = field(repr=False)
    _flows: list[Column] = field(repr=False)
    _links: list[Column] = field(repr=False)

    @cached_property
    def flows(self) -> pa.Table:
        """Table with a row per scheme and flow.

        Columns: ``scheme``, ``flow``, ``kind``, ``from``, ``to``, then each metric's mean over the runs, and under
        ``NAME_ci95`` half the width of its 95 % interval (docs/output.md)."""
        return table(self._flows, self._about())

    @cached_property
    def links(self) -> pa.Table:
        """Table with a row per scheme, link and direction.

        Columns: ``scheme``, ``link``, ``from``, ``to``, then means and intervals as in :attr:`flows`."""
        return table(self._links, self._about())

    def _estimates(self, point: int) -> dict[str, Estimate]:
        summaries = self._core.summaries(self._values[point])
        return {name: Estimate(mean, ci95, runs, unit) for name, unit, mean, ci95, runs in summaries}

    def _about(self) -> dict[str, str]:
        return about(self.scenario, self.seed, self.runs)

    @cached_property
    def table(self) -> pa.Table:
        """Table with a row per scheme, with the columns of ``lasthop sweep`` (docs/output.md).

        Columns: ``scheme``, ``runs``, then each metric's mean, and under ``NAME_ci95`` half the width of its 95 %
        interval. If schemes are the same run, ``same_as`` names the other one."""
        return table(self._core.rows(0, self._values), self._about(), dict(self._core.measures))

    @cached_property
    def samples(self) -> pa.Table:
        """Table with a row per run: ``scheme``, ``run`` (from 0), and each metric. Runs with the same number have the
        same errors."""
        return table(self._core.run_rows(self._values), self._about(), dict(self._core.measures))


@dataclass(frozen=True)
class RunResult(_Measured):
    """Measurements of one scheme. ``result["throughput"]`` is an :class:`Estimate`.

    Attributes:
        scenario, scheme, seed, runs: arguments of the runs.
    """

    scheme: str

    @cached_property
    def measures(self) -> dict[str, Estimate]:
        """Metrics by name, in the order of docs/output.md."""
        return self._estimates(0)

    def __getitem__(self, measure: str) -> Estimate:
        return self.measures[measure]

    def _repr_html_(self) -> str:
        return _html.run(self)

    def __str__(self) -> str:
        lines = [f"{name:<24} {estimate}" for name, estimate in self.measures.items()]
        return "\n".join([self.scenario.title, f"{self.scheme}, {self.runs} runs from seed {self.seed}", *lines])


@dataclass(frozen=True)
class Comparison(_Measured):
    """Measurements of several schemes with the same errors. ``result["LL"]["throughput"]`` is an :class:`Estimate`.

    Attributes:
        scenario, schemes, seed, runs: arguments of the runs.
    """

    schemes: tuple[str, ...]

    @cached_property
    def measures(self) -> dict[str, dict[str, Estimate]]:
        """Metrics by scheme and name."""
        return {scheme: self._estimates(point) for point, scheme in enumerate(self.schemes)}

    @cached_property
    def same_as(self) -> dict[str, str]:
        """Schemes that are the same run as another one, since the scenario sets what distinguishes them, with the other
        one's name."""
        remarks = zip(self.schemes, self.scenario._core.remarks(self.schemes), strict=True)
        return {scheme: same_as for scheme, (same_as, _) in remarks if same_as is not None}

    @cached_property
    def remarks(self) -> dict[str, str]:
        """Remarks on the numbers by scheme: ``same as E2E-IETF-SACK: tcp.recovery is set``."""
        remarks = zip(self.schemes, self.scenario._core.remarks(self.schemes), strict=True)
        return {scheme: remark for scheme, (_, remark) in remarks if remark is not None}

    def __getitem__(self, scheme: str) -> dict[str, Estimate]:
        return self.measures[scheme]

    def plot_comparison(self, measure: str = "throughput") -> Figure:
        """Draws bars of a metric by scheme, with 95 % intervals.

        Args:
            measure: name of the metric (docs/output.md).

        Raises:
            ValueError: there is no such metric.
        """
        return plots.comparison(self, measure)

    def _repr_html_(self) -> str:
        return _html.comparison(self)

    def __str__(self) -> str:
        remarks = {scheme: f" ({remark})" for scheme, remark in self.remarks.items()}
        lines = [
            f"{scheme:<20} {measures['throughput']}{remarks.get(scheme, '')}"
            for scheme, measures in self.measures.items()
        ]
        return "\n".join([self.scenario.title, f"{self.runs} runs per scheme from seed {self.seed}", *lines])


def about(scenario: Scenario, seed: int, runs: int) -> dict[str, str]:
    """Returns the metadata of tables, with which they can be reproduced."""
    return metadata(scenario=scenario.title, file=scenario.file, seed=seed, runs=runs, toml=scenario.to_toml())


def run(
    scenario: ScenarioLike,
    scheme: SchemeLike | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Runs a scenario under one scheme, like ``lasthop run``.

    Args:
        scenario: scenario object, path of a file, or name of a ready-made one.
        scheme, runs, seed: default: the scenario's.
        jobs: number of threads; default: one per core.
        progress: called from time to time with the numbers of finished and total runs; an exception stops the runs.

    Raises:
        ScenarioError: the scenario is invalid, or lacks the base station that the scheme needs.
        ValueError: there is no such scheme.
    """
    scenario = Scenario.open(scenario)
    name = scenario.scheme if scheme is None else scheme_name(scheme)
    measured = _measure(scenario, [name], runs, seed, jobs, progress)
    return RunResult(scenario, *measured, name)


def compare(
    scenario: ScenarioLike,
    schemes: Iterable[SchemeLike] | SchemeLike | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Runs a scenario under several schemes with the same errors, like ``lasthop compare``.

    Args:
        scenario: scenario object, path of a file, or name of a ready-made one.
        schemes: default: those of ``lasthop compare``, which depend on whether the endpoints are modern.
        runs, seed: default: the scenario's.
        jobs: number of threads; default: one per core.
        progress: called from time to time with the numbers of finished and total runs; an exception stops the runs.

    Raises:
        ScenarioError: the scenario is invalid, or lacks the base station that a scheme needs.
        ValueError: there is no such scheme.
    """
    scenario = Scenario.open(scenario)
    names = scheme_names(schemes, scenario._core.usual_schemes())
    measured = _measure(scenario, names, runs, seed, jobs, progress)
    return Comparison(scenario, *measured, tuple(names))


def _measure(
    scenario: Scenario,
    names: list[str],
    runs: int | None,
    seed: int | None,
    jobs: int | None,
    progress: Progress | None,
) -> tuple[int, int, _lasthop.Sweep, list[Floats], list[Column], list[Column]]:
    runs = count("runs", runs, scenario.runs, RUNS)
    seed = count("seed", seed, scenario.seed, SEEDS)
    # A sweep without varied keys.
    sweep = _lasthop.Sweep(scenario._core, [], names, seed, runs)
    values, flows, links = sweep.details(count("jobs", jobs, 0, JOBS), progress)
    return seed, runs, sweep, values, flows, links


class Trace:
    """Run with every packet at every capture point, and every event.

    Attributes:
        scenario, scheme, seed, run: arguments of the run.
    """

    #: Events with a packet (docs/trace-format.md).
    PACKET_EVENTS = ("sent", "retransmitted", "received", "dropped")

    def __init__(self, core: _lasthop.Trace, scenario: Scenario, scheme: str, seed: int, run: int) -> None:
        """Internal; use :func:`trace`."""
        self._core = core
        self.scenario = scenario
        self.scheme = scheme
        self.seed = seed
        self.run = run

    @cached_property
    def table(self) -> pa.Table:
        """Table with a row per record, in order of time, with the columns of docs/trace-format.md.

        ``time`` is in seconds; ``seq``, ``len``, ``ack``, ``window``, ``cwnd`` and ``ssthresh`` are numbers, all others
        texts. Values that do not apply are null."""
        return table(self._core.columns(), self._metadata(), {"time": "s", "len": "bytes", "cwnd": "bytes", "ssthresh": "bytes"})

    def _metadata(self) -> dict[str, str]:
        return metadata(
            scenario=self.scenario.title,
            file=self.scenario.file,
            scheme=self.scheme,
            seed=self.seed,
            run=self.run,
            toml=self.scenario.to_toml(),
        )

    @cached_property
    def packets(self) -> pa.Table:
        """Table of the records with a packet, with all columns but ``cwnd`` and ``ssthresh``."""
        return self.table.filter(self._has_packet()).drop_columns(["cwnd", "ssthresh"])

    @cached_property
    def events(self) -> pa.Table:
        """Table of the other records: events of endpoints and base stations.

        Columns: ``time``, ``point``, ``flow``, ``event``, ``seq``, ``ack``, ``cwnd``, ``ssthresh``
        (docs/trace-format.md)."""
        columns = ["time", "point", "flow", "event", "seq", "ack", "cwnd", "ssthresh"]
        return self.table.filter(pc.invert(self._has_packet())).select(columns)

    def _has_packet(self) -> pa.ChunkedArray:
        return pc.is_in(self.table["event"].cast(pa.string()), pa.array(self.PACKET_EVENTS))

    @property
    def points(self) -> list[str]:
        """Names of the capture points."""
        return self._core.points

    @property
    def flows(self) -> list[str]:
        """Names of the flows."""
        return self._core.flows

    @cached_property
    def measures(self) -> Mapping[str, float]:
        """Metrics of the run by name (docs/output.md)."""
        return {name: value for name, _, value in self._core.measures}

    def series(self, interval: float = 0.1) -> pa.Table:
        """Returns the run over time, with the columns of ``lasthop run --series``.

        Columns: ``time`` in seconds; for each flow its throughput in Mbps (``FLOW_throughput``) and mean round-trip
        time in ms (``FLOW_rtt``; for datagrams and calls ``FLOW_one_way_delay``) since the previous row; for each link
        the number of queued packets (``LINK_down_queue``, ``LINK_up_queue``).

        Args:
            interval: seconds between two rows.

        Raises:
            ValueError: the interval is not positive, or so short that the table would not fit into memory.
        """
        columns = self._core.series(_nanos(interval))
        units = {"throughput": "Mbps", "rtt": "ms", "delay": "ms", "queue": "packets", "time": "s"}
        return table(columns, self._metadata(), {name: units[name.rpartition("_")[2]] for name, *_ in columns})

    def tcp_info(self, interval: float = 0.1) -> pa.Table:
        """Returns the states of the TCP connections over time, with the fields of Linux's ``struct tcp_info``.

        Columns: ``time`` in seconds, ``flow``, then the fields in Linux's units (docs/output.md), of the connection at
        the flow's initiator.

        Args:
            interval: seconds between two rows of a flow.

        Raises:
            ValueError: the interval is not positive, or so short that the table would have over a million rows.
        """
        return table(self._core.tcp_info(_nanos(interval)), self._metadata(), {"time": "s"})

    def plot_sequence(self, *others: Trace, flow: str | None = None) -> Figure:
        """Draws the packets of a flow over time, at each sender of its data: dots, and crosses for retransmissions.

        Args:
            others: traces to draw in the same figure.
            flow: name of the flow; default: the first one.

        Raises:
            ValueError: there is no such flow.
        """
        title = self.scenario.title
        svg = _lasthop.Trace.sequence_svg(self._with(others), flow or self.flows[0], title)
        return plots.Figure("sequence", title, svg)

    def plot_window(self, *others: Trace, flow: str | None = None) -> Figure:
        """Draws the congestion window of a flow over time, at each sender of its data.

        Args:
            others: traces to draw in the same figure.
            flow: name of the flow; default: the first one.

        Raises:
            ValueError: there is no such flow.
        """
        title = self.scenario.title
        svg = _lasthop.Trace.window_svg(self._with(others), flow or self.flows[0], title)
        return plots.Figure("window", title, svg)

    def _with(self, others: tuple[Trace, ...]) -> list[_lasthop.Trace]:
        return [trace._core for trace in (self, *others)]

    def to_pcapng(self, path: str | os.PathLike[str], *, point: str | None = None) -> None:
        """Writes a capture for Wireshark.

        Args:
            path: output file.
            point: only capture point in the file, which tools that follow connections need; default: all.

        Raises:
            ValueError: there is no such capture point.
            OSError: the file cannot be written.
        """
        self._core.write_pcapng(path, point)

    def __len__(self) -> int:
        return len(self._core)

    def __str__(self) -> str:
        """Returns a line per record, similar to tcpdump."""
        return self._core.text()

    def _repr_html_(self) -> str:
        return _html.trace(self)

    def __repr__(self) -> str:
        return f"<lasthop.Trace of {self.scenario.file} under {self.scheme}: {len(self)} records>"


def _nanos(interval: float) -> int:
    nanos = round(interval * 1e9)
    if nanos <= 0:
        raise ValueError(f"the interval is {interval} s; give a positive number of seconds")
    return nanos


def trace(
    scenario: ScenarioLike, scheme: SchemeLike | None = None, *, run: int = 0, seed: int | None = None
) -> Trace:
    """Follows one run packet by packet, like ``lasthop trace``.

    Args:
        scenario: scenario object, path of a file, or name of a ready-made one.
        scheme, seed: default: the scenario's.
        run: number of the run, from 0.

    Raises:
        ScenarioError: the scenario is invalid, or lacks the base station that the scheme needs.
        ValueError: there is no such scheme.
    """
    scenario = Scenario.open(scenario)
    name = scenario.scheme if scheme is None else scheme_name(scheme)
    seed = count("seed", seed, scenario.seed, SEEDS)
    run = count("run", run, 0, (0, RUNS[1]))
    return Trace(_lasthop.Trace(scenario._core, name, seed, run), scenario, name, seed, run)

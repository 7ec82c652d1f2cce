"""Single scenarios: runs, comparisons, traces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from . import _html, _lasthop
from ._tables import metadata, table
from ._types import Column, Floats, Progress
from .scenario import JOBS, RUNS, SEEDS, Scenario, ScenarioLike, SchemeLike, count, scheme_name, scheme_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Estimate:
    """A mean over runs with its 95 % Student-t interval.

    Attributes:
        mean: in ``unit``.
        ci95: half the width of the interval; ``None`` for a single run.
        runs: how many runs have this measure.
        unit: ``Mbps``, ``ms``, ``percent``, ``count`` and the like (docs/output.md).
    """

    mean: float
    ci95: float | None
    runs: int
    unit: str

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean for a single run."""
        return self.mean - (self.ci95 or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval; the mean for a single run."""
        return self.mean + (self.ci95 or 0.0)

    def __str__(self) -> str:
        interval = "" if self.ci95 is None else f" ± {self.ci95:.3f}"
        return f"{self.mean:.3f}{interval} {self.unit}"


@dataclass(frozen=True)
class _Measured:
    """What several schemes measured over the same runs."""

    scenario: Scenario
    seed: int
    runs: int
    _core: _lasthop.Sweep = field(repr=False)
    _values: list[Floats] = field(repr=False)
    _flows: list[Column] = field(repr=False)
    _links: list[Column] = field(repr=False)

    @cached_property
    def flows(self) -> pa.Table:
        """A row a scheme and flow: ``scheme``, ``flow``, ``kind``, ``from``, ``to``, then for each metric its mean over the runs,
        and under ``NAME_ci95`` half the width of its 95 % interval (docs/output.md)."""
        return table(self._flows, self._about())

    @cached_property
    def links(self) -> pa.Table:
        """A row a scheme, link and direction: ``scheme``, ``link``, ``from``, ``to``, then means and intervals as in :attr:`flows`."""
        return table(self._links, self._about())

    def _estimates(self, point: int) -> dict[str, Estimate]:
        summaries = self._core.summaries(self._values[point])
        return {name: Estimate(mean, ci95, runs, unit) for name, unit, mean, ci95, runs in summaries}

    def _about(self) -> dict[str, str]:
        return about(self.scenario, self.seed, self.runs)

    @cached_property
    def table(self) -> pa.Table:
        """A row a scheme: ``scheme``, ``runs``, then for each measure its mean, and under ``NAME_ci95`` half the width of its
        95 % interval: the columns of ``lasthop sweep`` (docs/output.md). Where schemes are the same run, ``same_as`` says which."""
        return table(self._core.rows(0, self._values), self._about(), dict(self._core.measures))

    @cached_property
    def samples(self) -> pa.Table:
        """A row a run: ``scheme``, ``run`` (from 0), and each measure. Runs of the same number met the same errors."""
        return table(self._core.run_rows(self._values), self._about(), dict(self._core.measures))


@dataclass(frozen=True)
class RunResult(_Measured):
    """What runs of one scheme measured. ``result["throughput"]`` is an :class:`Estimate`.

    Attributes:
        scenario, scheme, seed, runs: what was run.
    """

    scheme: str

    @cached_property
    def measures(self) -> dict[str, Estimate]:
        """The measures by name, in the order of docs/output.md."""
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
    """What several schemes measured over the same errors. ``result["LL"]["throughput"]`` is an :class:`Estimate`.

    Attributes:
        scenario, schemes, seed, runs: what was run.
    """

    schemes: tuple[str, ...]

    @cached_property
    def measures(self) -> dict[str, dict[str, Estimate]]:
        """The measures by scheme and name."""
        return {scheme: self._estimates(point) for point, scheme in enumerate(self.schemes)}

    @cached_property
    def same_as(self) -> dict[str, str]:
        """Of schemes that are the same run, because the scenario sets what tells them apart: the one that each is the same as."""
        remarks = zip(self.schemes, self.scenario._core.remarks(self.schemes), strict=True)
        return {scheme: same_as for scheme, (same_as, _) in remarks if same_as is not None}

    @cached_property
    def remarks(self) -> dict[str, str]:
        """What the numbers do not say, by scheme: ``same as E2E-IETF-SACK: tcp.recovery is set``."""
        remarks = zip(self.schemes, self.scenario._core.remarks(self.schemes), strict=True)
        return {scheme: remark for scheme, (_, remark) in remarks if remark is not None}

    def __getitem__(self, scheme: str) -> dict[str, Estimate]:
        return self.measures[scheme]

    def plot_comparison(self, measure: str = "throughput", *, ax: Axes | None = None) -> Axes:
        """Bars of a measure, a scheme each, with 95 % intervals. Needs matplotlib.

        Args:
            measure: its name (docs/output.md).
            ax: where to draw; by default a new figure.

        Raises:
            ValueError: there is no such measure.
        """
        from . import plots

        return plots.comparison(self, measure, ax)

    def _repr_html_(self) -> str:
        return _html.comparison(self)

    def __str__(self) -> str:
        remarks = {scheme: f" ({remark})" for scheme, remark in self.remarks.items()}
        lines = [
            f"{scheme:<20} {measures['throughput']}{remarks.get(scheme, '')}"
            for scheme, measures in self.measures.items()
        ]
        return "\n".join([self.scenario.title, f"{self.runs} runs a scheme from seed {self.seed}", *lines])


def about(scenario: Scenario, seed: int, runs: int) -> dict[str, str]:
    """The metadata of tables: enough to make them again."""
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
    """Runs a scenario under one scheme: what ``lasthop run`` does.

    Args:
        scenario: a scenario, the path of a file, or the name of a ready-made one.
        scheme, runs, seed: the scenario's unless given.
        jobs: threads; one per core unless given.
        progress: called now and then with the numbers of runs done and to do; what it raises ends the runs.

    Raises:
        ScenarioError: the scenario is wrong, or lacks the base station that the scheme needs.
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
    """Runs a scenario under several schemes that meet the same errors: what ``lasthop compare`` does.

    Args:
        scenario: a scenario, the path of a file, or the name of a ready-made one.
        schemes: those that ``lasthop compare`` takes unless given: of the studies, or of today where the endpoints are.
        runs, seed: the scenario's unless given.
        jobs: threads; one per core unless given.
        progress: called now and then with the numbers of runs done and to do; what it raises ends the runs.

    Raises:
        ScenarioError: the scenario is wrong, or lacks the base station that a scheme needs.
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
    # A sweep in which nothing is varied.
    sweep = _lasthop.Sweep(scenario._core, [], names, seed, runs)
    values, flows, links = sweep.details(count("jobs", jobs, 0, JOBS), progress)
    return seed, runs, sweep, values, flows, links


class Trace:
    """A run with every packet at every capture point, and every event.

    Attributes:
        scenario, scheme, seed, run: what was run.
    """

    #: Events that have a packet (docs/trace-format.md).
    PACKET_EVENTS = ("sent", "retransmitted", "received", "dropped")

    def __init__(self, core: _lasthop.Trace, scenario: Scenario, scheme: str, seed: int, run: int) -> None:
        """Not for users: call :func:`trace`."""
        self._core = core
        self.scenario = scenario
        self.scheme = scheme
        self.seed = seed
        self.run = run

    @cached_property
    def table(self) -> pa.Table:
        """A row a record, in order of time, with the columns of docs/trace-format.md: ``time`` in seconds, ``seq``, ``len``,
        ``ack``, ``window``, ``cwnd`` and ``ssthresh`` as numbers, all others as texts. What does not apply is null."""
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
        """The records that have a packet, with all columns but ``cwnd`` and ``ssthresh``."""
        return self.table.filter(self._has_packet()).drop_columns(["cwnd", "ssthresh"])

    @cached_property
    def events(self) -> pa.Table:
        """The other records: what endpoints and base stations report. ``time``, ``point``, ``flow``, ``event``, ``seq``,
        ``ack``, ``cwnd``, ``ssthresh`` (docs/trace-format.md)."""
        columns = ["time", "point", "flow", "event", "seq", "ack", "cwnd", "ssthresh"]
        return self.table.filter(pc.invert(self._has_packet())).select(columns)

    def _has_packet(self) -> pa.ChunkedArray:
        return pc.is_in(self.table["event"].cast(pa.string()), pa.array(self.PACKET_EVENTS))

    @property
    def points(self) -> list[str]:
        """The names of the capture points."""
        return self._core.points

    @property
    def flows(self) -> list[str]:
        """The names of the flows."""
        return self._core.flows

    @cached_property
    def measures(self) -> Mapping[str, float]:
        """What the run measured, by name (docs/output.md)."""
        return {name: value for name, _, value in self._core.measures}

    def series(self, interval: float = 0.1) -> pa.Table:
        """The run over time: ``time`` in seconds; of each flow its throughput in Mbps (``FLOW_throughput``) and mean round trip in
        ms (``FLOW_rtt``; of datagrams and calls ``FLOW_one_way_delay``) since the row before; of each link the packets that wait
        (``LINK_down_queue``, ``LINK_up_queue``). The same columns as ``lasthop run --series`` writes.

        Args:
            interval: seconds between two rows.

        Raises:
            ValueError: the interval is not positive, or so short that the table would not fit into memory.
        """
        nanos = round(interval * 1e9)
        if nanos <= 0:
            raise ValueError(f"the interval is {interval} s; give a positive number of seconds")
        columns = self._core.series(nanos)
        units = {"throughput": "Mbps", "rtt": "ms", "delay": "ms", "queue": "packets", "time": "s"}
        return table(columns, self._metadata(), {name: units[name.rpartition("_")[2]] for name, *_ in columns})

    def plot_sequence(self, *, flow: str | None = None, ax: Axes | None = None) -> Axes:
        """The packets of a flow over time, at each sender of its data: a dot each, and a cross for those sent again.
        Needs matplotlib.

        Args:
            flow: its name; the first one unless given.
            ax: where to draw; by default a new figure.

        Raises:
            ValueError: there is no such flow.
        """
        from . import plots

        series = self._core.sequences(flow or self.flows[0])
        return plots.sequence(series, self.scenario.title, ax, [name for name, *_ in series])

    def plot_window(self, *, flow: str | None = None, ax: Axes | None = None) -> Axes:
        """The congestion window of a flow over time, at each sender of its data. Needs matplotlib.

        Args:
            flow: its name; the first one unless given.
            ax: where to draw; by default a new figure.

        Raises:
            ValueError: there is no such flow.
        """
        from . import plots

        name = flow or self.flows[0]
        names = [series for series, *_ in self._core.sequences(name)]
        return plots.window(self._core.windows(name), self.scenario.title, ax, names)

    def to_pcapng(self, path: str | os.PathLike[str], *, point: str | None = None) -> None:
        """Writes a capture for Wireshark.

        Args:
            path: the file.
            point: the only capture point in it; all unless given. Tools that follow connections need one.

        Raises:
            ValueError: there is no such capture point.
            OSError: the file cannot be written.
        """
        self._core.write_pcapng(path, point)

    def __len__(self) -> int:
        return len(self._core)

    def __str__(self) -> str:
        """A line a record, in the manner of tcpdump."""
        return self._core.text()

    def _repr_html_(self) -> str:
        return _html.trace(self)

    def __repr__(self) -> str:
        return f"<lasthop.Trace of {self.scenario.file} under {self.scheme}: {len(self)} records>"


def trace(
    scenario: ScenarioLike, scheme: SchemeLike | None = None, *, run: int = 0, seed: int | None = None
) -> Trace:
    """Follows one run packet by packet: what ``lasthop trace`` does.

    Args:
        scenario: a scenario, the path of a file, or the name of a ready-made one.
        scheme, seed: the scenario's unless given.
        run: its number, from 0.

    Raises:
        ScenarioError: the scenario is wrong, or lacks the base station that the scheme needs.
        ValueError: there is no such scheme.
    """
    scenario = Scenario.open(scenario)
    name = scenario.scheme if scheme is None else scheme_name(scheme)
    seed = count("seed", seed, scenario.seed, SEEDS)
    run = count("run", run, 0, (0, RUNS[1]))
    return Trace(_lasthop.Trace(scenario._core, name, seed, run), scenario, name, seed, run)

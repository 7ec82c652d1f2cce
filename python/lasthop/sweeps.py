"""Sweeps: all combinations of the values of some keys, in this process or on a cluster."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import _html, _lasthop
from ._tables import table
from ._types import Floats, Progress
from .plots import Figure
from .runs import about
from .scenario import JOBS, RUNS, SEEDS, Scenario, ScenarioLike, SchemeLike, count, scheme_names, value_text

if TYPE_CHECKING:
    from distributed import Client

#: Values by dotted key, as ``{"links.radio.rate": ["1 Mbps", "2 Mbps"]}``.
Vary = Mapping[str, Iterable[object]]


class Grid:
    """Points of a sweep: every combination of the values of some keys, under each of some schemes.

    Attributes:
        scenario: base scenario.
        vary: values of each key, as they appear in the rows. The last key changes fastest, after it the scheme.
        schemes, runs, seed: arguments of the runs.
    """

    def __init__(
        self,
        scenario: ScenarioLike,
        vary: Vary,
        *,
        schemes: Iterable[SchemeLike] | SchemeLike | None = None,
        runs: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Checks every combination.

        Args:
            scenario: scenario object, path of a file, or name of a ready-made one.
            vary: values by dotted key, as in :meth:`Scenario.set`.
            schemes, runs, seed: default: the scenario's.

        Raises:
            ScenarioError: a combination is not a valid scenario.
            ValueError: there is no such scheme, a key has no values, or ``scheme``, ``runs`` or ``seed`` is varied.
        """
        self.scenario = Scenario.open(scenario)
        self.vary: dict[str, list[str]] = {}
        for key, values in vary.items():
            if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
                raise TypeError(f"vary: {key}: cannot be {values!r}; give a list of values")
            self.vary[key] = [value_text(value) for value in values]
            if not self.vary[key]:
                raise ValueError(f"vary: {key}: no values given")
        self.schemes = scheme_names(schemes, [self.scenario.scheme])
        self.runs = count("runs", runs, self.scenario.runs, RUNS)
        self.seed = count("seed", seed, self.scenario.seed, SEEDS)
        axes = list(self.vary.items())
        self._core = _lasthop.Sweep(self.scenario._core, axes, self.schemes, self.seed, self.runs)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Grid:
        """Parses a grid from a TOML file::

            scenario = "farm.toml"                  # relative to this file, or the name of a ready-made one
            schemes = ["E2E", "LL-TCP-AWARE"]       # as runs and seed: the scenario's unless given
            runs = 30
            [vary]
            "links.radio.errors.frame_loss" = ["0.1 %", "1 %"]

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not a grid; the message begins with its path.
        """
        path = Path(path)
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not valid TOML: {error}") from None
        unknown = given.keys() - {"scenario", "vary", "schemes", "runs", "seed"}
        if unknown:
            raise ValueError(f"{path}: unknown key {min(unknown)!r}; known: scenario, schemes, runs, seed, vary")
        for key, kind in {"scenario": str, "vary": dict}.items():
            if not isinstance(given.get(key), kind):
                raise ValueError(f"{path}: {key}: missing, or not a {'string' if kind is str else 'table'}")
        beside = path.parent / given["scenario"]
        scenario = Scenario.open(str(beside) if beside.is_file() else given["scenario"])
        vary = dict(_flat(given["vary"]))
        try:
            return cls(scenario, vary, **{key: given[key] for key in ("schemes", "runs", "seed") if key in given})
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from None

    def __len__(self) -> int:
        """Returns the number of points, which are the rows of the result."""
        return self._core.points

    def __repr__(self) -> str:
        return f"<lasthop.Grid of {self.scenario.file}: {len(self)} points with {self.runs} runs each>"


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yields dotted keys with their values, whether quoted or not."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


@dataclass(frozen=True)
class SweepResult:
    """Rows of a sweep.

    Attributes:
        grid: grid that was computed.
        table: table with a row per point: a column for each varied key; ``scheme``; ``runs``; then each metric's mean,
            and under ``NAME_ci95`` half the width of its 95 % interval (docs/output.md). If schemes are the same run,
            ``same_as`` names the other one. A varied key is a number if all its values are numbers; values with units
            are texts as given, with an additional column of numbers that has the unit in its name:
            ``links.radio.delay`` and ``links.radio.delay_ms``.
        files: Parquet files with the rows (values as given, and metrics), if a folder was given.
    """

    grid: Grid
    table: pa.Table
    files: tuple[Path, ...] = ()

    def plot(self, measure: str = "throughput", *, x: str | None = None) -> Figure:
        """Draws a metric over the values of a key, with 95 % intervals: a line for each scheme and combination of the
        other keys' values, or bars if the values are not numbers.

        Args:
            measure: name of the metric (docs/output.md).
            x: key, or a column with its numbers; default: the first key whose values are numbers, or else the first.

        Raises:
            ValueError: there is no such metric or key, or nothing was varied.
        """
        from . import plots

        return plots.sweep(self, measure, x)

    def _repr_html_(self) -> str:
        return _html.sweep(self)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def number_columns(key: str, values: list[str]) -> dict[str, tuple[pa.Array, str | None]]:
    """Returns the columns of numbers of a key's ``values``, by name, with their unit."""
    columns = {}
    for path, unit, whole, numbers in _lasthop.numbers(values):
        name = f"{key}.{path}" if path else key
        if unit is not None:
            name = f"{name}_{unit}"
        elif not path and None in numbers:
            # One value is a word, so the column of texts stays.
            name = f"{name}_number"
        kind = pa.int64() if whole else pa.float64()
        columns[name] = (pa.array([None if n is None else int(n) if whole else n for n in numbers], kind), unit)
    return columns


def _with_numbers(rows: pa.Table, grid: Grid) -> pa.Table:
    """Returns ``rows`` with additional columns of numbers for varied keys."""
    for key, values in grid.vary.items():
        given = pa.array(values, pa.string())
        at = rows.column_names.index(key)
        places = pc.index_in(rows[key], given)
        for name, (numbers, unit) in number_columns(key, values).items():
            field = pa.field(name, numbers.type, metadata={"unit": unit} if unit else None)
            column = numbers.take(places.combine_chunks())
            if name == key:
                rows = rows.set_column(at, field, column)
            elif name not in rows.column_names:
                at += 1
                rows = rows.add_column(at, field, column)
    return rows


def sweep(
    grid: Grid | ScenarioLike,
    vary: Vary | None = None,
    *,
    schemes: Iterable[SchemeLike] | SchemeLike | None = None,
    runs: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    client: Client | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Runs all combinations of some keys' values, like ``lasthop sweep``, in this process or on a cluster.

    The rows are the same, to the last bit, with any number of threads, workers and machines.

    Args:
        grid: grid or path of its file; with ``vary``, a scenario as for :class:`Grid`.
        vary, schemes, runs, seed: as for :class:`Grid`.
        jobs: number of threads; default: one per core. Not together with ``client``.
        client: client of ``dask.distributed`` whose workers compute; default: this process computes.
        out: folder for the rows as Parquet files, each written when its rows are complete. Repeating the call computes
            only what is missing.
        progress: called from time to time with the numbers of finished and total runs; an exception stops the sweep.

    Raises:
        ScenarioError: a combination is not a valid scenario.
        SweepError: ``out`` contains another sweep, or other files.
        ValueError: the grid is invalid otherwise.
        OSError: ``out`` cannot be written.
    """
    grid = _grid(grid, vary, schemes, runs, seed)
    if client is not None and jobs is not None:
        raise ValueError("jobs: given together with client; the cluster's workers have their own number of threads")
    threads = count("jobs", jobs, 0, JOBS)
    core = grid._core
    if out is None:
        if client is None:
            columns = core.run(threads, progress)
        else:
            columns = core.rows(0, _on_cluster(grid, client, None, progress))
        rows = table(columns, about(grid.scenario, grid.seed, grid.runs), dict(core.measures))
        return SweepResult(grid, _with_numbers(rows, grid))
    parts = core.open(out)
    if client is None:
        core.fill(parts, threads, progress)
    else:
        _on_cluster(grid, client, parts, progress)
    files = tuple(Path(parts.path(part)) for part in range(parts.count))
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    rows = rows.replace_schema_metadata(about(grid.scenario, grid.seed, grid.runs))
    return SweepResult(grid, _with_numbers(rows, grid), files)


def _grid(
    grid: Grid | ScenarioLike,
    vary: Vary | None,
    schemes: Iterable[SchemeLike] | SchemeLike | None,
    runs: int | None,
    seed: int | None,
) -> Grid:
    if vary is not None:
        if isinstance(grid, Grid):
            raise ValueError("vary: given together with a grid, which has its own")
        return Grid(grid, vary, schemes=schemes, runs=runs, seed=seed)
    if schemes is not None or runs is not None or seed is not None:
        raise ValueError("schemes, runs, seed: given together with a grid, which has its own")
    if isinstance(grid, Grid):
        return grid
    if isinstance(grid, Scenario):
        raise ValueError("vary: missing; give values by key, e.g. {'links.radio.rate': ['1 Mbps', '2 Mbps']}")
    return Grid.load(grid)


def _on_cluster(
    grid: Grid, client: Client, parts: _lasthop.Parts | None, progress: Progress | None
) -> list[Floats]:
    """Computes on a cluster what is missing in ``parts``, or everything; without ``parts``, returns the values of each
    point's runs."""
    from . import cluster

    core, runs, width = grid._core, grid.runs, len(grid._core.measures)
    work = cluster.Work(
        lambda first, end: core.jobs(grid.scenario._core, first, end),
        tuple(name for name, _ in core.measures),
        grid.seed,
    )

    def by_point(values: Floats) -> list[Floats]:
        return list(values.reshape(-1, runs * width))

    if parts is None:
        whole = [range(len(grid) * runs)]
        (values,) = dict(cluster.compute(client, work, whole, progress)).values()
        return by_point(values)
    missing = parts.missing()
    units = [range(*(point * runs for point in parts.points(part))) for part in missing]
    for unit, values in cluster.compute(client, work, units, progress):
        core.write(parts, missing[unit], by_point(values))
    return []

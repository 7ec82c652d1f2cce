"""Runs on the workers of a Dask cluster.

The work is a list of *runs*, counted through all cells. A *unit* is a range of runs that the caller needs together,
such as the rows of one file. A task is a range of runs as well, with a size that suits the cluster: neither the
contents of a unit nor any number depends on it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _lasthop
from ._types import Floats, Job, Progress

if TYPE_CHECKING:
    from distributed import Client, Future

#: Target duration of a task in seconds: long against Dask's overhead of some milliseconds, short against the loss when
#: a worker dies.
TASK_SECONDS = 0.5
#: Number of tasks per thread of the cluster: one that runs, and those that wait on its worker while results are
#: transferred.
TASKS_PER_THREAD = 3
#: Number of runs in the first tasks, while the duration of a run is unknown.
FIRST_RUNS = 4
#: Maximum factor by which tasks grow from one to the next.
GROWTH = 4
#: Maximum factor by which they shrink at the end.
SHRINK = 8
#: Interval in seconds at which the size of the cluster is checked.
LOOK_EVERY = 1.0


@dataclass(frozen=True)
class Work:
    """Work to compute.

    Attributes:
        jobs: function that returns the jobs for the runs from the first up to, not including, the second number.
        measures: names of the metrics, which are the columns of the values.
        seed: root seed.
        on_worker: function of this module that runs the jobs on a worker; default: :func:`measure`.
    """

    jobs: Callable[[int, int], Sequence[Any]]
    measures: tuple[str, ...]
    seed: int
    on_worker: Callable[[bytes, tuple[str, ...], int, str], tuple[Floats, float]] | None = None


def measure(packed: bytes, measures: tuple[str, ...], seed: int, build: str) -> tuple[Floats, float]:
    """Runs the jobs in ``packed`` on a worker; returns the values of all runs, row by row, and the duration in seconds.

    Raises:
        RuntimeError: the worker has another build of lasthop, which may give other numbers.
        ScenarioError: a scenario is invalid here because a file that it names is missing.
    """
    _check(build)
    begun = time.perf_counter()
    # Unpacked here rather than by Dask, whose scheduler has neither the files nor, possibly, lasthop.
    jobs: list[Job] = pickle.loads(packed)
    values = _lasthop.measure(jobs, measures, seed, 1)
    return values, time.perf_counter() - begun


def measure_links(packed: bytes, measures: tuple[str, ...], seed: int, build: str) -> tuple[Floats, float]:
    """Runs the links of an atlas on a worker: ``packed`` has ranges of their numbers. Returns as :func:`measure`.

    Raises:
        RuntimeError: the worker has another build of lasthop, which may give other numbers.
    """
    _check(build)
    begun = time.perf_counter()
    ranges: list[tuple[int, int]] = pickle.loads(packed)
    links = _lasthop.Links(seed)
    values = np.concatenate([links.measure(first, end, 1, None) for first, end in ranges])
    return values, time.perf_counter() - begun


def _check(build: str) -> None:
    if build != _lasthop.__build__:
        raise RuntimeError(f"a worker has lasthop {_lasthop.__build__}, the client {build}; install the same build on both")


@dataclass
class _Unit:
    """Unit whose values are arriving."""

    runs: range
    width: int
    missing: int = field(init=False)
    values: Floats | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.missing = len(self.runs)

    def put(self, runs: range, values: Floats) -> None:
        if self.values is None:
            self.values = np.empty(len(self.runs) * self.width)
        first = (runs.start - self.runs.start) * self.width
        self.values[first : first + len(values)] = values
        self.missing -= len(runs)


@dataclass
class _Pace:
    """Suitable number of runs in a task."""

    size: int = FIRST_RUNS
    runs: int = 0
    seconds: float = 0.0

    def learn(self, runs: int, seconds: float) -> None:
        # Older durations count less: runs of other cells may take longer.
        self.runs, self.seconds = self.runs // 2 + runs, self.seconds / 2 + seconds
        wanted = TASK_SECONDS * self.runs / max(self.seconds, 1e-6)
        self.size = max(1, min(int(wanted), self.size * GROWTH))

    def of(self, left: int, threads: int) -> int:
        # Towards the end tasks are smaller, so that all threads finish at about the same time, but not so small that
        # Dask's overhead matters.
        least = self.size // SHRINK
        return max(1, least, min(self.size, left // (2 * threads)))


def compute(
    client: Client, work: Work, units: Sequence[range], progress: Progress | None = None
) -> Iterator[tuple[int, Floats]]:
    """Computes ``units`` and yields each with its number as soon as it is complete: its values, with a row per run.

    Dask recomputes the tasks of a dying worker. If the generator is closed early, pending tasks are cancelled.

    Raises:
        TypeError: ``client`` is not a client of dask.distributed, or is asynchronous.
    """
    from distributed import Client, as_completed

    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(f"client: cannot be {client!r}; give a dask.distributed.Client that is not asynchronous")
    todo = _Todo(client, work, [_Unit(unit, len(work.measures)) for unit in units])
    total, done = todo.left, 0
    running = as_completed()
    try:
        todo.submit(running)
        for future in running:
            values, seconds = future.result()
            pieces = todo.take(future, seconds)
            # Submit before the values are processed, so that the cluster does not wait.
            todo.submit(running)
            at = 0
            for unit, runs in pieces:
                end = at + len(runs) * len(work.measures)
                todo.units[unit].put(runs, values[at:end])
                at, done = end, done + len(runs)
                if todo.units[unit].missing == 0:
                    whole, todo.units[unit].values = todo.units[unit].values, None
                    assert whole is not None
                    yield unit, whole
            if progress is not None:
                progress(done, total)
    finally:
        client.cancel(list(todo.running), force=True)


class _Todo:
    """Runs that are neither computed nor being computed, and tasks in progress."""

    def __init__(self, client: Client, work: Work, units: list[_Unit]) -> None:
        self.client = client
        self.work = work
        self.units = units
        self.left = sum(len(unit.runs) for unit in units)
        self.running: dict[Future[Any], list[tuple[int, range]]] = {}
        self._pace = _Pace()
        #: Next run to submit: its unit and number.
        self._next = (0, units[0].runs.start if units else 0)
        self._looked = -LOOK_EVERY
        self._threads = 1

    def threads(self) -> int:
        """Returns the number of threads of all workers, which may come and go."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._threads = max(1, sum(self.client.nthreads().values()))
            self._looked = time.monotonic()
        return self._threads

    def submit(self, running: Any) -> None:
        """Submits tasks to keep all threads busy."""
        threads = self.threads()
        while self.left > 0 and len(self.running) < TASKS_PER_THREAD * threads:
            pieces = self._claim(self._pace.of(self.left, threads))
            jobs = [job for first, end in _joined(pieces) for job in self.work.jobs(first, end)]
            on_worker = self.work.on_worker or measure
            future = self.client.submit(
                on_worker, pickle.dumps(jobs), self.work.measures, self.work.seed, _lasthop.__build__, pure=False
            )
            self.running[future] = pieces
            running.add(future)

    def take(self, future: Future[Any], seconds: float) -> list[tuple[int, range]]:
        """Returns the contents of a finished task: ranges of runs, each of one unit."""
        pieces = self.running.pop(future)
        self._pace.learn(sum(len(runs) for _, runs in pieces), seconds)
        return pieces

    def _claim(self, size: int) -> list[tuple[int, range]]:
        pieces = []
        unit, first = self._next
        while size > 0 and unit < len(self.units):
            end = min(first + size, self.units[unit].runs.stop)
            pieces.append((unit, range(first, end)))
            size -= end - first
            self.left -= end - first
            first = end
            if end == self.units[unit].runs.stop:
                unit += 1
                first = self.units[unit].runs.start if unit < len(self.units) else 0
        self._next = (unit, first)
        return pieces


def _joined(pieces: list[tuple[int, range]]) -> list[tuple[int, int]]:
    """Joins adjacent ranges."""
    joined: list[tuple[int, int]] = []
    for _, runs in pieces:
        if joined and joined[-1][1] == runs.start:
            joined[-1] = (joined[-1][0], runs.stop)
        else:
            joined.append((runs.start, runs.stop))
    return joined

"""The published studies."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from . import _html, _lasthop
from ._tables import metadata, table
from ._types import Progress
from .scenario import JOBS, RUNS, SEEDS, count

if TYPE_CHECKING:
    from distributed import Client


class Claim(NamedTuple):
    """Something that a study concludes.

    Attributes:
        id: its letter or number.
        text: what it says.
        holds: whether it came out, by 95 % intervals.
        evidence: the numbers that decide it.
    """

    id: str
    text: str
    holds: bool
    evidence: str


class Figure(NamedTuple):
    """A figure of a study. Notebooks show it.

    Attributes:
        id: its name, as ``figure-13``.
        caption: what stands under it.
        svg: the picture.
    """

    id: str
    caption: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


class Study:
    """A study, reproduced."""

    def __init__(self, core: _lasthop.Study, seed: int) -> None:
        """Not for users: call :func:`reproduce`."""
        self._core = core
        self._seed = seed

    @property
    def id(self) -> str:
        """The name that selects it."""
        return self._core.id

    @property
    def title(self) -> str:
        """What it is called."""
        return self._core.title

    @property
    def citation(self) -> str:
        """Where the published numbers come from."""
        return self._core.citation

    @property
    def command(self) -> str:
        """The command that makes all of this again."""
        return self._core.command

    @cached_property
    def table(self) -> pa.Table:
        """A row a number: ``paper``, ``table``, ``cell``, ``metric``, ``unit``, ``published`` (null where it did not
        survive), ``measured``, ``ci95``, ``runs``: the columns of ``cells.csv`` (docs/output.md), not rounded."""
        return table(self._core.columns(), metadata(study=self.id, command=self.command, seed=self._seed))

    @cached_property
    def claims(self) -> list[Claim]:
        """What the study concludes, where its cells were run."""
        return [Claim(*claim) for claim in self._core.claims]

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures."""
        return [Figure(*figure) for figure in self._core.figures()]

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes what ``lasthop reproduce`` writes: ``cells.csv``, ``index.html`` and ``figures/``. Their paths.

        Raises:
            OSError: a file cannot be written.
        """
        return [Path(path) for path in self._core.write(folder)]

    def _repr_html_(self) -> str:
        return _html.study(self)

    def __repr__(self) -> str:
        return f"<lasthop.Study {self.title}>"


def reproduce(
    study: str,
    *,
    table: str | int | None = None,
    figure: str | int | None = None,
    runs: int = 30,
    seed: int = 1,
    jobs: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Study:
    """Runs a study beside its published numbers: what ``lasthop reproduce`` does, here or on a cluster.

    Args:
        study: ``balakrishnan1997``, ``xylomenos-kokkinakis`` or ``discussion1997``.
        table, figure: only this one, by its number in the paper.
        runs: runs a cell.
        seed: root seed.
        jobs: threads; one per core unless given. Not together with ``client``.
        client: a client of ``dask.distributed`` whose workers compute. Without one, this process does.
        progress: called now and then with the numbers of runs done and to do; what it raises ends the runs.

    Raises:
        ValueError: there is no such study, table or figure.
    """
    if client is not None and jobs is not None:
        raise ValueError("jobs: given together with client; the cluster's workers have their own number of threads")
    runs, seed = count("runs", runs, 30, RUNS), count("seed", seed, 1, SEEDS)
    only = [None if part is None else str(part) for part in (table, figure)]
    plan = _lasthop.Plan(study, only[0], only[1], seed, runs, count("jobs", jobs, 0, JOBS))
    if client is None:
        return Study(plan.run(progress), seed)
    from . import cluster

    work = cluster.Work(plan.jobs, tuple(name for name, _ in plan.measures), seed)
    whole = [range(cell * runs, (cell + 1) * runs) for cell in range(len(plan.cells))]
    cells = dict(cluster.compute(client, work, whole, progress))
    return Study(plan.finish([cells[cell] for cell in range(len(whole))]), seed)

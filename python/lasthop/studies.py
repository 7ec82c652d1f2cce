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
from .plots import Figure
from .scenario import JOBS, RUNS, SEEDS, count

if TYPE_CHECKING:
    from distributed import Client


class Claim(NamedTuple):
    """Claim of a study.

    Attributes:
        id: letter or number.
        text: wording of the claim.
        holds: whether it holds, according to 95 % intervals; ``None`` if they do not decide it.
        evidence: numbers that decide it.
    """

    id: str
    text: str
    holds: bool | None
    evidence: str


class Study:
    """Reproduced study."""

    def __init__(self, core: _lasthop.Study, seed: int) -> None:
        """Internal; use :func:`reproduce`."""
        self._core = core
        self._seed = seed

    @property
    def id(self) -> str:
        """Name that selects it."""
        return self._core.id

    @property
    def title(self) -> str:
        """Title."""
        return self._core.title

    @property
    def citation(self) -> str:
        """Source of the published numbers."""
        return self._core.citation

    @property
    def command(self) -> str:
        """Command that repeats the study."""
        return self._core.command

    @cached_property
    def table(self) -> pa.Table:
        """Table with a row per number, with the columns of ``cells.csv`` (docs/output.md), not rounded.

        Columns: ``paper``, ``table``, ``cell``, ``metric``, ``unit``, ``published`` (null if it is not known),
        ``measured``, ``ci95``, ``runs``."""
        return table(self._core.columns(), metadata(study=self.id, command=self.command, seed=self._seed))

    @cached_property
    def claims(self) -> list[Claim]:
        """Claims of the study whose cells were run."""
        return [Claim(*claim) for claim in self._core.claims]

    @cached_property
    def figures(self) -> list[Figure]:
        """Figures."""
        return [Figure(*figure) for figure in self._core.figures()]

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes the files of ``lasthop reproduce``: ``cells.csv``, ``index.html`` and ``figures/``. Returns their
        paths.

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
    """Runs a study and compares it with its published numbers, like ``lasthop reproduce``, in this process or on a
    cluster.

    Args:
        study: ``balakrishnan1997``, ``xylomenos-kokkinakis``, ``discussion1997``, ``bbr2016``, ``sidekick2024``, ``kosek2022`` or
            ``pemi2026``.
        table, figure: number in the paper of the only table or figure to run.
        runs: number of runs per cell.
        seed: root seed.
        jobs: number of threads; default: one per core. Not together with ``client``.
        client: client of ``dask.distributed`` whose workers compute; default: this process computes.
        progress: called from time to time with the numbers of finished and total runs; an exception stops the runs.

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

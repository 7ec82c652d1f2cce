"""Atlas of cures: a download over each of many links with every cure, and a map of which one helps where.

    python -m lasthop.atlas --out atlas                        # a million links on all cores; docs/atlas.md
    python -m lasthop.atlas --out atlas --map atlas.map        # and the compact map of them

>>> from lasthop import atlas
>>> rows = atlas.compute("atlas", 2000).table
>>> rows.column_names[:3]
['link', 'rate_Mbps', 'round_trip_ms']

Links are drawn by a sequence that fills the ranges of their properties evenly from the first link on, so that any number
of links is a fair sample, and a larger number continues a smaller one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import _lasthop
from ._errors import SweepError
from ._tables import metadata, table
from ._types import Floats, Progress
from .scenario import JOBS, SEEDS, count

if TYPE_CHECKING:
    from distributed import Client

#: Number of links in a file: about a minute of work on a core.
LINKS_PER_FILE = 1000
#: Maximum number of links.
MOST_LINKS = 16_000_000
#: File that describes the folder. Readers of Parquet folders skip names that begin with an underscore.
DESCRIPTION = "_atlas.toml"


@dataclass(frozen=True)
class Atlas:
    """Folder with the rows of an atlas.

    Attributes:
        folder: the folder.
        seed: seed of its links.
        files: Parquet files with consecutive links, from link 0 on.
    """

    folder: Path
    seed: int
    files: tuple[Path, ...]

    @property
    def table(self) -> pa.Table:
        """Table with a row per link: its number ``link``; ``rate_Mbps``, ``round_trip_ms``, ``loss_percent``,
        ``burst_frames``, ``queue_ms``, ``variation_percent``, ``share_percent``; ``seconds``, the duration of the download;
        and the throughput of each scheme in Mbps, named after it. Numbers have single precision."""
        return pa.concat_tables([pq.read_table(file) for file in self.files])

    def __len__(self) -> int:
        return len(self.files) * LINKS_PER_FILE

    def summary(self, out: str | os.PathLike[str] | None = None) -> Summary:
        """Reduces the rows to a map of cells, and writes it to the file ``out`` if given.

        Raises:
            OSError: the file cannot be written.
        """
        core = _lasthop.AtlasMap(self.seed)
        schemes = _lasthop.atlas_schemes()
        for number, file in enumerate(self.files):
            rows = pq.read_table(file, columns=schemes)
            values = np.column_stack([rows[scheme].to_numpy() for scheme in schemes]).astype(np.float64)
            core.add(number * LINKS_PER_FILE, values.reshape(-1))
        if out is not None:
            _replace(Path(out), core.bytes())
        return Summary(core)


class Summary:
    """Map of an atlas: results by rate, round trip, loss, bursts, queue, variation and share of the hop."""

    def __init__(self, core: _lasthop.AtlasMap) -> None:
        """Internal; use :meth:`Atlas.summary`."""
        self._core = core

    def __len__(self) -> int:
        """Returns the number of links."""
        return self._core.links

    def region(self, bins: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Returns the results of all links in a region.

        Args:
            bins: number of the bin, from 0, by dimension (:func:`dimensions`); other dimensions have all their values.

        Returns:
            ``links``; ``verdict`` (``wins``, ``nothing`` or ``unknown``); ``cure`` that wins, and its ``gain`` with the mean and
            the 95 % interval; ``candidates`` of an unknown verdict; and for each of the ``schemes`` its gain, and ``won``, the
            number of links on which it was the best.

        Raises:
            ValueError: there is no such dimension or bin.
        """
        known = dimensions()
        for name, number in (bins or {}).items():
            if name not in known:
                raise ValueError(f"bins: there is no dimension {name!r}; expected one of {', '.join(known)}")
            if not 0 <= number < len(known[name]):
                raise ValueError(f"bins: {name}: cannot be {number}; give 0 to {len(known[name]) - 1}")
        found: dict[str, Any] = json.loads(self._core.region([(bins or {}).get(name) for name in known]))
        return found

    def __repr__(self) -> str:
        return f"<lasthop.atlas.Summary of {len(self)} links>"


def dimensions() -> dict[str, list[str]]:
    """Returns the bins of each dimension in words, by its name."""
    return {name: bins for name, _, bins in _lasthop.atlas_dimensions()}


def compute(
    out: str | os.PathLike[str],
    links: int = 1_000_000,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Atlas:
    """Computes the first links of an atlas, in this process or on a cluster, as a folder of Parquet files.

    The files are the same, to the last bit, with any number of threads, workers and machines. Each is written when its
    rows are complete; repeating the call, also with more links, computes only missing files.

    Args:
        out: folder.
        links: number of links, rounded up to whole files of 1000.
        seed: seed of links and runs; default: 1.
        jobs: number of threads; default: one per core. Not together with ``client``.
        client: client of ``dask.distributed`` whose workers compute; default: this process computes.
        progress: called from time to time with the numbers of finished and of missing links; an exception stops it.

    Raises:
        SweepError: ``out`` contains another atlas, or other files.
        OSError: ``out`` cannot be written.
    """
    if client is not None and jobs is not None:
        raise ValueError("jobs: given together with client; the cluster's workers have their own number of threads")
    threads = count("jobs", jobs, 0, JOBS)
    seed = count("seed", seed, 1, SEEDS)
    links = count("links", links, 1, (1, MOST_LINKS))
    core = _lasthop.Links(seed)
    folder = Path(out)
    _open(folder, core.definition())
    files = [_file(folder, number) for number in range(-(-links // LINKS_PER_FILE))]
    missing = [number for number, file in enumerate(files) if not file.exists()]
    results = _here(core, missing, threads, progress) if client is None else _there(client, seed, missing, progress)
    for number, values in results:
        _write(files[number], core, number * LINKS_PER_FILE, values)
    return Atlas(folder, seed, tuple(files))


def open_folder(folder: str | os.PathLike[str]) -> Atlas:
    """Opens a folder that :func:`compute` wrote, in part or completely; uses its files up to the first missing one.

    Raises:
        SweepError: the folder contains no atlas, or that of another build of lasthop.
    """
    folder = Path(folder)
    path = folder / DESCRIPTION
    seed = re.search(r"^seed = (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.is_file() else None
    if seed is None:
        raise SweepError(f"{folder}: contains no atlas; give a folder of `python -m lasthop.atlas`")
    _open(folder, _lasthop.Links(int(seed[1])).definition())
    files: list[Path] = []
    while (file := _file(folder, len(files))).exists():
        files.append(file)
    return Atlas(folder, int(seed[1]), tuple(files))


def _file(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05}.parquet"


def _here(
    core: _lasthop.Links, missing: list[int], threads: int, progress: Progress | None
) -> Iterator[tuple[int, Floats]]:
    """Yields the values of each missing file, computed in this process."""
    schemes = len(_lasthop.atlas_schemes())
    for done, number in enumerate(missing):

        def tell(runs: int, _total: int, before: int = done * LINKS_PER_FILE) -> None:
            if progress is not None:
                progress(before + runs // schemes, len(missing) * LINKS_PER_FILE)

        first = number * LINKS_PER_FILE
        yield number, core.measure(first, first + LINKS_PER_FILE, threads, tell)


def _there(
    client: Client, seed: int, missing: list[int], progress: Progress | None
) -> Iterator[tuple[int, Floats]]:
    """Yields the values of each missing file, computed on a cluster, in the order in which they are complete."""
    from . import cluster

    schemes = tuple(_lasthop.atlas_schemes())
    work = cluster.Work(lambda first, end: [(first, end)], schemes, seed, cluster.measure_links)
    units = [range(number * LINKS_PER_FILE, (number + 1) * LINKS_PER_FILE) for number in missing]
    for unit, values in cluster.compute(client, work, units, progress):
        yield missing[unit], values


def _open(folder: Path, definition: str) -> None:
    """Opens the folder, or creates it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DESCRIPTION
    if path.exists():
        found = path.read_text(encoding="utf-8")
        if found != definition:
            raise SweepError(
                f"{folder}: holds another atlas ({_difference(found, definition)}); give another folder, or remove this one"
            )
    # Names with a dot may be left from a killed process.
    elif any(not file.name.startswith(".") for file in folder.iterdir()):
        raise SweepError(f"{folder}: is not empty, and holds no atlas; give another folder")
    else:
        _replace(path, definition.encode())


def _difference(found: str, wanted: str) -> str:
    """Returns the first line that differs."""
    for there, here in zip(found.splitlines(), wanted.splitlines(), strict=False):
        if there != here:
            return f"`{there.lstrip('# ')}` there, `{here.lstrip('# ')}` here"
    return "one of them has more lines"


def _write(path: Path, core: _lasthop.Links, first: int, values: Floats) -> None:
    """Writes the file of the links from ``first`` on."""
    schemes = _lasthop.atlas_schemes()
    links = table(core.columns(first, first + LINKS_PER_FILE), metadata())
    columns = {"link": links["link"].cast(pa.uint32())}
    # No property has more than five significant digits.
    columns |= {name: links[name].cast(pa.float32(), safe=False) for name in links.column_names[1:]}
    rows = values.reshape(-1, len(schemes)).astype(np.float32)
    columns |= {scheme: pa.array(rows[:, at]) for at, scheme in enumerate(schemes)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, metadata=metadata()), sink, compression="zstd")
    _replace(path, sink.getvalue().to_pybytes())


def _replace(path: Path, contents: bytes) -> None:
    """Writes a temporary file, and renames it when it is complete."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(contents)
            file.flush()
            # The name must not survive a crash of the machine without the contents.
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


class _Teller:
    """Prints progress, with the remaining time, on standard error: often on a terminal, rarely into a file."""

    def __init__(self) -> None:
        self.begun = self.told = time.monotonic()
        self.every = 1.0 if sys.stderr.isatty() else 30.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == 0 or (now - self.told < self.every and done < total):
            return
        self.told = now
        pace = done / max(now - self.begun, 1e-9)
        text = f"atlas: {done:,} of {total:,} links, {pace:.1f} per second, {_words((total - done) / pace)} left"
        begin, end = ("\r", "\n" if done >= total else "") if sys.stderr.isatty() else ("", "\n")
        print(f"{begin}{text:<75}", end=end, file=sys.stderr, flush=True)


def _words(seconds: float) -> str:
    """Returns a duration: ``3 h 20 min``."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lasthop.atlas", description="Computes an atlas of cures on Dask.")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of Parquet files; continued if it exists")
    parser.add_argument("--links", type=int, default=1_000_000, help="number of links [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="seed of links and runs [%(default)s]")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="N", help="local Dask workers [one per core]")
    where.add_argument("--scheduler", metavar="ADDRESS", help="scheduler of a Dask cluster, such as tcp://host:8786")
    parser.add_argument("--map", metavar="FILE", help="also write the compact map of these links")
    given = parser.parse_args(arguments)
    try:
        atlas = _on_dask(given)
        summary = atlas.summary(given.map)
    except KeyboardInterrupt:
        print("\natlas: stopped; repeat the command to continue", file=sys.stderr)
        return 130
    except (SweepError, ValueError, OSError) as error:
        print(f"atlas: {error}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in atlas.files)
    print(f"{given.out}: {len(atlas):,} links in {len(atlas.files)} files, {size / 1e6:.1f} MB")
    whole = summary.region()
    for scheme in whole["schemes"]:
        what = "no cure gains 3 %" if scheme is whole["schemes"][0] else f"{scheme['scheme']} is best"
        print(f"  {what:<22} on {scheme['won'] / whole['links']:5.1%} of the links")
    if given.map:
        print(f"{given.map}: map, {Path(given.map).stat().st_size / 1e3:.0f} kB")
    return 0


def _on_dask(given: argparse.Namespace) -> Atlas:
    import logging

    from distributed import Client, LocalCluster

    teller = _Teller()
    if given.scheduler is not None:
        with Client(given.scheduler) as client:
            return compute(given.out, given.links, seed=given.seed, client=client, progress=teller)
    workers = len(os.sched_getaffinity(0)) if given.workers is None else given.workers
    if workers < 1:
        raise ValueError(f"--workers: cannot be {workers}; give 1 or more")
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        return compute(given.out, given.links, seed=given.seed, client=client, progress=teller)


if __name__ == "__main__":
    sys.exit(main())

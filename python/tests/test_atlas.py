"""The atlas: rows at any number of workers, continuation, refusals, and the map against an independent computation."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from distributed import Client, LocalCluster

import lasthop
from lasthop import atlas

#: Small files, so that a test computes several.
LINKS = 8


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlas, "LINKS_PER_FILE", LINKS)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as workers,
        Client(workers) as client,
    ):
        yield client


def t975(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t, by integration of its density."""

    def mass(end: float) -> float:
        at = np.linspace(0, end, 20_001)
        density = (1 + at**2 / degrees) ** (-(degrees + 1) / 2)
        scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
        return float(np.sum((density[1:] + density[:-1]) / 2) * (at[1] - at[0])) * scale

    low, high = 1.9, 13.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if mass(middle) < 0.475 else (low, middle)
    return low


def digests(folder: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).iterdir()}


def test_rows_are_the_same_at_any_number_of_workers(client: Client) -> None:
    told: list[tuple[int, int]] = []
    there = atlas.compute("there", 3 * LINKS, client=client, progress=lambda *it: told.append(it))
    here = atlas.compute("here", 3 * LINKS, jobs=1)
    assert digests("here") == digests("there")
    assert [path.name for path in here.files] == [f"part-{number:05}.parquet" for number in range(3)]
    assert told[-1] == (3 * LINKS, 3 * LINKS)
    rows = there.table
    assert rows["link"].to_pylist() == list(range(3 * LINKS)) and len(there) == 3 * LINKS
    assert rows.column_names[-5:] == ["E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR", "LINK-HYBRID"]
    assert atlas.open_folder("there").table.equals(rows)


def test_a_row_is_the_run_of_its_scenario(command: Command) -> None:
    """The command gives the same throughput for the keys of the link: link 0 has the errors of run 0."""
    rows = atlas.compute("rows", LINKS).table.to_pylist()
    from lasthop import _lasthop

    keys = _lasthop.Links(1).keys(0)
    scenario = lasthop.Scenario.builtin("atlas-link").set(dict(keys))
    result = lasthop.compare(scenario, ["E2E-CUBIC", "SPLIT-BBR"], runs=1, seed=1)
    for scheme in ("E2E-CUBIC", "SPLIT-BBR"):
        assert rows[0][scheme] == pytest.approx(result[scheme]["throughput"].mean, rel=1e-6)
    given = [word for key, value in keys for word in ("--set", f"{key}={value}")]
    found = command.json("run", "atlas-link", *given, "--runs", "1", "--seed", "1")
    assert isinstance(found, dict)
    assert rows[0]["E2E-CUBIC"] == pytest.approx(found["measures"]["throughput"]["mean"], rel=1e-6)


def test_more_links_continue_a_folder() -> None:
    atlas.compute("rows", LINKS, jobs=2)
    before = digests("rows")
    (Path("rows") / ".part-00001.parquet.7").write_bytes(b"left by a process that was killed")
    totals: list[int] = []
    atlas.compute("rows", LINKS + 1, progress=lambda _, total: totals.append(total))
    after = digests("rows")
    assert before.items() <= after.items() and "part-00001.parquet" in after
    assert set(totals) == {LINKS}
    # What was deleted is computed again, to the last bit.
    (Path("rows") / "part-00000.parquet").unlink()
    atlas.compute("rows", 2 * LINKS)
    assert digests("rows") == after


def test_another_atlas_or_a_foreign_folder_is_refused() -> None:
    atlas.compute("rows", 1)
    with pytest.raises(lasthop.SweepError, match=r"rows: holds another atlas \(`seed = 1` there, `seed = 2` here\); give"):
        atlas.compute("rows", 1, seed=2)
    description = Path("rows/_atlas.toml")
    text = description.read_text()
    description.write_text(text.replace("1000, 3000", "1000, 4000", 1))
    with pytest.raises(lasthop.SweepError, match="dimensions.rate = .* there"):
        atlas.compute("rows", 1)
    description.write_text(text.replace("(sources ", "(sources 0", 1))
    with pytest.raises(lasthop.SweepError, match="build = "):
        atlas.open_folder("rows")
    Path("thesis").mkdir()
    Path("thesis/thesis.tex").write_text("")
    with pytest.raises(lasthop.SweepError, match="thesis: is not empty, and holds no atlas"):
        atlas.compute("thesis", 1)
    with pytest.raises(lasthop.SweepError, match="contains no atlas"):
        atlas.open_folder("thesis")
    with pytest.raises(ValueError, match="links: cannot be 0; give 1 to 16000000"):
        atlas.compute("rows", 0)
    with pytest.raises(ValueError, match="jobs: given together with client"):
        atlas.compute("rows", 1, jobs=1, client=object())


def test_a_map_has_the_numbers_of_the_rows(tmp_path: Path) -> None:
    """Gains and intervals of a region, computed from the Parquet files by their definition."""
    whole = atlas.compute("rows", 20 * LINKS)
    summary = whole.summary("atlas.map")
    assert len(summary) == 20 * LINKS and Path("atlas.map").stat().st_size < 300_000
    rows = whole.table.to_pydict()
    lossy = [at for at, loss in enumerate(rows["loss_percent"]) if 1 <= loss < 3]
    bins = atlas.dimensions()["loss"]
    region = summary.region({"loss": bins.index("1 to 3 %")})
    assert region["links"] == len(lossy) > 20
    schemes = [scheme["scheme"] for scheme in region["schemes"]]
    least = [1448 * 8 / seconds / 1e6 for seconds in rows["seconds"]]
    logarithms = {
        name: np.array([math.log(max(rows[name][at], least[at])) for at in lossy]) for name in schemes
    }
    gains = {name: values - logarithms["E2E-CUBIC"] for name, values in logarithms.items()}
    for scheme in region["schemes"][1:]:
        values = gains[scheme["scheme"]]
        half = t975(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        assert scheme["gain"]["mean"] == pytest.approx(math.exp(values.mean()), rel=1e-9)
        expected = [math.exp(values.mean() - half), math.exp(values.mean() + half)]
        assert scheme["gain"]["interval"] == pytest.approx(expected, rel=1e-5)
    # A link is won by the cure with the fewest changes of those within 1.5 % of the best, if that gains 3 %.
    won = dict.fromkeys(schemes, 0)
    for at in range(len(lossy)):
        most = max(gains[name][at] for name in schemes[1:])
        near = [name for name in schemes[1:] if gains[name][at] >= max(most + math.log(0.985), math.log(1.03))]
        won[near[0] if most >= math.log(1.03) else schemes[0]] += 1
    assert {scheme["scheme"]: scheme["won"] for scheme in region["schemes"]} == won
    with pytest.raises(ValueError, match="there is no dimension 'colour'; expected one of rate, round-trip"):
        summary.region({"colour": 1})
    with pytest.raises(ValueError, match="loss: cannot be 6; give 0 to 5"):
        summary.region({"loss": 6})


def test_a_command_that_was_killed_is_continued() -> None:
    """One command, with two workers of its own; killed after its first file, repeated, compared with one process."""
    arguments = [sys.executable, "-c", f"from lasthop import atlas; atlas.LINKS_PER_FILE = {LINKS}; raise SystemExit(atlas.main())"]
    options = ["--out", "rows", "--links", str(10 * LINKS), "--workers", "2"]
    process = subprocess.Popen([*arguments, *options], stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not any(Path("rows").glob("part-*")):
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert any(Path("rows").glob("part-*"))
    again = subprocess.run(
        [*arguments, *options, "--map", "atlas.map"], capture_output=True, text=True, check=False, timeout=300
    )
    assert again.returncode == 0, again.stderr
    assert "rows: 80 links in 10 files" in again.stdout and "is best" in again.stdout
    assert f"of {10 * LINKS} links" not in again.stderr
    atlas.compute("whole", 10 * LINKS)
    assert {name: digest for name, digest in digests("rows").items() if not name.startswith(".")} == digests("whole")
    atlas.open_folder("whole").summary("whole.map")
    assert Path("whole.map").read_bytes() == Path("atlas.map").read_bytes()


def test_errors_of_the_command_are_one_line() -> None:
    def refused(*arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "lasthop.atlas", *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        assert result.returncode != 0
        return result.stderr.splitlines()[-1]

    assert refused("--out", "rows", "--workers", "0") == "atlas: --workers: cannot be 0; give 1 or more"
    assert "not allowed with argument" in refused("--out", "rows", "--workers", "1", "--scheduler", "tcp://localhost:1")
    Path("thesis").mkdir()
    Path("thesis/thesis.tex").write_text("")
    assert refused("--out", "thesis", "--workers", "1") == "atlas: thesis: is not empty, and holds no atlas; give another folder"

"""Shared fixtures of the tests: the command, to compare with, and a small scenario."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

import lasthop

ROOT = Path(__file__).parents[2]

SMALL = """
title = "A small radio link"
runs = 4
seed = 7
[tcp]
preset = "rfc"
[hosts.server]
[hosts.phone]
[routers.tower]
[links.internet]
between = ["server", "tower"]
rate = "100 Mbps"
delay = "20 ms"
[links.radio]
between = ["tower", "phone"]
rate = "5 Mbps"
delay = "10 ms"
errors = { model = "uniform", frame_loss = "1 %" }
[flows.download]
from = "server"
to = "phone"
size = "200 KiB"
[base_station]
router = "tower"
link = "radio"
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes to an empty folder, so that only the installed package is found."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small() -> lasthop.Scenario:
    """Returns a transfer that takes well under a millisecond to simulate."""
    return lasthop.Scenario.parse(SMALL, "small")


class Command:
    """Command ``lasthop``, built beside the package."""

    def __init__(self, folder: Path) -> None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.path = Path(os.environ.get("LASTHOP_COMMAND", target / "debug" / "lasthop"))
        self.folder = folder
        assert self.path.is_file(), f"{self.path} is missing: cargo build --package lasthop"
        (folder / "small.toml").write_text(SMALL)

    def text(self, *arguments: str) -> str:
        result = subprocess.run(
            [self.path, *arguments], cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def json(self, *arguments: str) -> object:
        return json.loads(self.text(*arguments, "--json"))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Returns the command, in a folder with the small scenario as ``small.toml``."""
    return Command(tmp_path)


def digests(folder: Path) -> dict[str, str]:
    """Returns the digests of all files in a folder, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

"""The declared types of the package match its actual types."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT


def check(*arguments: str) -> None:
    result = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_sources_are_typed() -> None:
    check("mypy", "python/lasthop")


def test_stubs_match_the_compiled_part() -> None:
    check("mypy.stubtest", "lasthop._lasthop", "--ignore-disjoint-bases", "--mypy-config-file", "pyproject.toml")

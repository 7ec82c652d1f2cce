"""The notebook runs, and shows the same results again."""

from __future__ import annotations

import nbformat
from conftest import ROOT
from nbclient import NotebookClient


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """Returns the printed and returned texts of its cells, without images."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]


def pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/svg+xml" in output.get("data", {}) for output in outputs)


def test_lossy_link() -> None:
    notebook = nbformat.read(ROOT / "examples" / "lossy-link.ipynb", as_version=4)
    stored = texts(notebook)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert pictures(notebook) == 4
    assert texts(notebook) == stored
    assert any("LL-TCP-AWARE" in text for text in stored)

"""The examples in docs/python.md work; the scripts for Slurm and PBS are generated without either."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_examples_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    program = tmp_path / "examples.py"
    # Dask starts the program again in each worker, so everything is behind the guard.
    guarded = "\n".join(blocks).replace('if __name__ == "__main__":', "if True:")
    body = "\n".join(f"    {line}" for line in guarded.splitlines())
    program.write_text(f'if __name__ == "__main__":\n{body}\n    cluster.close()\n')
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "#SBATCH -p compute" in result.stdout and "#PBS -q workq" in result.stdout
    assert result.stdout.count("distributed.cli.dask_worker") == 2 and "--lifetime 110m" in result.stdout
    assert "10 of 10" in result.stdout
    assert (tmp_path / "rows" / "_sweep.toml").is_file()

"""Installs a wheel into the current environment over an earlier version, uses it and removes it. Called by
scripts/dist-test.sh.

    python dist-test-wheel.py WHEEL VERSION
"""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

EARLIER = "0.0.1"
USE = """
import lasthop
comparison = lasthop.compare("wavelan-lan", schemes=["E2E", "LL"], runs=2)
assert set(comparison.table.column("scheme").to_pylist()) == {"E2E", "LL"}, comparison.table
print(lasthop.__version__)
"""


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def earlier(wheel, version, folder):
    """Returns the same wheel under an earlier version's name."""
    path = folder / wheel.name.replace(version, EARLIER, 1)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        for item in source.infolist():
            data = source.read(item)
            name = item.filename.replace(f"lasthop-{version}.dist-info", f"lasthop-{EARLIER}.dist-info")
            if name.endswith("/METADATA"):
                data = data.replace(f"\nVersion: {version}\n".encode(), f"\nVersion: {EARLIER}\n".encode(), 1)
            if name.endswith("/RECORD"):
                lines = [line.split(",") for line in data.decode().replace(f"lasthop-{version}.", f"lasthop-{EARLIER}.").splitlines()]
                data = "".join(f"{line[0]},,\n" for line in lines).encode()
            target.writestr(name, data)
    return path


def state():
    """Returns all files of the environment except compiled Python, which interpreters add."""
    folder = Path(sys.prefix)
    return sorted(str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts and path.suffix != ".whl")


def used():
    """Returns the version that a program finds."""
    command = [sys.executable, "-B", "-c", USE]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def installed():
    command = [sys.executable, "-m", "pip", "list", "--disable-pip-version-check", "--format=freeze"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if line.startswith("lasthop==")]


def main():
    wheel, version = Path(sys.argv[1]), sys.argv[2]
    clean = state()
    # Nothing is downloaded: a missing dependency is an error.
    pip("install", "--no-index", str(earlier(wheel, version, Path.cwd())))
    assert installed() == [f"lasthop=={EARLIER}"], installed()
    pip("install", "--no-index", "--upgrade", str(wheel))
    assert installed() == [f"lasthop=={version}"], installed()
    assert used() == version, used()
    notices = [path for path in state() if path.endswith("licenses/LICENSE-THIRD-PARTY")]
    assert notices, "the notices of what is linked in are missing"
    pip("uninstall", "--yes", "lasthop")
    left = sorted(set(state()) - set(clean))
    assert not left, f"left: {left}"


main()

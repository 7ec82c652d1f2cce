#!/usr/bin/env python3
"""Prints licences and notices of all code that is linked into a crate's program, for distribution with it.

    scripts/notices.py CRATE >FILE     # CRATE: lasthop, or lasthop-py for the Python module

Covers every dependency that is compiled in on this machine (no build scripts, macros or tests), and the assets of the
workspace's own crates. Equal texts are printed once. Fails if a dependency has neither a text nor a known licence.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo").split()
IS_NOTICE = re.compile(r"(.*[-_.])?(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?", re.IGNORECASE)


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def linked(metadata, crate):
    """Returns the packages that are linked into `crate`, including itself, by name."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == crate and package["source"] is None]
    if not waiting:
        sys.exit(f"notices: there is no crate {crate}")
    found = set()
    while waiting:
        key = waiting.pop()
        if key in found or is_macro(packages[key]):
            continue
        found.add(key)
        for dependency in nodes[key]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return sorted((packages[key] for key in found), key=lambda package: (package["name"], package["version"]))


def texts(package):
    """Yields each notice of a package, without trailing spaces."""
    folder = Path(package["manifest_path"]).parent
    is_ours = package["source"] is None
    files = (folder / "assets").rglob("*") if is_ours else [*folder.iterdir(), *(folder / "LICENSES").glob("*")]
    for file in sorted(files):
        if file.is_file() and (IS_NOTICE.fullmatch(file.name) or file.parent.name == "LICENSES"):
            text = file.read_text(encoding="utf-8", errors="replace")
            yield file.name, "\n".join(line.rstrip() for line in text.strip().splitlines())


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    host = subprocess.run(["rustc", "-vV"], capture_output=True, check=True, text=True, cwd=ROOT).stdout
    host = re.search(r"^host: (.*)$", host, re.MULTILINE)[1]
    command = [*CARGO, "metadata", "--locked", "--format-version=1", f"--filter-platform={host}"]
    metadata = json.loads(subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT).stdout)
    packages = linked(metadata, sys.argv[1])

    whose = {}
    print("The program contains these libraries. Their licences and notices follow.\n")
    for package in packages:
        title = f"{package['name']} {package['version']}"
        found = list(texts(package))
        for name, text in found:
            # The same paragraph may have other line breaks.
            whose.setdefault(" ".join(text.split()), (text, []))[1].append(f"{title} ({name})")
        if package["source"] is None:
            continue
        if not package["license"] and not found:
            sys.exit(f"notices: {title} says nothing of its licence")
        authors = ", ".join(author.split(" <")[0] for author in package["authors"])
        print(f"{title}: {package['license'] or 'see below'}{f'; {authors}' if authors else ''}")
    for text, packages in whose.values():
        print(f"\n{'-' * 78}\n{', '.join(packages)}:\n\n{text}")


main()

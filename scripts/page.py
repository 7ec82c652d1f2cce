#!/usr/bin/env python3
"""Writes the page without a server: the folder of static files of `make page`.

Browsers load no module of a page that is opened as a file, and fetch no file for it. So the modules of each page become
one classic script, and the program (WebAssembly, compressed) and the source of its worker are strings in another. The course
is written by course.py.
"""

import argparse
import base64
import gzip
import json
import re
import shutil
import sys
from pathlib import Path

from course import Failed as CourseFailed
from course import write_course

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "crates/lasthop-serve/web"
CHARTS = ROOT / "crates/lasthop-report/assets/charts"
OWN = ROOT / "crates/lasthop-page/web"

# Scripts and styles of the pages that have another name, or come in parts.
SOURCES = {
    "charts.js": [CHARTS / "charts.js"],
    "charts.css": [CHARTS / "figures.css", CHARTS / "charts.css"],
    "uplot.js": [CHARTS / "uPlot.iife.min.js"],
    "uplot.css": [CHARTS / "uPlot.min.css"],
    # Requests go to the simulator in the page.
    "transport.js": [OWN / "transport.js"],
    "wasi.mjs": [OWN / "wasi.mjs"],
    "worker.mjs": [OWN / "worker.mjs"],
}

# No request leaves the page: nothing may be fetched, and all that is loaded is a file beside it.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)

IMPORT = re.compile(r"^import \{ (?P<names>[\w, ]+) \} from '\./(?P<file>[\w.-]+)';$", re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (?P<name>\w+))", re.MULTILINE)
OTHER = re.compile(r"^(import|export)\b.*$", re.MULTILINE)
SCRIPT = re.compile(r'<script src="(?P<file>[\w.-]+)" type="module"></script>')


class Failed(Exception):
    """A source that does not have the expected form."""


def text_of(name: str) -> str:
    """Returns the contents of a file of the pages."""
    return "".join(path.read_text(encoding="utf-8") for path in SOURCES.get(name, [PAGES / name]))


def bundle(main: str) -> str:
    """Returns a classic script that runs the module `main` and everything that it imports."""
    parts: dict[str, str] = {}
    add(main, parts, [])
    return "(async () => {\n'use strict';\n" + "".join(parts.values()) + "})();\n"


def add(name: str, parts: dict[str, str], users: list[str]) -> None:
    """Adds a module to `parts`, after those that it imports: a function whose result is its exports."""
    if name in users:
        raise Failed(f"{name}: imported in a circle by {' and '.join(users)}")
    if name in parts:
        return
    source = text_of(name)
    for found in IMPORT.finditer(source):
        add(found["file"], parts, [*users, name])
    exports = [found["name"] for found in EXPORT.finditer(source)]
    source = IMPORT.sub(lambda found: f"const {{ {found['names']} }} = {variable(found['file'])};", source)
    source = EXPORT.sub("", source)
    if other := OTHER.search(source):
        raise Failed(f"{name}: expected `import {{ NAME, .. }} from './FILE';` or `export` of a declaration, found: {other[0]}")
    result = f"return {{ {', '.join(exports)} }};\n" if exports else ""
    parts[name] = f"const {variable(name)} = await (async () => {{\n{source}{result}}})();\n"


def variable(name: str) -> str:
    """Returns the name of the variable with a module's exports."""
    return "module_" + re.sub(r"\W", "_", name)


def simulator(program: bytes) -> str:
    """Returns the script that defines the program and the source of its worker."""
    packed = base64.b64encode(gzip.compress(program, 9, mtime=0)).decode("ascii")
    return f"globalThis.LASTHOP_SIMULATOR = {{\nworker: {json.dumps(bundle('worker.mjs'))},\nprogram: '{packed}',\n}};\n"


def html(name: str, with_studies: bool) -> tuple[str, list[str]]:
    """Returns a page that loads classic scripts, and the files that it names."""
    page = text_of(name)
    head = '<meta charset="utf-8">\n'
    if page.count(head) != 1 or not SCRIPT.search(page):
        raise Failed(f"{name}: expected one {head.strip()} and a script of type module")
    page = page.replace(head, f'{head}<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n')
    page = SCRIPT.sub('<script src="simulator.js" defer></script>\n<script src="\\g<file>" defer></script>', page)
    for address, file in {"cure": "cure.html", "atlas": "atlas.html", "./": "index.html"}.items():
        page = page.replace(f'href="{address}"', f'href="{file}"')
    page = page.replace("</nav>", ' <a href="course/index.html" title="Ten labs, from one lost frame to a cure">Course</a></nav>', 1)
    if with_studies:
        page = page.replace("</nav>", ' <a href="studies/index.html" title="Published studies, reproduced">Studies</a></nav>', 1)
    files = re.findall(r'(?:href|src)="([\w.-]+\.(?:js|css|svg))"', page)
    return page, [file for file in files if file != "simulator.js"]


def write(folder: Path, program: Path, studies: Path | None) -> None:
    """Writes all files of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {"app.js", "cure.js", "atlas.js"}
    for name in ("index.html", "cure.html", "atlas.html"):
        page, files = html(name, studies is not None)
        (folder / name).write_text(page, encoding="utf-8")
        for file in files:
            (folder / file).write_text(bundle(file) if file in scripts else text_of(file), encoding="utf-8")
    write_course(folder / "course")
    (folder / "simulator.js").write_text(simulator(program.read_bytes()), encoding="utf-8")
    if studies:
        copy_pages(studies, folder / "studies")


def copy_pages(studies: Path, folder: Path) -> None:
    """Copies the pages of studies, which consist of one file each."""
    if not (studies / "index.html").is_file():
        raise Failed(f"{studies}: contains no index.html; expected a folder that `lasthop reproduce --out` wrote")
    for page in studies.rglob("index.html"):
        place = folder / page.relative_to(studies)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="lasthop-page.wasm")
    parser.add_argument("folder", type=Path, help="folder to write")
    parser.add_argument("--studies", type=Path, help="folder of `lasthop reproduce` to include")
    args = parser.parse_args()
    try:
        write(args.folder, args.program, args.studies)
    except (Failed, CourseFailed, OSError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

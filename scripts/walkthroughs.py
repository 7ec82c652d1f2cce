#!/usr/bin/env python3
"""Follows the walkthroughs of docs/models/adding.md literally, in a copy of the sources: puts the example files and lines
where the tables say, builds the program, runs the examples' own tests and the commands of the page (`make walkthroughs`).

    scripts/walkthroughs.py             all of this
    scripts/walkthroughs.py --check     only checks that the tables fit the sources, and counts their files
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mutations import CARGO, ROOT, TARGET, copy

PAGE = ROOT / "docs/models/adding.md"
MARK = re.compile(r"<!-- walkthrough: at most (\d+) files? -->")
COPY = re.compile(r"\[.*\]\((\S+)\)(?:, with `(.*)` for `(.*)`)?")


def code(cell):
    """Returns the text between backticks of a table's cell."""
    return cell[cell.index("`") + 1 : cell.rindex("`")].replace("\\|", "|")


def walkthroughs():
    """Yields for each walkthrough its section, its limit of files, the rows of its table, and its commands."""
    for section in re.split(r"(?m)^(?=## )", PAGE.read_text())[1:]:
        mark = MARK.search(section)
        if not mark:
            continue
        head, _, rest = section[mark.end() :].partition("|---|---|---|\n")
        assert "| file | where | what |" in head, section
        table, _, rest = rest.partition("\n\n")
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        commands = rest[6:].partition("```")[0] if rest.startswith("```sh\n") else ""
        yield section.splitlines()[0][3:], int(mark[1]), rows, commands.splitlines()


def put(file, where, what):
    """Changes a file as a row of a table says."""
    if where == "new file":
        example, new, old = COPY.fullmatch(what).groups()
        text = (PAGE.parent / example).read_text()
        return file.write_text(text.replace(old, new) if old else text)
    text, anchor = code(what), code(where)
    lines = file.read_text().splitlines()
    whole = not where.startswith("instead of")
    places = [place for place, line in enumerate(lines) if (line.strip() == anchor if whole else anchor in line)]
    assert len(places) == 1, f"{file}: {len(places)} lines are {anchor!r}"
    place = places[0]
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    match where.partition(" `")[0]:
        case "above":
            lines.insert(place, indent + text)
        case "below":
            lines.insert(place + 1, indent + text)
        case "instead of":
            lines[place] = lines[place].replace(anchor, text)
        case other:
            raise ValueError(f"{file}: {other}")
    return file.write_text("\n".join(lines) + "\n")


def follow(root):
    """Follows all walkthroughs in `root`. Returns the names of the new modules with tests, by crate, and the commands."""
    tests, commands = [], []
    for section, limit, rows, to_run in walkthroughs():
        files = {code(row[0]) for row in rows}
        assert len(files) <= limit, f"{section}: {len(files)} files instead of at most {limit}"
        overview = rf"\(#{section.lower().replace(' ', '-')}\).* \| {len(files)} \|"
        assert re.search(overview, PAGE.read_text()), f"{section}: the first table has another number than {len(files)}"
        for file, where, what in rows:
            put(root / "crates" / code(file), where, what)
        print(f"{section}: {len(files)} files, at most {limit}")
        commands += to_run
        for name in {code(file) for file, where, _ in rows if where == "new file"}:
            if "#[cfg(test)]" in (root / "crates" / name).read_text():
                tests.append((name.partition("/")[0], Path(name).stem))
    assert len(tests) >= 2 and len(commands) >= 6, (tests, commands)
    return tests, commands


def check():
    with tempfile.TemporaryDirectory(prefix="lasthop-walkthroughs-") as folder:
        for _, _, rows, _ in walkthroughs():
            for name in {code(row[0]) for row in rows}:
                (Path(folder) / "crates" / name).parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / "crates" / name).is_file():
                    (Path(folder) / "crates" / name).write_bytes((ROOT / "crates" / name).read_bytes())
        follow(Path(folder))


def cargo(arguments, where, environment):
    """Runs cargo, which must succeed without warnings, and passes its output on. Returns the output."""
    command = [*CARGO, arguments[0], "--locked", *arguments[1:]]
    lines = []
    with subprocess.Popen(command, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            lines.append(line)
    # `-D warnings` in RUSTFLAGS would build the dependencies again.
    warned = any(line.startswith("warning") for line in lines)
    if running.returncode or warned:
        sys.exit(f"walkthroughs: {' '.join(command)}: {'a warning' if warned else f'status {running.returncode}'}")
    return "".join(lines)


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    target = TARGET.with_name("walkthroughs")
    where = target / "sources"
    where.mkdir(parents=True, exist_ok=True)
    copy(where)
    tests, commands = follow(where)
    # The dependencies that the tests have built serve here too; the program itself is put into a folder of its own.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_BUILD_BUILD_DIR": str(TARGET.parent)}
    cargo(["build", "-p", "lasthop"], where, environment)
    for crate, module in tests:
        output = cargo(["test", "--lib", "-p", crate, f"{module}::"], where, environment)
        assert re.search(r"test result: ok\. [1-9]", output), f"{crate}: no test of {module} ran"
        print(f"{crate}: tests of {module} passed", flush=True)
    environment["PATH"] = f"{target / 'debug'}{os.pathsep}{environment['PATH']}"
    for command in commands:
        print(f"$ {command}", flush=True)
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], env=environment, cwd=target, check=True)
    return None


if __name__ == "__main__":
    main()

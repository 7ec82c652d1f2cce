#!/usr/bin/env python3
"""Checks the prose of the repository: `make prose`. Prints file:line for each finding, and exits with 1 if there are any.

    scripts/prose.py               checks all files that git tracks
    scripts/prose.py FILE ...      checks these
    scripts/prose.py --self-test   checks samples that must and must not be found

Three checks: doc comments in crates/ and fuzz/ begin with a verb or a noun phrase; comments, strings and pages use the field's
terms (TERMS); lines of Markdown have at most 100 characters, except tables, code, generated blocks and long links.
"""

import bisect
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
# This file has all terms as patterns and samples.
ITSELF = "scripts/prose.py"

# Terms that have no other meaning in this project: a word of the term, the pattern, and what to write. A space also
# matches the break between two lines of a comment.
TERMS = [
    ("stranger", r"strangers?", "off-path attacker, spoofed packet, unknown peer"),
    ("lost", r"(?:held|holds?|pass(?:es|ed)? for|taken for) lost", "declared lost"),
    ("again", r"(?:sent|sends?|sending) again", "retransmitted"),
    ("vain", r"in vain", "spurious"),
    ("under", r"(?:what|all that|that|data) (?:is|was|are) under way", "in flight, outstanding data"),
    ("today", r"(?:endpoints?|hosts?|schemes?|tcp|senders?|kernels?|timers?) of today", "modern"),
    ("today", r"today['’]s (?:tcp|endpoints?|hosts?|schemes?|senders?|kernels?|timers?|linux)", "modern"),
    ("way", r"the way (?:up|down)", "uplink, downlink"),
    ("hear", r"hears? of", "is signalled, notices"),
    ("overtaken", r"overtaken", "reordered"),
    ("ever", r"who(?:m)?ever", "operator, user, sender: name the person or program"),
    ("none", r"(?:who|that) wants? none", "to disable it"),
    ("waits", r"what waits", "the queue"),
    ("fade", r"hops? that fades?", "fading link"),
    ("box", r"box(?:es)? at (?:each|both|either|one) ends?", "device at each end"),
    ("stor", r"(?:the same|a) story|told anew", "replay"),
    ("what", r"has not what", "lacks"),
]

# Findings that are correct: (file, text), with the reason.
ALLOWED = {
    ("crates/lasthop-gateway/examples/strangers.rs", "strangers"): "the name of the example",
}

GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://[/!]?|#)[ \t]+)?)"
PATTERNS = [
    (key, re.compile(rf"(?<![\w-])(?:{term.replace(' ', GAP)})(?![\w-])"), instead) for key, term, instead in TERMS
]

# First words that make a doc comment a clause without a subject; `If` only in a sentence without a main clause.
CLAUSE = re.compile(
    r"(?:What|Whatever|Whether|How|When|Where|Which|Why|Who|Whose|Whom|Whoever|That|By so|So (?:many|much|few|far|long))\b"
    r"|(?:If|While|Until|Because|Since)\b[^,:]*?(?:\.(?= |$)|$)"
)
DOC = re.compile(r"[ \t]*//[/!](?!/)[ \t]?(.*)")

# Comments, string and character literals of Rust.
RUST = re.compile(
    r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\".*?\"\1|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\\n]|\\[^\n]{1,8}?)'", re.S
)


def main(arguments: list[str]) -> int:
    """Checks the files, and returns the exit status."""
    if arguments == ["--self-test"]:
        return self_test()
    count = 0
    for name in arguments or tracked():
        path = ROOT / name
        if name == ITSELF or not kind(name) or not path.is_file():
            continue
        for line, message in findings(name, path.read_text(encoding="utf-8")):
            print(f"{name}:{line}: {message}")
            count += 1
    if count:
        print(f"prose: {count} findings", file=sys.stderr)
    return 1 if count else 0


def tracked() -> list[str]:
    """Returns the names of all files with prose; of a source archive, all files in it."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        names = listed.splitlines()
    except (OSError, subprocess.CalledProcessError):
        found = (Path(folder) / name for folder, _, names in os.walk(ROOT) for name in names)
        names = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [name for name in names if kind(name) and not name.startswith(("target/", "out/"))]


def kind(name: str) -> str | None:
    """Returns the suffix that determines how a file is read, or nothing for a file without prose."""
    suffix = "sh" if name.endswith("Makefile") else name.rpartition(".")[2]
    return suffix if suffix in ("rs", "md", "py", "sh", "toml", "js", "html", "roff") else None


def findings(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yields line and message of each finding in a file."""
    suffix = kind(name)
    skipped = skipped_lines(text) if suffix == "md" else set()
    lower = text.lower()
    starts: list[int] = []
    is_prose: Callable[[int], bool] | None = None
    for key, pattern, instead in PATTERNS:
        for match in pattern.finditer(lower) if key in lower else ():
            # Few files have a match, and only these are tokenized.
            starts = starts or line_starts(text)
            is_prose = is_prose or PROSE.get(suffix or "", everywhere)(text)
            line = bisect.bisect_right(starts, match.start())
            found = " ".join(match[0].split())
            in_code = text.count("`", starts[line - 1], match.start()) % 2
            if not in_code and line not in skipped and (name, found) not in ALLOWED and is_prose(match.start()):
                yield line, f'"{found}": write {instead}'
    if suffix == "md":
        yield from long_lines(text, skipped)
    elif suffix == "rs" and name.startswith(("crates/", "fuzz/")):
        yield from clauses(text)


def clauses(text: str) -> Iterator[tuple[int, str]]:
    """Yields doc comments that begin with a clause instead of a verb or a noun phrase."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        doc = DOC.match(line) if "//" in line else None
        if doc and not inside and CLAUSE.match(doc[1]):
            yield number, f"doc comment begins with a clause, not with a verb or a noun: {doc[1]}"
        inside = doc is not None


def long_lines(text: str, skipped: set[int]) -> Iterator[tuple[int, str]]:
    """Yields lines that are too long, but can be wrapped."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) <= WIDTH or number in skipped or line.lstrip().startswith(("|", "![")):
            continue
        longest = max(map(len, line.split()))
        if longest <= WIDTH - len(line) + len(line.lstrip()) - 2:
            yield number, f"{len(line)} characters; wrap at {WIDTH}"


def skipped_lines(text: str) -> set[int]:
    """Returns the lines of Markdown that are code, comments or generated."""
    skipped: set[int] = set()
    end = None
    # An indented line after an empty one is code, except in a list.
    is_code = is_list = False
    previous = ""
    for number, line in enumerate(text.splitlines(), 1):
        if end is not None:
            skipped.add(number)
            if re.match(end, line):
                end = None
        elif fence := re.match(r"\s*(```|~~~)", line):
            skipped.add(number)
            end = rf"\s*{fence[1]}"
        elif "<!--" in line:
            skipped.add(number)
            if "written by" in line:
                end = ".*<!-- end -->"
            elif "-->" not in line:
                end = ".*-->"
        elif line.startswith("    ") and not is_list and (is_code or not previous.strip()):
            skipped.add(number)
            is_code = True
        elif line.strip():
            is_code = False
            is_list = bool(re.match(r"(?:[-*+]|\d+\.) ", line)) or is_list and line.startswith(" ")
        previous = line
    return skipped


def line_starts(text: str) -> list[int]:
    """Returns the position of the start of each line."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def everywhere(_text: str) -> Callable[[int], bool]:
    """Treats all of a text as prose."""
    return lambda _at: True


def within(spans: list[tuple[int, int]]) -> Callable[[int], bool]:
    """Returns a function that tells whether a position is within one of the sorted spans."""
    begins = [begin for begin, _ in spans]

    def is_within(at: int) -> bool:
        place = bisect.bisect_right(begins, at) - 1
        return place >= 0 and at < spans[place][1]

    return is_within


def rust(text: str) -> Callable[[int], bool]:
    """Treats comments, and strings of several words, as prose."""
    tokens = (match for match in RUST.finditer(text) if match[0][0] == "/" or " " in match[0])
    return within([match.span() for match in tokens])


def python(text: str) -> Callable[[int], bool]:
    """Treats comments, and strings of several words, as prose."""
    starts = line_starts(text)
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and " " in token.string
        if is_text or token.type == tokenize.COMMENT:
            spans.append((starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]))
    return within(spans)


def hashes(text: str) -> Callable[[int], bool]:
    """Treats comments that begin with `#` as prose."""
    return lambda at: "#" in text[text.rfind("\n", 0, at) + 1 : at]


PROSE = {"rs": rust, "py": python, "sh": hashes, "toml": hashes}

# Name, text, and the lines with findings.
SAMPLES = [
    ("crates/a.rs", "/// What it holds.\nstruct A;\n", [1]),
    ("crates/a.rs", "/// Returns a number.\n///\n/// # Errors\n///\n/// If it fails.\nfn a() {}\n", []),
    ("crates/a.rs", "/// If the kernel refuses.\n/// If it is lost, it is retransmitted.\n", [1]),
    ("crates/a.rs", "    /// If it is lost, the sender retransmits it.\n//! Whether it is.\n", []),
    ("crates/a.rs", "// What follows is a plain comment.\nlet what = 1;\n", []),
    ("crates/a.rs", "let stranger = 1; // a stranger's\nlet name = \"strangers\";\nlet s = \"of a stranger\";\n", [1, 3]),
    ("a.rs", "//! the\n//! way up\n// holds it\n// lost\n", [1]),
    ("crates/a.rs", "// passes for\n// lost\nlet c = '\"'; let held = lost;\n", [1]),
    ("crates/a.rs", "/// Counts `strangers`.\n", []),
    ("a.py", "stranger = 1\n# no stranger\nname = 'stranger'\n\"\"\"It is sent again.\"\"\"\n", [2, 4]),
    ("a.sh", "stranger=1 # whoever\n", [1]),
    ("a.md", "Whoever wants\n\n```\nstranger\n```\n\n    strangers\n", [1]),
    ("a.md", "a " * 60 + "\n| " + "a " * 60 + "\n[a](" + "a" * 120 + ")\n", [1]),
    ("a.md", "<!-- written by: a -->\n" + "a " * 60 + "\n<!-- end -->\n" + "a " * 60 + "\n", [4]),
    ("a.md", "<!-- " + "a " * 60 + "-->\n```sh\n" + "a " * 60 + "\n```\n- " + "a " * 60 + "\n", [5]),
]


def self_test() -> int:
    """Checks the samples."""
    failed = 0
    for name, text, expected in SAMPLES:
        lines = [line for line, _ in findings(name, text)]
        if lines != expected:
            print(f"{name}: findings in lines {lines}, expected {expected}:\n{text}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Writes the course (docs/course) as pages beside the page without a server: part of `make page`.

    scripts/course.py FOLDER    writes FOLDER/course, whose links open FOLDER/index.html and FOLDER/cure.html
    scripts/course.py --views   prints each link into the page as JSON

A lab is a Markdown file and a TOML file of the same name: the text, and its links into the page (`views`) and questions with
the intervals of right answers. A test of lasthop-answers computes these numbers anew and writes docs/course/solutions.

The Markdown is a subset, so that no library is needed; anything else is an error with file and line:

* headings of one to three `#`, paragraphs, fenced code, tables with a header, lists of one level (`-`, `*` or `1.`), whose items
  may continue on indented lines, comments of one line;
* `code`, **bold**, *emphasis*, images, and links. The target of a link is a file of the course, an address, or `view:NAME`.

A section under `### Question L.N` ends with the form for the answer; `- a) ...` lists the choices. Sections are not nested.
"""

import html
import json
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "docs/course"
WEB = ROOT / "crates/lasthop-page/web"
PAGES = ROOT / "crates/lasthop-serve/web"

# These pages only load files of the folder; they request nothing.
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"

BLOCK = re.compile(r"#|```|[-*+] |\d+\. |\||<|>|    |\t")
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|!\[(?P<alt>[^\]]*)\]\((?P<image>[^)\s]+)\)|\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)"
    r"|\*\*(?P<bold>[^*]+)\*\*|\*(?P<emphasis>[^*]+)\*"
)
QUESTION = re.compile(r"Question (?P<number>\d+\.\d+)")
CHOICE = re.compile(r"(?P<letter>[a-z])\) (?P<text>.*)")


class Failed(Exception):
    """A file of the course that does not have the expected form."""


@dataclass
class Lab:
    """Links and questions of a lab."""

    name: str
    title: str
    minutes: int
    views: dict[str, dict]
    questions: dict[str, dict]
    asked: list[str] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)

    @property
    def number(self) -> int:
        return int(self.name[:2])


def read_labs() -> list[Lab]:
    """Returns the labs in order."""
    labs = []
    for path in sorted(COURSE.glob("[0-9][0-9]-*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        number = int(path.stem[:2])
        questions = {f"{number}.{at}": question for at, question in enumerate(table["questions"], 1)}
        labs.append(Lab(path.stem, table["title"], table["minutes"], table["views"], questions))
    if not labs:
        raise Failed(f"{COURSE}: contains no lab (NN-name.toml)")
    return labs


def address(view: dict) -> str:
    """Returns the link of a view, relative to the page's folder."""
    words = [(key, text) for key, value in view["link"].items() for text in (value if isinstance(value, list) else [value])]
    page = "cure.html" if view.get("page") == "cure" else "index.html"
    return f"{page}#" + "&".join(f"{key}={quote_plus(str(text), safe=',')}" for key, text in words)


class Page:
    """A Markdown file as HTML."""

    def __init__(self, path: Path, lab: Lab | None):
        self.path = path
        self.lab = lab
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.at = 0
        self.title = ""
        # The last heading, which names a table, and the number of tables.
        self.below = ""
        self.tables = 0
        self.out: list[str] = []
        # Number of the question whose section is open, and the choices that it lists.
        self.question: str | None = None
        self.choices: list[tuple[str, str]] = []

    def fail(self, message: str) -> Failed:
        return Failed(f"{self.path.relative_to(ROOT)}:{min(self.at + 1, len(self.lines))}: {message}")

    def render(self) -> str:
        """Returns the contents of the page's `main`."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif heading := re.fullmatch(r"(#{1,3}) (.+)", line):
                self.heading(len(heading[1]), heading[2])
                self.at += 1
            elif line.startswith("```"):
                self.code()
            elif line.startswith("|"):
                self.table()
            elif re.match(r"[-*] |\d+\. ", line):
                self.list()
            elif re.fullmatch(r"<!-- .* -->", line):
                self.at += 1
            elif BLOCK.match(line):
                raise self.fail(f"expected a heading, paragraph, list, table or fenced code, found: {line[:40]}")
            else:
                self.out.append(f"<p>{self.inline(self.paragraph())}</p>\n")
        self.end_question()
        if not self.title:
            raise self.fail("expected a title, `# TITLE`")
        return "".join(self.out)

    def heading(self, level: int, text: str) -> None:
        self.end_question()
        self.below = text
        if level == 1:
            if self.title:
                raise self.fail("a second title")
            self.title = text
        found = QUESTION.fullmatch(text) if level == 3 else None
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        if found and self.lab and self.path.parent == COURSE:
            number = found["number"]
            if number not in self.lab.questions:
                raise self.fail(f"question {number} is not in {self.lab.name}.toml")
            self.question = number
            self.lab.asked.append(number)
            self.out.append(f'<section class="question" aria-labelledby="{name}">\n')
        self.out.append(f'<h{level} id="{name}">{self.inline(text)}</h{level}>\n')

    def end_question(self) -> None:
        """Writes the form for the answer, and ends the section."""
        if self.question is None:
            return
        number, question = self.question, self.lab.questions[self.question]
        self.out.append(form(number, question, self.choices))
        letters = [letter for letter, _ in self.choices]
        if question["kind"] == "choice" and question["answer"] not in letters:
            raise self.fail(f"question {number} has no choice {question['answer']}); it lists {', '.join(letters)}")
        self.out.append("</section>\n")
        self.question, self.choices = None, []

    def paragraph(self) -> str:
        begun = self.at
        while self.at < len(self.lines) and self.lines[self.at].strip():
            if self.at > begun and BLOCK.match(self.lines[self.at]):
                break
            self.at += 1
        return " ".join(line.strip() for line in self.lines[begun : self.at])

    def code(self) -> None:
        end = next((at for at in range(self.at + 1, len(self.lines)) if self.lines[at] == "```"), None)
        if end is None:
            raise self.fail("code without an end, ```")
        text = html.escape("\n".join(self.lines[self.at + 1 : end]), quote=False)
        self.out.append(f'<pre tabindex="0"><code>{text}</code></pre>\n')
        self.at = end + 1

    def table(self) -> None:
        rows = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("|"):
            rows.append([cell.strip() for cell in self.lines[self.at].strip().strip("|").split("|")])
            self.at += 1
        if len(rows) < 3 or not all(re.fullmatch(r":?-+:?", cell) for cell in rows[1]):
            raise self.fail("expected a table with a header, a line of dashes, and rows")
        head = "".join(f'<th scope="col">{self.inline(cell)}</th>' for cell in rows[0])
        body = ""
        for first, *rest in rows[2:]:
            body += f'<tr><th scope="row">{self.inline(first)}</th>'
            body += "".join(f"<td>{self.inline(cell)}</td>" for cell in rest) + "</tr>\n"
        self.tables += 1
        label = html.escape(f"Table {self.tables}: {self.below}")
        self.out.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>\n"
        )

    def list(self) -> None:
        """Writes a list; of a question with choices, keeps the choices for the form."""
        ordered = self.lines[self.at][0].isdigit()
        items: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].strip():
            line = self.lines[self.at]
            if item := re.fullmatch(r"(?:[-*] |\d+\. )(.*)", line):
                items.append(item[1])
            elif line.startswith("  "):
                items[-1] += f" {line.strip()}"
            else:
                raise self.fail("expected an item, an indented line or an empty line in a list")
            self.at += 1
        choices = [CHOICE.fullmatch(item) for item in items]
        if self.question and self.lab.questions[self.question]["kind"] == "choice" and all(choices):
            self.choices = [(choice["letter"], self.inline(choice["text"])) for choice in choices]
            return
        tag = "ol" if ordered else "ul"
        self.out.append(f"<{tag}>\n" + "".join(f"<li>{self.inline(item)}</li>\n" for item in items) + f"</{tag}>\n")

    def inline(self, text: str) -> str:
        """Returns the HTML of a line's code, emphasis, links and images."""
        out, at = [], 0
        for found in INLINE.finditer(text):
            out.append(html.escape(text[at : found.start()], quote=False))
            at = found.end()
            if found["code"]:
                out.append(f"<code>{html.escape(found['code'], quote=False)}</code>")
            elif found["image"]:
                out.append(f'<img src="{self.target(found["image"])}" alt="{html.escape(found["alt"])}">')
            elif found["target"]:
                out.append(self.link(self.inline(found["text"]), found["target"]))
            elif found["bold"]:
                out.append(f"<strong>{self.inline(found['bold'])}</strong>")
            else:
                out.append(f"<em>{self.inline(found['emphasis'])}</em>")
        out.append(html.escape(text[at:], quote=False))
        return "".join(out)

    def link(self, text: str, target: str) -> str:
        if target.startswith("view:"):
            name = target.removeprefix("view:")
            if not self.lab or name not in self.lab.views:
                raise self.fail(f"there is no view {name}; expected one of {', '.join(self.lab.views) if self.lab else 'none'}")
            self.lab.opened.add(name)
            # The same tab for all of a course: the lab stays open beside it.
            return f'<a class="view" href="../{html.escape(address(self.lab.views[name]))}" target="lasthop" data-view="{name}">{text}</a>'
        # A browser would show a file of a measurement instead of saving it.
        download = " download" if target.startswith("data/") else ""
        return f'<a href="{self.target(target)}"{download}>{text}</a>'

    def target(self, target: str) -> str:
        """Returns the address of a file of the course, or of another site."""
        if target.startswith("https://"):
            return html.escape(target)
        name, _, part = target.partition("#")
        path = (self.path.parent / name).resolve() if name else self.path
        if not path.is_relative_to(COURSE) or not path.is_file():
            raise self.fail(f"link to {target}: expected a file of {COURSE.relative_to(ROOT)}, or an address with https")
        if name.endswith(".md"):
            name = re.sub(r"README\.md$", "index.md", name).removesuffix(".md") + ".html"
        return html.escape(name + (f"#{part}" if part else ""))


def form(number: str, question: dict, choices: list[tuple[str, str]]) -> str:
    """Returns the form for the answer to a question."""
    name = number.replace(".", "-")
    hint = html.escape(question["hint"])
    if question["kind"] == "choice":
        fields = f'<fieldset><legend>Your answer to {number}</legend>\n' + "".join(
            f'<label><input type="radio" name="answer" value="{letter}"> {letter}) {text}</label>\n' for letter, text in choices
        ) + "</fieldset>\n"
        judged = f'data-right="{question["answer"]}"'
    else:
        unit = html.escape(question["unit"])
        # Factors and counts are no units.
        wanted = {"times": ", as a factor", "timeouts": "", "segments": "", "frames": ""}.get(unit, f", in {unit}")
        fields = (
            f'<label for="answer-{name}">Your answer to {number}{wanted}</label>\n'
            f'<input id="answer-{name}" type="text" inputmode="decimal" autocomplete="off" spellcheck="false" aria-describedby="verdict-{name}">\n'
        )
        right, near = (" ".join(map(str, question[key])) for key in ("right", "near"))
        judged = f'data-right="{right}" data-near="{near}" data-unit="{unit}"'
    return (
        f'<form class="answer" data-question="{number}" data-kind="{question["kind"]}" {judged} data-hint="{hint}">\n{fields}'
        f'<button>Check<span class="hidden"> answer {number}</span></button>\n'
        f'<p class="verdict" id="verdict-{name}" role="status"></p>\n</form>\n'
    )


def document(page: Page, body: str, labs: list[Lab]) -> str:
    """Returns a whole page."""
    up = "../" * len(page.path.relative_to(COURSE).parts)
    here = up.removeprefix("../")
    lab = page.lab if page.path.parent == COURSE else None
    score = '<p class="score" id="score" role="status"></p>\n' if lab else ""
    near = ""
    if lab:
        at = labs.index(lab)
        places = [("Previous", at - 1), ("Next", at + 1)]
        steps = [f'<a href="{labs[to].name}.html">{word}: {html.escape(labs[to].title)}</a>' for word, to in places if 0 <= to < len(labs)]
        near = f'<nav class="steps" aria-label="Labs">{" ".join(steps)}</nav>\n'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(page.title)} – lasthop</title>
<link rel="icon" href="{up}icon.svg">
<link rel="stylesheet" href="{up}style.css">
<link rel="stylesheet" href="{here}course.css">
<script src="{here}course.js" defer></script>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header>
<p class="brand"><img src="{up}icon.svg" alt="" width="26" height="26"> lasthop</p>
<nav class="ways" aria-label="Ways through lasthop"><a href="{here}index.html">All labs</a> <a href="{up}index.html">Scenarios and sliders</a> <a href="{up}cure.html">Your own link</a></nav>
</header>
<main class="course" id="text" tabindex="-1">
{score}{body}{near}</main>
<footer>Everything is computed on this machine; no data leaves it.</footer>
</body>
</html>
"""


def write_course(folder: Path) -> list[str]:
    """Writes the pages of the course, and returns their names."""
    labs = read_labs()
    by_name = {lab.name: lab for lab in labs}
    names = []
    paths = sorted([*COURSE.glob("*.md"), *COURSE.glob("solutions/*.md")])
    for path in paths:
        page = Page(path, by_name.get(path.stem))
        body = page.render()
        name = path.relative_to(COURSE).with_suffix(".html").as_posix()
        name = "index.html" if name == "README.html" else name
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(document(page, body, labs), encoding="utf-8")
        names.append(name)
    for lab in labs:
        if lab.asked != list(lab.questions):
            raise Failed(f"docs/course/{lab.name}.md: asks {', '.join(lab.asked)}; {lab.name}.toml has {', '.join(lab.questions)}")
        if unused := set(lab.views) - lab.opened:
            raise Failed(f"docs/course/{lab.name}.md: no link opens {', '.join(sorted(unused))}")
    for name in ("course.css", "course.js"):
        shutil.copyfile(WEB / name, folder / name)
    for part in ("img", "data"):
        for path in sorted((COURSE / part).glob("[a-z]*")):
            (folder / part).mkdir(exist_ok=True)
            shutil.copyfile(path, folder / part / path.name)
    return names


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: scripts/course.py FOLDER | --views", file=sys.stderr)
        return 2
    try:
        if sys.argv[1] == "--views":
            views = [{"lab": lab.name, "view": name, "link": address(view)} for lab in read_labs() for name, view in lab.views.items()]
            print(json.dumps(views, indent=1))
            return 0
        folder = Path(sys.argv[1])
        (folder / "course").mkdir(parents=True, exist_ok=True)
        for name in ("style.css", "icon.svg"):
            shutil.copyfile(PAGES / name, folder / name)
        write_course(folder / "course")
    except (Failed, OSError, KeyError, tomllib.TOMLDecodeError) as error:
        print(f"course: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

//! Checks that README and docs/ show the current output of the program.
//!
//! `LASTHOP_WRITE_DOCUMENTS=1 cargo test -p lasthop --test all documents` updates them. Marks in the Markdown:
//!
//! | mark | what follows |
//! |---|---|
//! | `<!-- file: NAME -->` | a block that is put into a file of that name |
//! | `<!-- checked -->` | a block of commands, each after `$ `, with their output; a line `...` stands for any lines |
//! | `<!-- written by: COMMAND -->` | the output of the command, up to `<!-- end -->`; `$ROOT` is the repository |
#![cfg(target_os = "linux")]

use crate::network;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Bench;

const WRITE: &str = "LASTHOP_WRITE_DOCUMENTS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns all Markdown pages.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/models", "docs/course", "docs/course/data", "docs/course/solutions"]
        .map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// Returns the output of a shell command in the folder, with the built `lasthop` in its path.
fn shell(bench: &Bench, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_lasthop")).parent().unwrap();
    let path =
        std::env::join_paths([program.into(), PathBuf::from("/usr/local/bin"), "/usr/bin".into(), "/bin".into()]);
    let mut shell = Command::new("sh");
    shell.args(["-euc", command]).current_dir(bench.path()).env("PATH", path.unwrap()).env("ROOT", root());
    let output = shell.env("COLUMNS", "120").output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether the lines match `shown`, where `...` matches any lines.
fn is_shown(shown: &[&str], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| is_shown(rest, &lines[skipped..])),
        Some((first, rest)) => lines.split_first().is_some_and(|(line, more)| line == first && is_shown(rest, more)),
    }
}

/// Returns the block after a mark: its lines without the fences, and their number with them.
fn block<'t>(lines: &[&'t str]) -> (Vec<&'t str>, usize) {
    assert!(lines[0].starts_with("```"), "no block behind a mark: {}", lines[0]);
    let inside: Vec<&str> = lines[1..].iter().copied().take_while(|line| *line != "```").collect();
    let taken = inside.len() + 2;
    (inside, taken)
}

/// Returns the commands of a block, each with the output shown.
fn commands(inside: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let mut goes_on = false;
    for line in inside {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((command, _))) if goes_on => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some((_, shown))) => shown.push((*line).to_owned()),
            (None, None) => panic!("a block does not begin with a command: {line}"),
        }
        goes_on = line.ends_with('\\') && commands.last().is_some_and(|(_, shown)| shown.is_empty());
    }
    commands
}

/// Returns the document as it should be, after running its commands.
fn as_it_should_be(name: &str, text: &str) -> String {
    let bench = Bench::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        out.push(line.to_owned());
        at += 1;
        let mark = line.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->")).unwrap_or_default();
        if let Some(file) = mark.strip_prefix("file: ") {
            let (inside, taken) = block(&lines[at..]);
            bench.put(file, &(inside.join("\n") + "\n"));
            out.extend(lines[at..at + taken].iter().map(|line| (*line).to_owned()));
            at += taken;
        } else if mark == "checked" {
            let (inside, taken) = block(&lines[at..]);
            out.push(lines[at].to_owned());
            for (command, shown) in commands(&inside) {
                let printed = shell(&bench, &command);
                let printed: Vec<&str> = printed.lines().collect();
                let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
                out.extend(format!("$ {command}").lines().map(str::to_owned));
                let fits = is_shown(&shown, &printed);
                assert!(fits || !shown.contains(&"..."), "{name}: {command}: prints something else; mend it by hand");
                out.extend((if fits { shown } else { printed }).iter().map(|line| (*line).to_owned()));
            }
            out.push("```".to_owned());
            at += taken;
        } else if let Some(command) = mark.strip_prefix("written by: ") {
            out.extend(shell(&bench, command).trim_end().lines().map(str::to_owned));
            let end = lines[at..].iter().position(|line| *line == "<!-- end -->");
            at += end.unwrap_or_else(|| panic!("{name}: no end of what is written by {command}"));
        }
    }
    out.join("\n") + "\n"
}

fn judge(path: &Path, wanted: &str) {
    if std::env::var_os(WRITE).is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let differs = text.lines().zip(wanted.lines()).position(|(is, should)| is != should);
    let place = differs.unwrap_or_else(|| text.lines().count().min(wanted.lines().count()));
    assert!(
        text == wanted,
        "{}:{}: the program says otherwise now; {WRITE}=1 cargo test -p lasthop --test all documents writes it anew\n\
         is:     {}\nshould: {}",
        path.display(),
        place + 1,
        text.lines().nth(place).unwrap_or_default(),
        wanted.lines().nth(place).unwrap_or_default()
    );
}

/// Returns whether Python, which makes tables and pictures of the output, is missing.
fn is_without_python() -> bool {
    let is_without = Command::new("python3").arg("--version").output().is_err();
    if is_without {
        network::skip("what README and docs show: it takes python3");
    }
    is_without
}

fn judge_document(name: &str) {
    if is_without_python() {
        return;
    }
    let path = root().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("<!-- checked -->") || text.contains("<!-- written by: "), "{name}: nothing is checked");
    judge(&path, &as_it_should_be(name, &text));
}

#[test]
fn the_readme_shows_what_the_program_says() {
    judge_document("README.md");
}

#[test]
fn the_example_shows_what_the_program_says() {
    judge_document("docs/example.md");
}

#[test]
fn the_results_are_those_of_now() {
    judge_document("docs/results.md");
}

#[test]
fn the_second_study_is_as_it_was_measured() {
    judge_document("docs/multiple-layers.md");
}

/// Its Rust code is compiled by the tests of `lasthop-proto`.
#[test]
fn the_page_on_adding_shows_what_is_compiled() {
    judge_document("docs/models/adding.md");
}

#[test]
fn the_page_of_radios_shows_what_the_program_says() {
    judge_document("docs/radios.md");
}

#[test]
fn the_tables_of_keys_show_what_is_declared() {
    for page in ["docs/scenarios.md", "docs/gateway.md", "docs/tunnel.md"] {
        judge_document(page);
    }
}

/// A block of Rust that is not compiled goes out of date silently.
#[test]
fn blocks_of_rust_come_from_files() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == "```rust") {
            let written = at > 0 && lines[at - 1].starts_with("<!-- written by: ");
            assert!(written, "{}:{}: give the code a file, and a mark `written by`", page.display(), at + 1);
        }
    }
}

#[test]
fn the_moving_picture_is_drawn_from_what_happens_now() {
    if is_without_python() {
        return;
    }
    let drawn = shell(&Bench::new(), "python3 \"$ROOT/scripts/animate.py\" lasthop");
    assert!(drawn.contains("animate") && drawn.contains("repaired here"));
    judge(&root().join("docs/img/repair.svg"), &drawn);
}

#[test]
fn the_picture_of_the_cures_is_drawn_from_what_they_do_now() {
    if is_without_python() {
        return;
    }
    let drawn = shell(&Bench::new(), "python3 \"$ROOT/scripts/ways.py\" lasthop");
    judge(&root().join("docs/img/ways.svg"), &drawn);
}

#[test]
fn the_plot_of_the_results_is_that_of_now() {
    let schemes = "LL-TCP-AWARE,LL,E2E";
    let drawn =
        shell(&Bench::new(), &format!("lasthop plot wavelan-wan --schemes {schemes} >&2; cat out/sequence.svg"));
    judge(&root().join("docs/img/wan-transfer.svg"), &drawn);
}

/// The teacher's page of the course has the command of each figure, which ends by naming the file.
#[test]
fn the_figures_of_the_course_are_drawn_from_what_happens_now() {
    let text = fs::read_to_string(root().join("docs/course/teacher.md")).unwrap();
    let mut figures = 0;
    for block in text.split("```text\n").skip(1) {
        let command = block.split("\n```").next().unwrap_or_default();
        let Some((_, name)) = command.rsplit_once(".svg ") else { continue };
        let bench = Bench::new();
        shell(&bench, command);
        judge(&root().join("docs/course/img").join(name), &fs::read_to_string(bench.path().join(name)).unwrap());
        figures += 1;
    }
    assert!(figures > 5, "{figures}");
}

/// Links between pages have existing targets.
#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
            // A link of the course into the page, which scripts/course.py checks.
            if target.is_empty() || target.contains("://") || target.starts_with("view:") {
                continue;
            }
            links += 1;
            assert!(page.parent().unwrap().join(target).exists(), "{}: nothing is at {target}", page.display());
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn an_ellipsis_stands_for_any_lines() {
    assert!(is_shown(&["a", "...", "d"], &["a", "b", "c", "d"]) && is_shown(&["a", "..."], &["a"]));
    assert!(!is_shown(&["a", "...", "d"], &["a", "b"]) && !is_shown(&["a"], &["a", "b"]) && !is_shown(&["a"], &[]));
    let block = ["$ lasthop sweep \\", "      --out a.csv", "15 points", "$ lasthop schemes"];
    let parsed = commands(&block);
    assert_eq!(parsed[0], ("lasthop sweep \\\n      --out a.csv".to_owned(), vec!["15 points".to_owned()]));
    assert_eq!(parsed[1], ("lasthop schemes".to_owned(), vec![]));
}

//! Solutions as Markdown.

use std::fmt::Write;

use super::lab::{Kind, Lab, Question};
use super::numerals;
use super::values::Values;

/// Columns of a line.
const WIDTH: usize = 100;

/// Returns the solutions of a lab, as their file should be.
pub fn text(lab: &Lab, values: &Values) -> String {
    let known = values.settings(lab);
    let mut out = format!("# Solutions: {}. {}\n\n", lab.number, lab.title);
    out.push_str("<!-- Written from the lab's TOML file: LASTHOP_WRITE_DOCUMENTS=1 cargo test -p lasthop-answers --test all -->\n");
    for question in &lab.questions {
        numerals::check(
            &format!("{}: solution of {}", lab.name, question.number),
            &without_braces(&question.solution),
            &known,
        );
        let _ = write!(out, "\n## Question {}\n\n{}\n\n", question.number, answer(lab, values, question));
        out.push_str(&wrapped(&filled(lab, values, &question.solution)));
    }
    numerals::check(&format!("{}: discussion", lab.name), &without_braces(&lab.discussion), &known);
    let _ = write!(out, "\n## For discussion\n\n{}", wrapped(&filled(lab, values, &lab.discussion)));
    out
}

/// Returns the line with the answer.
fn answer(lab: &Lab, values: &Values, question: &Question) -> String {
    match &question.kind {
        Kind::Number { unit, answer, digits, right, .. } => {
            let value = values.number(lab, answer);
            let [low, high] = right;
            let others = if low < high { format!(" ({low} to {high} count as right)") } else { String::new() };
            format!("**{value:.digits$} {unit}**{others}.")
        }
        Kind::Choice { answer, .. } => format!("**{answer})**"),
    }
}

/// Replaces `{value}` and `{value:DECIMALS}` by numbers.
fn filled(lab: &Lab, values: &Values, text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once('}').unwrap_or_else(|| panic!("{}: {{{part}: expected }}", lab.name));
        let (name, digits) = inside.split_once(':').unwrap_or((inside, "0"));
        let digits: usize = digits.parse().unwrap_or_else(|_| panic!("{}: {{{inside}}}: expected decimals", lab.name));
        let _ = write!(out, "{:.digits$}{rest}", values.number(lab, name));
    }
    out
}

fn without_braces(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + " " + part.split_once('}').map_or("", |(_, rest)| rest))
}

/// Wraps paragraphs, which are separated by empty lines; lines of tables and lists stay.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for (at, paragraph) in text.trim().split("\n\n").enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if paragraph.starts_with(['|', '-']) {
            out.push_str(paragraph);
            out.push('\n');
            continue;
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                let _ = writeln!(out, "{line}");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

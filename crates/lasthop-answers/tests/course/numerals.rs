//! Numbers in a text: each must have a known origin.

use std::collections::BTreeSet;

/// Returns the numbers of a text that stand alone: not part of a name such as `E2E-BBR3`, of a reference such as
/// `RFC 5681` or `Question 1.2`, of code, of a link's target or of a heading's number.
pub fn numerals(text: &str) -> Vec<String> {
    let text = without_code(text);
    let mut found = Vec::new();
    let mut previous = "";
    for word in text.split(|c: char| c.is_whitespace() || "()[]/–:;*|\"".contains(c)) {
        let reference = ["RFC", "Question", "question", "Lab", "labs", "Step"].contains(&previous);
        let bare = word.trim_end_matches(['.', ',', '%', '?', '!']);
        if !reference && bare.starts_with(|c: char| c.is_ascii_digit()) {
            let plain = bare.replace(',', "");
            if plain.parse::<f64>().is_ok() {
                found.push(plain);
            }
        }
        if !word.is_empty() {
            previous = word;
        }
    }
    found
}

/// Removes fenced code, inline code, and targets of links.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        // Marks of lists and of tables, and comments.
        if fenced || line.starts_with("<!--") {
            continue;
        }
        let line = line.trim_start_matches(['#', ' ']);
        let line = match line.split_once(". ") {
            Some((mark, rest)) if mark.parse::<u32>().is_ok() => rest,
            _ => line,
        };
        let spoken = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let mut parts = spoken.split("](");
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            out.push(' ');
            out.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
        }
        out.push('\n');
    }
    out
}

/// Asserts that each number in `text` is one of `known`.
pub fn check(place: &str, text: &str, known: &BTreeSet<String>) {
    let unknown: Vec<String> = numerals(text).into_iter().filter(|number| !known.contains(number)).collect();
    assert!(
        unknown.is_empty(),
        "{place}: {unknown:?} are neither settings of the lab's links nor in its table `given`; in solutions, name a value in braces"
    );
}

#[test]
fn numbers_are_found_where_they_are_claims() {
    let text = "1. With `7` packets\n\nE2E-BBR3 has 14.4 Mbps (10 %), RFC 5681 and [2 of 3](x9.md#4): 1,000!\n";
    assert_eq!(numerals(text), ["14.4", "10", "2", "3", "1000"]);
}

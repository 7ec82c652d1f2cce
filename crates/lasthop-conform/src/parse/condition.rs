//! Conditional parts of scripts: `#ifdef NAME`, `#ifndef NAME`, `#else`, `#endif`.

use std::borrow::Cow;

use super::ParseError;

/// Names that count as defined: scripts with parts for several systems have the behaviour of the standards under these.
const DEFINED: [&str; 2] = ["STANDARD", "LINUX"];

/// Blanks the parts that do not apply, so that lines keep their numbers.
pub(super) fn select(text: &str) -> Result<Cow<'_, str>, ParseError> {
    let is_conditional =
        |line: &str| line.starts_with("#if") || line.starts_with("#else") || line.starts_with("#endif");
    if !text.lines().any(is_conditional) {
        return Ok(Cow::Borrowed(text));
    }
    let mut selected = String::with_capacity(text.len());
    // For each open condition: its line, and whether its part applies.
    let mut open: Vec<(u32, bool)> = Vec::new();
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let mut words = line.split_whitespace();
        let error = |message: &str| ParseError { line: number, message: message.to_owned() };
        match words.next() {
            Some(word @ ("#ifdef" | "#ifndef")) => {
                let name = words.next().ok_or_else(|| error("#ifdef has no name; add one such as STANDARD"))?;
                open.push((number, DEFINED.contains(&name) == (word == "#ifdef")));
            }
            Some("#else") => match open.last_mut() {
                Some((_, applies)) => *applies = !*applies,
                None => return Err(error("#else without #ifdef; remove it")),
            },
            Some("#endif") => {
                open.pop().ok_or_else(|| error("#endif without #ifdef; remove it"))?;
            }
            _ if open.iter().all(|(_, applies)| *applies) => {
                selected.push_str(line);
                continue;
            }
            _ => {}
        }
        selected.push('\n');
    }
    match open.last() {
        Some((line, _)) => Err(ParseError { line: *line, message: "#ifdef has no #endif; add it".to_owned() }),
        None => Ok(Cow::Owned(selected)),
    }
}

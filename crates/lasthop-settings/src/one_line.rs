//! Untrusted text as one line that is safe for a terminal.

use std::fmt::Write as _;

/// Returns `text` on one line, without terminal control: control characters, line ends of all kinds and bidirectional
/// formatting characters are written as in a TOML string (`\n`, `\u001B`).
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if steers(c) => {
                let _ = write!(line, "\\u{:04X}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line
}

/// Returns whether a character has an effect other than its display.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_is_written_out() {
        assert_eq!(
            one_line("a\nb\r\tc\u{1b}[2J\u{85}\u{2028}\u{202e}ü€"),
            "a\\nb\\r\\tc\\u001B[2J\\u0085\\u2028\\u202Eü€"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_and_plain_text_stays(text in any::<String>()) {
            let line = one_line(&text);
            prop_assert!(!line.chars().any(steers) && line.lines().count() <= 1);
            prop_assert_eq!(one_line(&line), line.clone());
            if !text.chars().any(steers) {
                prop_assert_eq!(line, text);
            }
        }
    }
}

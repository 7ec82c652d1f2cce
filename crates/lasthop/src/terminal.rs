//! Properties of the output: width and colours. Output that is not to a terminal does not depend on them.

use std::io::{IsTerminal, stderr, stdout};

/// Returns the number of columns of the terminal on standard output; `None` if it is not a terminal.
pub fn width() -> Option<usize> {
    stdout().is_terminal().then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0))
}

/// Emphasis of a text on terminals with colours.
#[derive(Clone, Copy)]
pub enum Style {
    Heading,
    Remark,
    Error,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Remark => "2",
            Self::Error => "1;31",
        }
    }

    /// Formats `text` for standard output.
    pub fn out(self, text: &str) -> String {
        self.paint(text, stdout().is_terminal())
    }

    /// Formats `text` for standard error.
    pub fn err(self, text: &str) -> String {
        self.paint(text, stderr().is_terminal())
    }

    fn paint(self, text: &str, terminal: bool) -> String {
        let wanted = |name: &str, given: &dyn Fn(&str) -> bool| std::env::var(name).is_ok_and(|value| given(&value));
        // https://no-color.org, and terminals without capabilities.
        if terminal && !wanted("NO_COLOR", &|value| !value.is_empty()) && !wanted("TERM", &|value| value == "dumb") {
            format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// Breaks long lines between words for a terminal of `width` columns. Continuation lines are indented by two more
/// columns. Longer words stay whole.
pub fn fold(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let lines: Vec<String> = text.split('\n').map(|line| fold_line(line, width)).collect();
    lines.join("\n")
}

fn fold_line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let start = line.len() - line.trim_start().len();
    // On a narrow terminal most columns must remain for words.
    let indent = start.min(width / 4);
    let (mut text, mut column) = (" ".repeat(indent), indent);
    let mut rest = &line[start..];
    while !rest.is_empty() {
        let word = rest.trim_start();
        let gap = rest.len() - word.len();
        let (word, behind) = word.split_at(word.find(' ').unwrap_or(word.len()));
        let len = word.chars().count();
        if column > indent && column + gap + len > width {
            text += &format!("\n{}", " ".repeat(indent + 2));
            column = indent + 2;
        } else {
            text += &" ".repeat(gap);
            column += gap;
        }
        text += word;
        column += len;
        rest = behind;
    }
    text
}

/// Formats an entry of a list: names, the first padded to `first` columns, and a description, below the names on a
/// narrow terminal.
pub fn list_entry(names: &[&str], first: usize, what: &str, width: Option<usize>) -> String {
    let heads: Vec<String> = match names {
        [name, more @ ..] => {
            std::iter::once(format!("{name:<first$}")).chain(more.iter().map(|name| format!("{name:<17}"))).collect()
        }
        [] => Vec::new(),
    };
    let line = format!("{} {what}", heads.join(" "));
    match width {
        Some(width) if line.chars().count() > width => {
            format!("{}\n{}", names.join("  "), fold(&format!("  {what}"), Some(width)))
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_between_words() {
        let text = "one two three\n    four five six\nseven";
        for width in [None, Some(17)] {
            assert_eq!(fold(text, width), text);
        }
        assert_eq!(fold(text, Some(12)), "one two\n  three\n   four five\n     six\nseven");
        assert_eq!(fold("ok    fits not", Some(12)), "ok    fits\n  not");
        assert_eq!(fold("a https://example.net/long b", Some(8)), "a\n  https://example.net/long\n  b");
    }

    #[test]
    fn an_entry_is_one_line_or_two() {
        let line = "LL                   link-layer        local retransmission";
        for width in [None, Some(59)] {
            assert_eq!(list_entry(&["LL", "link-layer"], 20, "local retransmission", width), line);
        }
        let three = "LL  link-layer\n  local\n    retransmission";
        assert_eq!(list_entry(&["LL", "link-layer"], 20, "local retransmission", Some(18)), three);
        let two = "LL  link-layer\n  local retransmission";
        assert_eq!(list_entry(&["LL", "link-layer"], 20, "local retransmission", Some(58)), two);
    }
}

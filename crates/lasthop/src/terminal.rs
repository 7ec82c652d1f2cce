//! What depends on where output goes: how wide it may be, and whether it has colours. Off a terminal it is always the same.

use std::io::{IsTerminal, stderr, stdout};

/// Columns of the terminal that standard output is; `None` when it is none.
pub fn width() -> Option<usize> {
    stdout().is_terminal().then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0))
}

/// How a text is set off where there are colours.
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

    /// `text` as it goes to standard output.
    pub fn out(self, text: &str) -> String {
        self.paint(text, stdout().is_terminal())
    }

    /// `text` as it goes to standard error.
    pub fn err(self, text: &str) -> String {
        self.paint(text, stderr().is_terminal())
    }

    fn paint(self, text: &str, terminal: bool) -> String {
        let wanted = |name: &str, given: &dyn Fn(&str) -> bool| std::env::var(name).is_ok_and(|value| given(&value));
        // https://no-color.org, and terminals that can do nothing.
        if terminal && !wanted("NO_COLOR", &|value| !value.is_empty()) && !wanted("TERM", &|value| value == "dumb") {
            format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// An entry of a list: its names, of which the first has `first` columns, and what it is; this below them where the terminal is narrow.
pub fn list_entry(names: &[&str], first: usize, what: &str, width: Option<usize>) -> String {
    let heads: Vec<String> = match names {
        [name, more @ ..] => {
            std::iter::once(format!("{name:<first$}")).chain(more.iter().map(|name| format!("{name:<17}"))).collect()
        }
        [] => Vec::new(),
    };
    let line = format!("{} {what}", heads.join(" "));
    match width {
        Some(width) if line.chars().count() > width => format!("{}\n  {what}", names.join("  ")),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_or_two() {
        let line = "LL                   link-layer        local retransmission";
        for width in [None, Some(59)] {
            assert_eq!(list_entry(&["LL", "link-layer"], 20, "local retransmission", width), line);
        }
        let two = "LL  link-layer\n  local retransmission";
        assert_eq!(list_entry(&["LL", "link-layer"], 20, "local retransmission", Some(58)), two);
    }
}

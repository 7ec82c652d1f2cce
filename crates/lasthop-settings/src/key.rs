//! Declared keys, and their tables in the documentation.

use std::fmt;

/// A key that the macro `keys!` declares, with a default of type `T`; `()` without one of its own.
pub struct Key<T = ()> {
    name: &'static str,
    default: fn() -> T,
}

impl<T> Key<T> {
    /// Creates a key.
    pub const fn new(name: &'static str, default: fn() -> T) -> Self {
        Self { name, default }
    }

    /// Returns the key's name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the key's default.
    pub fn default(self) -> T {
        (self.default)()
    }

    /// Returns the key without its default.
    pub const fn plain(self) -> Key {
        Key::new(self.name, || ())
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<T> AsRef<str> for Key<T> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

impl<T> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A key, with or without a default.
pub trait Named: Copy + AsRef<str> {
    /// Returns the key's name.
    fn name(self) -> &'static str;
}

impl<T> Named for Key<T> {
    fn name(self) -> &'static str {
        self.name
    }
}

/// A row of a table of keys.
#[derive(Debug)]
pub struct Row {
    /// Names of the row's keys.
    pub names: &'static [&'static str],
    /// Cells after the names; `{}` stands for the defaults. Empty for keys without documentation.
    pub text: &'static str,
    /// Defaults as TOML.
    pub defaults: fn() -> Vec<String>,
}

impl Row {
    /// Formats the row in Markdown, with `prefix` before each name and `cells` after the names; empty without
    /// documentation.
    pub fn show(&self, prefix: &str, cells: &str) -> String {
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return String::new();
        }
        let names: Vec<_> = self.names.iter().map(|name| format!("`{prefix}{name}`")).collect();
        let code = |shown: String| if shown.starts_with(['"', '[', '{']) { format!("`{shown}`") } else { shown };
        let defaults: Vec<_> = (self.defaults)().into_iter().map(code).collect();
        format!("| {} | {cells}{} |\n", names.join(", "), text.replace("{}", &defaults.join(", ")))
    }
}

/// Formats a table in Markdown with these columns. Each part has a prefix for its keys.
pub fn table(columns: &[&str], parts: &[(&str, &[Row])]) -> String {
    let head = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    parts
        .iter()
        .flat_map(|(prefix, rows)| rows.iter().map(|row| row.show(prefix, "")))
        .fold(head, |all, row| all + &row)
}

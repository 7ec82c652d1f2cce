//! Tables for the terminal: a line per row if they fit, otherwise a block per row.

use crate::terminal::{Style, fold};

/// Table whose first column names the rows.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// Heading, and preferred width of the column.
pub struct Column {
    pub heading: String,
    pub width: usize,
}

enum Row {
    Cells(Vec<String>),
    /// Name, and text instead of numbers.
    Words(String, String),
    /// Note on the row before.
    Note(String),
}

impl Table {
    pub const fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a row with a text instead of cells.
    pub fn push_words(&mut self, name: String, words: String) {
        self.rows.push(Row::Words(name, words));
    }

    /// Adds a note on the row before.
    pub fn push_note(&mut self, note: String) {
        self.rows.push(Row::Note(note));
    }

    /// Formats the table for `width` columns: at full width, else as narrow as its cells permit, else with a block per
    /// row.
    pub fn render(&self, width: Option<usize>) -> String {
        let full: Vec<usize> = self.columns.iter().map(|column| column.width.max(len(&column.heading))).collect();
        let tight: Vec<usize> = (0..self.columns.len()).map(|at| self.widest(at)).collect();
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + widths.len() - 1;
        match width {
            Some(width) if total(&tight) > width => self.blocks(width),
            Some(width) if total(&full) > width => self.lines(&tight, Some(width)),
            _ => self.lines(&full, width),
        }
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(at),
            Row::Words(name, _) => (at == 0).then_some(name),
            Row::Note(_) => None,
        });
        cells.map(|cell| len(cell.trim_end())).max().unwrap_or(0).max(len(&self.columns[at].heading))
    }

    fn lines(&self, widths: &[usize], width: Option<usize>) -> String {
        let headings: Vec<&String> = self.columns.iter().map(|column| &column.heading).collect();
        let mut text = Style::Heading.out(&line(&headings, widths)) + "\n";
        for row in &self.rows {
            match row {
                Row::Cells(cells) => text += &line(&cells.iter().collect::<Vec<_>>(), widths),
                Row::Words(name, words) => text += &format!("{name:<0$} {1}", widths[0], Style::Remark.out(words)),
                Row::Note(note) => text += &fold(note, width),
            }
            text.push('\n');
        }
        text
    }

    fn blocks(&self, width: usize) -> String {
        let headings = self.columns.iter().skip(1);
        let label = headings.map(|column| len(&column.heading)).max().unwrap_or(0).min(width / 2);
        let mut text = String::new();
        for row in &self.rows {
            match row {
                Row::Cells(cells) => {
                    text += &(Style::Heading.out(&cells[0]) + "\n");
                    for (column, cell) in self.columns.iter().zip(cells).skip(1) {
                        text += &format!("  {:<label$} {}\n", column.heading, cell.trim());
                    }
                }
                Row::Words(name, words) => {
                    let words = fold(&format!("  {words}"), Some(width));
                    text += &format!("{}\n{}\n", Style::Heading.out(name), Style::Remark.out(&words));
                }
                Row::Note(note) => text += &(fold(note, Some(width)) + "\n"),
            }
        }
        text
    }
}

/// Formats a row: the first cell to the left, the others to the right.
fn line(cells: &[&String], widths: &[usize]) -> String {
    let cell = |(at, (cell, &width)): (usize, (&&String, &usize))| match at {
        0 => format!("{cell:<width$}"),
        // Trailing spaces align a cell with its heading.
        _ if len(cell) > width => format!("{:>width$}", cell.trim_end()),
        _ => format!("{cell:>width$}"),
    };
    cells.iter().zip(widths).enumerate().map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn len(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [("scheme", 20), ("Mbps", 17), ("timeouts", 11)];
        let mut table =
            Table::new(columns.map(|(heading, width)| Column { heading: heading.to_owned(), width }).into());
        table.push(["LL", "1.500 ± 0.100", "2.0"].map(str::to_owned).into());
        table.push_words("SACK/Raw".to_owned(), "same as E2E-IETF-SACK".to_owned());
        table
    }

    #[test]
    fn as_wide_as_there_is_room() {
        let full = "scheme                            Mbps    timeouts\n\
                    LL                       1.500 ± 0.100         2.0\n\
                    SACK/Raw             same as E2E-IETF-SACK\n";
        assert_eq!(table().render(None), full);
        assert_eq!(table().render(Some(50)), full);
        let tight = "scheme            Mbps timeouts\n\
                     LL       1.500 ± 0.100      2.0\n\
                     SACK/Raw same as E2E-IETF-SACK\n";
        assert_eq!(table().render(Some(49)), tight);
    }

    #[test]
    fn a_block_a_row_where_lines_would_break() {
        let blocks = "LL\n  Mbps     1.500 ± 0.100\n  timeouts 2.0\nSACK/Raw\n  same as E2E-IETF-SACK\n";
        assert_eq!(table().render(Some(25)), blocks);
    }
}

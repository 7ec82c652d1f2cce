//! A study's tables and claims for the terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use crate::pivot::{self, Line, Metric, Pivot, Published, Runs};
use crate::study::{CellRow, Claim, Holds, MetricSummary, Table};

/// Rules above, below and under the heading, none between columns.
const STYLE: TableStyle = TableStyle::new().top_border(RULE).header_separator(RULE).bottom_border(RULE);
const RULE: LineStyle = LineStyle::new('─', '─', '─', '─');

/// Formats the table with one line per cell and, for each metric, published and measured number side by side. A metric
/// without published numbers in this table takes one column.
///
/// If that is wider than `width` columns, each metric has a table of its own; if these are too wide as well, a cell's
/// numbers are printed below its name.
pub fn text_table(table: &Table, width: Option<usize>) -> String {
    let pivot = Pivot::of(table);
    let title = format!("Table {}: {}", table.id, pivot::title_text(&table.title, pivot.runs));
    let is_narrow = |text: &str| width.is_none_or(|width| text.lines().all(|line| line.chars().count() <= width));
    let whole = side_by_side(&pivot);
    if is_narrow(&whole) {
        return format!("{title}\n{whole}\n");
    }
    let one = |at: usize| {
        let metric = &pivot.metrics[at];
        let grid = one_metric(&pivot, at);
        let text = if is_narrow(&grid) { grid } else { numbers_below(&pivot, at) };
        format!("{}, {}\n{text}\n", pivot::metric_label(metric.name), pivot::unit_label(metric.unit))
    };
    let metrics: Vec<String> = (0..pivot.metrics.len()).map(one).collect();
    format!("{title}\n\n{}", metrics.join("\n"))
}

/// Formats all metrics side by side.
fn side_by_side(pivot: &Pivot) -> String {
    let mut header = vec!["\n\ncell".to_owned()];
    header.extend(pivot.metrics.iter().flat_map(header_cells));
    header.extend((pivot.runs == Runs::Various).then(|| "\n\nruns".to_owned()));
    grid(header, pivot.lines.iter().map(|line| row_cells(pivot, line)))
}

/// Formats one metric, with its name in the title.
fn one_metric(pivot: &Pivot, at: usize) -> String {
    let mut header = vec!["cell".to_owned()];
    header.extend(number_names(&pivot.metrics[at]).map(str::to_owned));
    header.extend((pivot.runs == Runs::Various).then(|| "runs".to_owned()));
    let row = |line: &Line| {
        let mut cells = vec![line.cell.to_owned()];
        cells.extend(number_cells(&pivot.metrics[at], line.numbers[at]));
        cells.extend((pivot.runs == Runs::Various).then(|| line.runs.to_string()));
        cells
    };
    grid(header, pivot.lines.iter().map(row))
}

/// Formats one metric with two lines per cell.
fn numbers_below(pivot: &Pivot, at: usize) -> String {
    let metric = &pivot.metrics[at];
    let names = number_names(metric);
    let rows: Vec<Vec<String>> = pivot.lines.iter().map(|line| number_cells(metric, line.numbers[at])).collect();
    let len = |text: &str| text.chars().count();
    let widths: Vec<usize> = names
        .clone()
        .enumerate()
        .map(|(column, name)| rows.iter().map(|row| len(&row[column])).max().unwrap_or(0).max(len(name)))
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, &width)| format!("  {cell:>width$}"));
        cells.collect::<String>().trim_end().to_owned()
    };
    let mut text = line(&names.map(str::to_owned).collect::<Vec<_>>()) + "\n";
    for (of, row) in pivot.lines.iter().zip(&rows) {
        let runs = if pivot.runs == Runs::Various { format!(" ({} runs)", of.runs) } else { String::new() };
        text += &format!("{}{runs}\n{}\n", of.cell, line(row));
    }
    text.trim_end().to_owned()
}

fn grid(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut grid = Grid::new();
    grid.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(header);
    for row in rows {
        grid.add_row(row);
    }
    for (number, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if number > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    without_trailing_space(&grid.to_string())
}

/// Returns headings of three lines: metric, unit, and column name. Long names of metrics take the unit's line too.
fn header_cells(metric: &Metric) -> Vec<String> {
    let name = pivot::metric_label(metric.name);
    let unit = pivot::unit_label(metric.unit);
    let title = match name.split_once(' ') {
        Some((first, rest)) => format!("{first}\n{rest}, {unit}"),
        None => format!("{name},\n{unit}"),
    };
    let of = |name: &str| if name == MEASURED { format!("{title}\n{name}") } else { format!("\n\n{name}") };
    number_names(metric).map(of).collect()
}

const MEASURED: &str = "measured";

/// Returns the names of a metric's columns.
fn number_names(metric: &Metric) -> impl Iterator<Item = &'static str> + Clone {
    let names: &'static [&'static str] = match metric.published {
        Published::Some => &["paper", MEASURED, "off by"],
        Published::Beside => &["paper", MEASURED],
        Published::None => &[MEASURED],
    };
    let lab: &'static [&'static str] = if metric.lab { &["lab", "lab off by"] } else { &[] };
    names.iter().chain(lab).copied()
}

fn row_cells(pivot: &Pivot, line: &Line) -> Vec<String> {
    let mut cells = vec![line.cell.to_owned()];
    cells.extend(pivot.metrics.iter().zip(&line.numbers).flat_map(|(metric, row)| number_cells(metric, *row)));
    cells.extend((pivot.runs == Runs::Various).then(|| line.runs.to_string()));
    cells
}

/// Returns the numbers of a metric, under [`number_names`].
fn number_cells(metric: &Metric, row: Option<&CellRow>) -> Vec<String> {
    let text = |text: fn(&CellRow) -> String| row.map(text).unwrap_or_default();
    let measured = text(pivot::measured_text);
    let mut cells = match metric.published {
        Published::Some => {
            let off = text(|row| row.deviation().map(pivot::deviation_text).unwrap_or_default());
            vec![text(pivot::published_text), measured, off]
        }
        Published::Beside => vec![text(pivot::published_text), measured],
        Published::None => vec![measured],
    };
    if metric.lab {
        cells.push(text(pivot::lab_text));
        cells.push(text(|row| row.lab_deviation().map(pivot::deviation_text).unwrap_or_default()));
    }
    cells
}

/// Formats one line per claim; below it its evidence or, if that is long, the missed and open comparisons; then the
/// number of claims that hold.
pub fn text_claims(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims {
        let verdict = match claim.holds {
            Holds::Yes => "holds ",
            Holds::No => "MISSED",
            Holds::Open => "open  ",
        };
        text += &format!("{verdict}  ({}) {}\n", claim.id, claim.text);
        let evidence = match claim.summary() {
            None => claim.evidence(),
            Some(summary) => {
                let missed = claim.comparisons.iter().filter(|comparison| comparison.holds != Holds::Yes);
                missed.fold(summary, |line, comparison| format!("{line}; {}", comparison.marked()))
            }
        };
        if !evidence.is_empty() {
            text += &format!("            {evidence}\n");
        }
    }
    if claims.is_empty() {
        return text;
    }
    let held = claims.iter().filter(|claim| claim.holds == Holds::Yes).count();
    let open = claims.iter().filter(|claim| claim.holds == Holds::Open).count();
    let undecided = if open > 0 { format!("; the intervals leave {open} open") } else { String::new() };
    text + &format!("{held} of {} claims hold{undecided}\n", claims.len())
}

/// Formats one line per metric with the deviations of the measured numbers from the published ones.
pub fn text_summaries(summaries: &[MetricSummary]) -> String {
    summaries.iter().map(|summary| pivot::summary_text(summary, &summary.worst_cell) + "\n").collect()
}

/// Formats one line per metric with the deviations of the lab's numbers from the measured ones.
pub fn text_lab_summaries(summaries: &[MetricSummary]) -> String {
    summaries.iter().map(|summary| pivot::lab_summary_text(summary, &summary.worst_cell) + "\n").collect()
}

fn without_trailing_space(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

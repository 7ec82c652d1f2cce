//! A study's tables and claims for the terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use crate::pivot::{self, Line, Metric, Pivot, Published, Runs};
use crate::study::{CellRow, Claim, Holds, MetricSummary, Table};

/// Rules above, below and under the heading, none between columns.
const STYLE: TableStyle = TableStyle::new().top_border(RULE).header_separator(RULE).bottom_border(RULE);
const RULE: LineStyle = LineStyle::new('─', '─', '─', '─');

/// The table with one line a cell and, for each metric, published and measured number side by side. A metric that
/// has no published number in this table takes one column.
pub fn text_table(table: &Table) -> String {
    let pivot = Pivot::of(table);
    let mut grid = Grid::new();
    grid.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["\n\ncell".to_owned()];
    header.extend(pivot.metrics.iter().flat_map(header_cells));
    header.extend((pivot.runs == Runs::Various).then(|| "\n\nruns".to_owned()));
    grid.set_header(header);
    for line in &pivot.lines {
        grid.add_row(row_cells(&pivot, line));
    }
    for (number, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if number > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = pivot::title_text(&table.title, pivot.runs);
    format!("Table {}: {title}\n{}\n", table.id, without_trailing_space(&grid.to_string()))
}

/// Three lines each: metric, unit, and whose number it is. Long names of metrics take the unit's line too.
fn header_cells(metric: &Metric) -> Vec<String> {
    let name = pivot::metric_label(metric.name);
    let unit = pivot::unit_label(metric.unit);
    let title = match name.split_once(' ') {
        Some((first, rest)) => format!("{first}\n{rest}, {unit}"),
        None => format!("{name},\n{unit}"),
    };
    match metric.published {
        Published::Some => vec!["\n\npaper".to_owned(), format!("{title}\nmeasured"), "\n\noff by".to_owned()],
        Published::None => vec![format!("{title}\nmeasured")],
    }
}

fn row_cells(pivot: &Pivot, line: &Line) -> Vec<String> {
    let mut cells = vec![line.cell.to_owned()];
    for (metric, row) in pivot.metrics.iter().zip(&line.numbers) {
        let text = |text: fn(&CellRow) -> String| row.map(text).unwrap_or_default();
        match metric.published {
            Published::Some => {
                cells.push(text(pivot::published_text));
                cells.push(text(pivot::measured_text));
                cells.push(text(|row| row.deviation().map(pivot::deviation_text).unwrap_or_default()));
            }
            Published::None => cells.push(text(pivot::measured_text)),
        }
    }
    cells.extend((pivot.runs == Runs::Various).then(|| line.runs.to_string()));
    cells
}

/// One line a claim; below it its evidence or, where that is long, what of it did not come out; then how many hold.
pub fn text_claims(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims {
        let verdict = match claim.holds {
            Holds::Yes => "holds ",
            Holds::No => "MISSED",
        };
        text += &format!("{verdict}  ({}) {}\n", claim.id, claim.text);
        let evidence = match claim.summary() {
            None => claim.evidence(),
            Some(summary) => {
                let missed = claim.comparisons.iter().filter(|comparison| comparison.holds == Holds::No);
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
    text + &format!("{held} of {} claims hold\n", claims.len())
}

/// One line a metric: how far the measured numbers are from the published ones.
pub fn text_summaries(summaries: &[MetricSummary]) -> String {
    summaries.iter().map(|summary| pivot::summary_text(summary) + "\n").collect()
}

fn without_trailing_space(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

//! A study's table with one line per cell and its metrics side by side, with formatted numbers. The page and the
//! terminal show the same.

use crate::study::{CellRow, Deviation, FAR, MetricSummary, Relation, Table};

/// Table with its metrics side by side.
pub struct Pivot<'a> {
    pub metrics: Vec<Metric<'a>>,
    pub lines: Vec<Line<'a>>,
    pub runs: Runs,
}

/// Number of runs of a table's cells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Equal for all cells.
    Same(u32),
    /// Different numbers.
    Various,
}

/// Group of columns.
pub struct Metric<'a> {
    pub name: &'a str,
    pub unit: &'a str,
    /// Presence of published numbers of this metric in the table.
    pub published: Published,
    /// Presence of numbers from the lab.
    pub lab: bool,
}

/// Presence of published numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Published {
    Some,
    /// Only numbers of other systems, which have no deviation.
    Beside,
    None,
}

/// Numbers of one cell, in the order of [`Pivot::metrics`].
pub struct Line<'a> {
    pub cell: &'a str,
    pub runs: u32,
    pub numbers: Vec<Option<&'a CellRow>>,
}

impl<'a> Pivot<'a> {
    /// Arranges a table. Metrics and cells keep their order of first appearance.
    pub fn of(table: &'a Table) -> Self {
        let mut metrics: Vec<Metric<'a>> = Vec::new();
        let mut lines: Vec<Line<'a>> = Vec::new();
        for row in &table.rows {
            let column = metrics.iter().position(|metric| metric.name == row.metric).unwrap_or_else(|| {
                metrics.push(Metric { name: &row.metric, unit: &row.unit, published: Published::None, lab: false });
                metrics.len() - 1
            });
            let metric = &mut metrics[column];
            match row.relation {
                _ if row.published.is_none() => {}
                Relation::Same => metric.published = Published::Some,
                Relation::Beside if metric.published == Published::None => metric.published = Published::Beside,
                Relation::Beside => {}
            }
            metric.lab |= row.lab.is_some();
            let line = lines.iter().position(|line| line.cell == row.cell).unwrap_or_else(|| {
                lines.push(Line { cell: &row.cell, runs: row.runs, numbers: Vec::new() });
                lines.len() - 1
            });
            let numbers = &mut lines[line].numbers;
            numbers.resize(numbers.len().max(column + 1), None);
            numbers[column] = Some(row);
        }
        for line in &mut lines {
            line.numbers.resize(metrics.len(), None);
        }
        let runs = match table.rows.first() {
            Some(first) if table.rows.iter().all(|row| row.runs == first.runs) => Runs::Same(first.runs),
            _ => Runs::Various,
        };
        Self { metrics, lines, runs }
    }
}

/// Returns a table's title, with the number of runs if it is the same for all cells.
pub fn title_text(title: &str, runs: Runs) -> String {
    match runs {
        Runs::Same(1) => format!("{title} (1 run per cell)"),
        Runs::Same(runs) => format!("{title} ({runs} runs per cell)"),
        Runs::Various => title.to_owned(),
    }
}

/// Returns a metric's display name: `wireless goodput`.
pub fn metric_label(name: &str) -> String {
    name.replace('_', " ")
}

/// Returns a unit's display name: `%`.
pub fn unit_label(unit: &str) -> &str {
    if unit == "percent" { "%" } else { unit }
}

/// Returns the number of decimals of published numbers; measured ones have one more.
fn decimals(row: &CellRow) -> usize {
    match row.unit.as_str() {
        "Mbps" => 2,
        "percent" | "%" => 1,
        _ => match row.published.unwrap_or(row.measured).abs() {
            large if large >= 100.0 => 0,
            medium if medium >= 10.0 => 1,
            _ => 2,
        },
    }
}

/// Formats the published number: `1.20`, or an en dash.
pub fn published_text(row: &CellRow) -> String {
    row.published.map_or_else(|| "–".to_owned(), |value| format!("{value:.*}", decimals(row)))
}

/// Formats the measured number: `1.198 ±0.004`.
pub fn measured_text(row: &CellRow) -> String {
    with_interval(row, row.measured, row.ci95)
}

/// Formats the lab's number as the measured one; an en dash without one.
pub fn lab_text(row: &CellRow) -> String {
    row.lab.map_or_else(|| "–".to_owned(), |lab| with_interval(row, lab.value, lab.ci95))
}

fn with_interval(row: &CellRow, value: f64, ci95: Option<f64>) -> String {
    let digits = decimals(row) + 1;
    let mean = format!("{value:.digits$}");
    ci95.map_or_else(|| mean.clone(), |ci| format!("{mean} ±{ci:.digits$}"))
}

/// Formats a deviation: `−5.2 %` or `+0.3 pp`.
pub fn deviation_text(deviation: Deviation) -> String {
    // Rounding first avoids a sign before zero.
    let (value, unit) = match deviation {
        Deviation::Relative(fraction) => (fraction * 100.0, "%"),
        Deviation::Points(points) => (points, "pp"),
    };
    let value = (value * 10.0).round() / 10.0;
    let sign = match value {
        above if above > 0.0 => "+",
        below if below < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{:.1} {unit}", value.abs())
}

/// Formats a summary: `throughput: mean absolute deviation 7.1 % over 29 cells, ...`; `worst` is the name of the cell
/// with the largest deviation.
pub fn summary_text(summary: &MetricSummary, worst: &str) -> String {
    deviations_text(summary, "published cells", worst)
}

/// Formats a summary of the lab's deviations: `lab, throughput: mean absolute deviation 4.0 % over 8 cells, ...`.
pub fn lab_summary_text(summary: &MetricSummary, worst: &str) -> String {
    format!("lab, {}", deviations_text(summary, "simulated cells", worst))
}

fn deviations_text(summary: &MetricSummary, cells: &str, worst: &str) -> String {
    let unit = match summary.worst {
        Deviation::Relative(_) => "%",
        Deviation::Points(_) => "pp",
    };
    format!(
        "{}: mean absolute deviation {} over {} {cells}; {} beyond {FAR} {unit}; the farthest {} ({})",
        metric_label(&summary.metric),
        deviation_text(summary.mean).trim_start_matches('+'),
        summary.cells,
        summary.beyond,
        deviation_text(summary.worst),
        worst,
    )
}

//! A study's cells as CSV: `paper,table,cell,metric,unit,published,measured,ci95,runs`.

use std::io::Write;

use crate::error::ReportError;
use crate::study::Study;

/// The columns, in order.
pub const COLUMNS: [&str; 9] = ["paper", "table", "cell", "metric", "unit", "published", "measured", "ci95", "runs"];

/// Writes the cells of all tables of `study`, in their order. What does not exist (a published number, the interval
/// of a single run) is empty. Measured numbers are rounded to nine digits after the point.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn write_cells_csv(study: &Study, out: impl Write) -> Result<(), ReportError> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for table in &study.tables {
        for row in &table.rows {
            writer.write_record([
                study.id.as_str(),
                &table.id,
                &row.cell,
                &row.metric,
                &row.unit,
                &number(row.published),
                &number(Some(row.measured)),
                &number(row.ci95),
                &row.runs.to_string(),
            ])?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => ((value * 1e9).round() / 1e9).to_string(),
        _ => String::new(),
    }
}

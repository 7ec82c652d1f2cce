//! A study's cells as CSV: `paper,table,cell,metric,unit,published,measured,ci95,runs`, and `lab,lab_ci95,lab_runs` if
//! cells were run in the lab.

use std::io::Write;

use crate::error::ReportError;
use crate::rows::{Kind, Rows, Value};
use crate::study::Study;

/// Names of the columns, in order.
pub const COLUMNS: [&str; 9] = ["paper", "table", "cell", "metric", "unit", "published", "measured", "ci95", "runs"];

/// Names of the columns with the lab's numbers, which follow if there are any.
const LAB_COLUMNS: [&str; 3] = ["lab", "lab_ci95", "lab_runs"];

/// Writes the cells of all tables of `study`, in their order. Missing values (a published number, the interval of a
/// single run) are empty. Measured numbers are rounded to nine decimals.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_cells_csv(study: &Study, out: impl Write) -> Result<(), ReportError> {
    let mut writer = csv::Writer::from_writer(out);
    let with_lab = study.tables.iter().flat_map(|table| &table.rows).any(|row| row.lab.is_some());
    writer.write_record(COLUMNS.iter().chain(LAB_COLUMNS.iter().filter(|_| with_lab)))?;
    for table in &study.tables {
        for row in &table.rows {
            let own = [
                study.id.as_str(),
                &table.id,
                &row.cell,
                &row.metric,
                &row.unit,
                &number(row.published),
                &number(Some(row.measured)),
                &number(row.ci95),
                &row.runs.to_string(),
            ];
            let lab = [
                number(row.lab.map(|lab| lab.value)),
                number(row.lab.and_then(|lab| lab.ci95)),
                row.lab.map(|lab| lab.runs.to_string()).unwrap_or_default(),
            ];
            writer.write_record(own.into_iter().chain(lab.iter().map(String::as_str).filter(|_| with_lab)))?;
        }
    }
    writer.flush()?;
    Ok(())
}

impl Study {
    /// Returns the cells of all tables as rows with these columns. Numbers are not rounded.
    ///
    /// # Errors
    ///
    /// Never fails while the kinds of columns and values agree.
    pub fn rows(&self) -> Result<Rows, ReportError> {
        use Kind::{Count, Float, Text};
        let kinds = [Text, Text, Text, Text, Text, Float, Float, Float, Count];
        let mut rows = Rows::new(COLUMNS.map(str::to_owned).into_iter().zip(kinds).collect());
        let text = |text: &String| Value::Text(text.clone());
        let float = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or(Value::Missing, Value::Float);
        for table in &self.tables {
            for row in &table.rows {
                rows.push(vec![
                    text(&self.id),
                    text(&table.id),
                    text(&row.cell),
                    text(&row.metric),
                    text(&row.unit),
                    float(row.published),
                    float(Some(row.measured)),
                    float(row.ci95),
                    Value::Count(u64::from(row.runs)),
                ])?;
            }
        }
        Ok(rows)
    }
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => ((value * 1e9).round() / 1e9).to_string(),
        _ => String::new(),
    }
}

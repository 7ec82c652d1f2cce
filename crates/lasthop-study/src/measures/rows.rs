//! Flows and links of several schemes as rows of a table.

use lasthop_report::ReportError;
use lasthop_report::rows::{Kind, Rows, Value};

use super::flows::FlowRow;
use super::links::LinkRow;
use super::{Summary, find};

/// Returns a row per scheme and flow: `scheme`, `flow`, `kind`, `from`, `to`, then mean and `NAME_ci95` of each metric.
///
/// # Errors
///
/// Returns an error only if a row lacks a column.
pub fn flow_rows(schemes: &[(&str, Vec<FlowRow>)]) -> Result<Rows, ReportError> {
    let rows = schemes.iter().flat_map(|(scheme, rows)| {
        rows.iter().map(move |row| (vec![*scheme, &row.flow, row.kind, &row.from, &row.to], row.measures.as_slice()))
    });
    table(&["scheme", "flow", "kind", "from", "to"], rows.collect())
}

/// Returns a row per scheme, link and direction: `scheme`, `link`, `from`, `to`, then mean and `NAME_ci95` of each
/// metric.
///
/// # Errors
///
/// Returns an error only if a row lacks a column.
pub fn link_rows(schemes: &[(&str, Vec<LinkRow>)]) -> Result<Rows, ReportError> {
    let rows = schemes.iter().flat_map(|(scheme, rows)| {
        rows.iter().map(move |row| (vec![*scheme, &row.link, &row.from, &row.to], row.measures.as_slice()))
    });
    table(&["scheme", "link", "from", "to"], rows.collect())
}

fn table(labels: &[&str], rows: Vec<(Vec<&str>, &[Summary])>) -> Result<Rows, ReportError> {
    let mut names: Vec<&str> = Vec::new();
    for Summary { name, .. } in rows.iter().flat_map(|(_, measures)| *measures) {
        if !names.contains(&name.as_ref()) {
            names.push(name);
        }
    }
    let mut columns: Vec<(String, Kind)> = labels.iter().map(|label| ((*label).to_owned(), Kind::Text)).collect();
    for name in &names {
        columns.extend([((*name).to_owned(), Kind::Float), (format!("{name}_ci95"), Kind::Float)]);
    }
    let mut table = Rows::new(columns);
    for (labels, measures) in rows {
        let mut cells: Vec<Value> = labels.into_iter().map(|label| Value::Text(label.to_owned())).collect();
        for name in &names {
            let estimate = find(measures, name);
            cells.push(estimate.map_or(Value::Missing, |estimate| Value::Float(estimate.mean)));
            cells.push(estimate.and_then(|estimate| estimate.ci95).map_or(Value::Missing, Value::Float));
        }
        table.push(cells)?;
    }
    Ok(table)
}

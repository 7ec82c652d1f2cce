//! Human-readable tables of a run's flows and links. JSON has all metrics.

use std::io::Write;

use lasthop_study::measures::flows::FlowRow;
use lasthop_study::measures::links::LinkRow;
use lasthop_study::measures::{Summary, find};

use crate::error::Error;
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

/// Maximum number of rows in a table.
const MOST_ROWS: usize = 20;

/// Column: metric, heading, decimals.
type Metric = (&'static str, &'static str, usize);

const FLOW: [Metric; 11] = [
    ("throughput", "Mbps", 3),
    ("goodput", "goodput %", 1),
    ("duration", "s", 2),
    ("source_retransmissions", "rtx", 1),
    ("timeouts", "timeouts", 1),
    ("rtt_p50", "rtt p50 ms", 1),
    ("rtt_p95", "p95", 1),
    ("one_way_delay_p50", "one-way p50 ms", 1),
    ("one_way_delay_p95", "p95", 1),
    ("queue_delay_p50", "queue p50 ms", 1),
    ("queue_delay_p95", "p95", 1),
];

const LINK: [Metric; 8] = [
    ("utilisation", "used %", 1),
    ("loss", "loss %", 2),
    ("queue_delay_p50", "queue p50 ms", 1),
    ("queue_delay_p95", "p95", 1),
    ("queue_full_drops", "queue full", 1),
    ("managed_queue_drops", "AQM drops", 1),
    ("policer_drops", "policed", 1),
    ("handoff_drops", "handoff", 1),
];

/// Columns of links that are omitted if all values are 0.
const RARE: [&str; 3] = ["managed_queue_drops", "policer_drops", "handoff_drops"];

/// Writes a table of the flows and one of the links.
pub fn write(out: &mut impl Write, flows: &[FlowRow], links: &[LinkRow]) -> Result<(), Error> {
    // Web sessions have two flows per connection; their pages are counted elsewhere.
    let flows: Vec<&FlowRow> = flows.iter().filter(|row| row.kind != "web").collect();
    let rows = flows.iter().map(|row| (row.flow.clone(), row.measures.as_slice())).collect();
    write_table(out, "flow", &FLOW, rows)?;
    let rows = links.iter().map(|row| (format!("{}: {} to {}", row.link, row.from, row.to), row.measures.as_slice()));
    write_table(out, "link", &LINK, rows.collect())
}

fn write_table(
    out: &mut impl Write,
    what: &str,
    metrics: &[Metric],
    rows: Vec<(String, &[Summary])>,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let shows = |(name, ..): &&Metric| {
        let mut found = rows.iter().filter_map(|(_, measures)| find(measures, name));
        if RARE.contains(name) { found.any(|estimate| estimate.mean > 0.0) } else { found.next().is_some() }
    };
    let metrics: Vec<&Metric> = metrics.iter().filter(shows).collect();
    let first = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut columns = vec![Column { heading: what.to_owned(), width: first }];
    columns.extend(metrics.iter().map(|(_, heading, _)| Column { heading: (*heading).to_owned(), width: 9 }));
    let mut table = Table::new(columns);
    for (name, measures) in rows.iter().take(MOST_ROWS) {
        let cell = |(metric, _, decimals): &&Metric| {
            find(measures, metric).map_or("-".to_owned(), |estimate| format!("{:.decimals$}", estimate.mean))
        };
        table.push(std::iter::once(name.clone()).chain(metrics.iter().map(cell)).collect());
    }
    writeln!(out)?;
    out.write_all(table.render(width()).as_bytes())?;
    if rows.len() > MOST_ROWS {
        let more = format!("{} more {what}s omitted; --json has all", rows.len() - MOST_ROWS);
        writeln!(out, "{}", Style::Remark.out(&fold(&more, width())))?;
    }
    Ok(())
}

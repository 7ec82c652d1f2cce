//! Published studies on lossy links since 2016: each a topology of its own, with published values by cell.
//!
//! A study is a file here with its topics, its scenario and values in `data/`, and a line in `STUDIES`
//! ([`reproduce`](crate::reproduce)).

pub mod bbr2016;
pub mod kosek2022;
pub mod l4s_tests2021;
pub mod mqvpn2026;
pub mod pemi2026;
pub mod quic_geo2022;
pub mod sidekick2024;

use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::Point;

/// Returns the records of a CSV file of published values, without comments and the header.
fn records(text: &str) -> impl Iterator<Item = csv::StringRecord> {
    csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes()).into_records().flatten()
}

/// Returns the name of the frame loss `percent`, as a part of the names of cells.
fn loss_name(percent: f64) -> String {
    format!("{percent}%")
}

/// Returns the display form of such a part.
fn read_loss(part: &str) -> Option<String> {
    part.strip_suffix('%').map(|percent| format!("{percent} % of frames lost"))
}

/// Returns independent losses of `percent` of the frames, as a scenario's key.
fn uniform(percent: f64) -> String {
    format!("{{ model = \"uniform\", frame_loss = \"{percent} %\" }}")
}

/// Name of the metric of [`median_throughput`].
const MEDIAN: &str = "median_throughput";

/// Returns the median of a cell's throughput, for papers that print medians.
fn median_throughput(point: &Point, results: &Results) -> Option<(Estimate, &'static str)> {
    let values = results.values_by_run("throughput", [&point.name], |[throughput]| throughput)?;
    Some((Estimate::median_of(&values)?, "Mbps"))
}

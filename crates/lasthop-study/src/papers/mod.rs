//! Published studies on lossy links since 2016: each a topology of its own, with published values by cell.
//!
//! A study is a file here with its topics, its scenario and values in `data/`, and a line in `STUDIES`
//! ([`reproduce`](crate::reproduce)).

pub mod bbr2016;
pub mod kosek2022;
pub mod pemi2026;
pub mod sidekick2024;

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

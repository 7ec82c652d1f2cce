//! Link traces in public formats, to and from the CSV of [`lasthop_proto::link_trace`].
//!
//! | module | format |
//! |---|---|
//! | [`opportunities`] | rate files of mahimahi, LeoReplayer and CellReplay |
//! | [`leoreplayer`] | delay files of LeoReplayer |
//! | [`cellreplay`] | base delays of CellReplay |
//! | [`lens`], [`irtt`] | delays and losses of the packets of a measurement ([`packets`]) |
//!
//! Sources of the formats: mahimahi ae477d4, `src/frontend/link_queue.cc`; LeoCC 867e673, `leoreplayer/`; CellReplay
//! 2ca662c, `src/frontend/cellular_queue.cc`; LENS 75d9bef, `README.md`; irtt 0d612bb, `doc/irtt-client.md`.
#![forbid(unsafe_code)]

pub mod cellreplay;
mod input;
pub mod irtt;
pub mod lens;
pub mod leoreplayer;
mod merge;
pub mod opportunities;
pub mod packets;
mod statistics;
#[cfg(test)]
mod tests;

use lasthop_proto::link_trace::{LinkTrace, read_link_trace};
use lasthop_proto::time::Duration;

pub use self::input::{Input, MOST_BYTES};
pub use self::statistics::{Column, Statistics, statistics};

/// A format that [`read`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The CSV of scenarios.
    Csv,
    /// Delivery opportunities of mahimahi, a file per direction.
    Mahimahi,
    /// As mahimahi, with a file of delays.
    LeoReplayer,
    /// As mahimahi with smaller opportunities, with a light trace per direction.
    CellReplay,
    /// CSV of the LENS dataset.
    Lens,
    /// JSON of `irtt client -o`.
    Irtt,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] = [Self::Csv, Self::Mahimahi, Self::LeoReplayer, Self::CellReplay, Self::Lens, Self::Irtt];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Mahimahi => "mahimahi",
            Self::LeoReplayer => "leoreplayer",
            Self::CellReplay => "cellreplay",
            Self::Lens => "lens",
            Self::Irtt => "irtt",
        }
    }

    /// Returns whether it is one file for both directions.
    pub const fn is_one_file(self) -> bool {
        matches!(self, Self::Csv | Self::Lens | Self::Irtt)
    }
}

/// Clocks of the two ends of a measurement of one-way delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clocks {
    /// Their difference is unknown: the sum of the minimum delays is divided equally between the directions.
    #[default]
    Unknown,
    /// They were synchronized: the delays are valid as recorded.
    Synchronized,
}

/// Use of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time over which opportunities become a rate, and lost packets a probability; `None` for the format's default.
    pub step: Option<Duration>,
    /// Validity of a line of a delay file of LeoReplayer.
    pub interval: Duration,
    /// Clocks of a measurement.
    pub clocks: Clocks,
}

impl Default for Options {
    fn default() -> Self {
        Self { step: None, interval: Duration::from_millis(10), clocks: Clocks::Unknown }
    }
}

/// Files of a link. Which ones are needed depends on the format.
#[derive(Clone, Copy, Default, Debug)]
pub struct Inputs<'a> {
    /// A file for both directions.
    pub both: Option<&'a Input>,
    /// Rates: down, up.
    pub rates: [Option<&'a Input>; 2],
    /// Delays: down, up.
    pub delays: [Option<&'a Input>; 2],
}

/// A link's trace, and what it does not say.
#[derive(Clone, PartialEq, Debug)]
pub struct Converted {
    /// The trace.
    pub trace: LinkTrace,
    /// Sentences on assumptions, and on what the CSV cannot represent.
    pub remarks: Vec<String>,
}

/// An error, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// A file with other contents than its format has.
    #[error("{file}: {what}")]
    File {
        /// Name of the file.
        file: String,
        /// Problem, its line, and remedy.
        what: String,
    },
    /// Files that do not suit the format or each other.
    #[error("{0}")]
    Use(String),
}

impl ConvertError {
    fn line(input: &Input, line: usize, what: impl std::fmt::Display) -> Self {
        Self::File { file: input.name.clone(), what: format!("line {line}: {what}") }
    }

    fn file(input: &Input, what: impl std::fmt::Display) -> Self {
        Self::File { file: input.name.clone(), what: what.to_string() }
    }
}

/// Reads a link's trace.
///
/// # Errors
///
/// Returns [`ConvertError`] if files are missing, or have other contents.
pub fn read(format: Format, inputs: &Inputs<'_>, options: &Options) -> Result<Converted, ConvertError> {
    if options.step.is_some_and(|step| step < Duration::from_millis(1)) {
        return Err(ConvertError::Use("the step is below 1 ms; give a longer one".to_owned()));
    }
    if options.interval < Duration::from_millis(1) {
        return Err(ConvertError::Use("the interval of delays is below 1 ms; give a longer one".to_owned()));
    }
    let one = || {
        let message = format!("the format {} is one file for both directions; give its name", format.name());
        inputs.both.ok_or(ConvertError::Use(message))
    };
    match format {
        Format::Csv => {
            let input = one()?;
            let trace = read_link_trace(&input.bytes).map_err(|error| ConvertError::file(input, error))?;
            Ok(Converted { trace, remarks: Vec::new() })
        }
        Format::Mahimahi => opportunities::read(inputs, options),
        Format::LeoReplayer => leoreplayer::read(inputs, options),
        Format::CellReplay => cellreplay::read(inputs, options),
        Format::Lens => packets::trace(&lens::read(one()?)?, one()?, options),
        Format::Irtt => packets::trace(&irtt::read(one()?)?, one()?, options),
    }
}

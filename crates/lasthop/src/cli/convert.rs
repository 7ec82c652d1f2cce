//! Arguments of `lasthop convert`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use lasthop_convert::Clocks;
use lasthop_scenario::units::TimeSpan;
use lasthop_study::link::time_span;

/// Files of a link trace, and their formats.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// File for both directions, of the formats csv, lens and irtt; - is standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["down", "up", "delay", "delay_down", "delay_up"])]
    pub file: Option<PathBuf>,
    /// Format of the files
    #[arg(long, value_enum)]
    pub from: Format,
    /// Rate of the downlink: mahimahi's delivery opportunities; CellReplay's heavy trace
    #[arg(long, value_name = "FILE")]
    pub down: Option<PathBuf>,
    /// Rate of the uplink
    #[arg(long, value_name = "FILE")]
    pub up: Option<PathBuf>,
    /// Delays of both directions (leoreplayer)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delay_down", "delay_up"])]
    pub delay: Option<PathBuf>,
    /// Delays of the downlink: as --delay, or CellReplay's light trace
    #[arg(long, value_name = "FILE")]
    pub delay_down: Option<PathBuf>,
    /// Delays of the uplink
    #[arg(long, value_name = "FILE")]
    pub delay_up: Option<PathBuf>,
    /// Time over which opportunities become a rate, or lost packets a probability [default: 100 ms for rates, 1 s for losses]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub step: Option<TimeSpan>,
    /// Time for which a line of a delay file is valid (leoreplayer)
    #[arg(long, value_name = "TIME", value_parser = time_span, default_value = "10 ms")]
    pub interval: TimeSpan,
    /// Clocks of the two ends of a measurement (lens, irtt)
    #[arg(long, value_enum, default_value = "unknown")]
    pub clocks: ClocksName,
    /// Format to write
    #[arg(long, value_enum, default_value = "csv")]
    pub to: Target,
    /// File to write; with mahimahi and leoreplayer the begin of the names FILE.down, FILE.up, FILE.delay [default: standard output, for csv]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Print the properties of the trace as JSON; requires --out
    #[arg(long, requires = "out")]
    pub json: bool,
}

/// A format to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format(pub lasthop_convert::Format);

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Format; 6] = {
            let [a, b, c, d, e, f] = lasthop_convert::Format::ALL;
            [Format(a), Format(b), Format(c), Format(d), Format(e), Format(f)]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// Clocks of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum ClocksName {
    /// Their difference is unknown: the sum of the minimum delays is divided equally
    Unknown,
    /// One-way delays are valid as recorded
    Synchronized,
}

impl From<ClocksName> for Clocks {
    fn from(name: ClocksName) -> Self {
        match name {
            ClocksName::Unknown => Self::Unknown,
            ClocksName::Synchronized => Self::Synchronized,
        }
    }
}

/// A format to write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Target {
    /// CSV of the key `trace` of a link
    Csv,
    /// Delivery opportunities, a file per direction
    Mahimahi,
    /// As mahimahi, with a file of delays
    #[value(name = "leoreplayer")]
    LeoReplayer,
}

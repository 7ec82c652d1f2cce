//! Arguments that both daemons take.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lasthop_scenario::units::ByteSize;

/// Recording of a daemon.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Record the headers of every packet and the decision taken, as pcapng; overwrites an existing file
    #[arg(long, value_name = "FILE.pcapng")]
    pub record: Option<PathBuf>,
    /// Maximum size of the recording
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = byte_size)]
    pub record_limit: ByteSize,
}

/// Parses a number of bytes, as "1 GiB".
pub(super) fn byte_size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|error| format!("{error}; give a number of bytes, e.g. \"1 GiB\""))
}

/// Parses an interval in seconds.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected 0.1 to 86400 seconds, e.g. --watch=2".to_owned())
}

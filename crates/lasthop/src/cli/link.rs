//! Arguments of the commands that begin with a measured link: `lasthop fit` and `lasthop advise`.

use std::path::PathBuf;

use clap::Args;
use lasthop_diagnose::Vantage;
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use lasthop_study::advise::{Needs, Places, Use};
use lasthop_study::link::{bit_rate, place, time_span};

#[cfg(live)]
use super::TunnelEndsArgs;
use super::{JsonArgs, ScenarioArgs};

/// Losses of a link, and further measurements.
#[derive(Args, Debug)]
pub struct FitArgs {
    /// Losses towards the client: a list of 0 (received) and 1 (lost), a CSV with columns sent_s and lost, output of ping (preferably `ping -D -O`) or fping, JSON of irtt or `iperf3 -u`, a packet capture, or a folder (or its probe.json) written by `lasthop probe --out`
    #[arg(value_name = "TRACE")]
    pub down: PathBuf,
    /// Losses from the client
    #[arg(long, value_name = "TRACE")]
    pub up: Option<PathBuf>,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Write the link as a scenario for `compare`; requires --rate and --delay unless the measurement provides them
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Measurements of a link.
#[derive(Args, Clone, Copy, Debug)]
pub struct LinkArgs {
    /// Rate of the link, e.g. "10 Mbps"
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    pub rate: Option<BitRate>,
    /// One-way delay of the link, e.g. "20 ms"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub delay: Option<TimeSpan>,
    /// One-way delay between server and base station; added to the delay that a probe measured, part of the delay in a capture [default: 0 ms for a probe, from the capture, otherwise 20 ms]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub wire_delay: Option<TimeSpan>,
    /// Queue in front of the link, e.g. "100 packets" [default: as measured, otherwise 100 packets]
    #[arg(long, value_name = "SIZE")]
    pub queue: Option<QueueSize>,
    /// Time between packets, e.g. "1 s", for a list of losses or ping output without times
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub interval: Option<TimeSpan>,
    /// Capture location relative to the data sender: sender, gateway or receiver [default: inferred from the capture]
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub at: Option<Vantage>,
}

/// A link, the changes that the user can make, and the uses of the link.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Equipment that can be changed: sender (its settings), box (one device, see --place), boxes (a device at each end) [default: all three]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Needs::by_name)]
    pub control: Vec<Needs>,
    /// Side of the hop on which one device may stand: base-station, customer, both [default: base-station; both if uploads are among the uses]
    #[arg(long, value_name = "SIDE", value_parser = Places::by_name)]
    pub place: Option<Places>,
    /// Uses of the link: bulk, upload, pages, call [default: bulk, pages, call]
    #[arg(long = "for", value_name = "USE", value_delimiter = ',', value_parser = Use::by_name)]
    pub uses: Vec<Use>,
    /// Number of runs per cure and use [default: 10, and up to 40 until gains are significant]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Number of threads; 0 for one per core
    #[arg(long, short, default_value_t = 0)]
    pub jobs: usize,
    /// Write the configuration of the advised cure and its promise to this file; in a folder, under default names
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Interface of the gateway towards the hop, e.g. wlan0, for its configuration
    #[arg(long, value_name = "NAME", requires = "out")]
    pub interface: Option<String>,
    #[cfg(live)]
    #[command(flatten)]
    pub tunnel: TunnelEndsArgs,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

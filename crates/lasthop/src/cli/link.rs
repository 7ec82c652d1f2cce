//! Arguments of the commands that begin with a measured link: `lasthop fit` and `lasthop advise`.

use std::path::PathBuf;

use clap::Args;
use lasthop_diagnose::Vantage;
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use lasthop_study::advise::{Needs, Use};
use lasthop_study::link::{bit_rate, place, time_span};

#[cfg(target_os = "linux")]
use super::TunnelEndsArgs;
use super::{JsonArgs, ScenarioArgs};

/// What a link lost, and what else is known of it.
#[derive(Args, Debug)]
pub struct FitArgs {
    /// Losses on the way to the client: 0 (arrives) and 1 (lost), a CSV with the columns sent_s and lost, the output of ping (best `ping -D -O`) or fping, the JSON of irtt or of `iperf3 -u`, a packet capture, or the folder (or its probe.json) that `lasthop probe --out` wrote
    #[arg(value_name = "TRACE")]
    pub down: PathBuf,
    /// Losses on the way from the client
    #[arg(long, value_name = "TRACE")]
    pub up: Option<PathBuf>,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Write the link as a scenario, ready for `compare`; needs --rate and --delay, which a probe has and a capture may have
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// What is known of a link that was measured.
#[derive(Args, Clone, Copy, Debug)]
pub struct LinkArgs {
    /// The link's rate, as "10 Mbps": packets are on the air for their length
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    pub rate: Option<BitRate>,
    /// The link's delay, one way, as "20 ms"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub delay: Option<TimeSpan>,
    /// The delay of the path behind the base station, one way: beside what a probe measured, a part of what a capture shows [default: 0 ms of a probe, what a capture tells, else 20 ms]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub wire_delay: Option<TimeSpan>,
    /// The queue before the link, as "100 packets" [default: what was measured, else 100 packets]
    #[arg(long, value_name = "SIZE")]
    pub queue: Option<QueueSize>,
    /// The time between packets, as "1 s", where a list of losses or the output of ping has no times
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub interval: Option<TimeSpan>,
    /// Where a capture was taken, seen from the sender of the data: sender, gateway, receiver [default: what the capture shows]
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub at: Option<Vantage>,
}

/// A link, what can be changed, and what it is for.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    #[command(flatten)]
    pub link: LinkArgs,
    /// What can be changed: the senders' settings, a box in front of the hop, boxes at both its ends [default: all three]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Needs::by_name)]
    pub control: Vec<Needs>,
    /// What the link is for: bulk, pages, call [default: all]
    #[arg(long = "for", value_name = "USE", value_delimiter = ',', value_parser = Use::by_name)]
    pub uses: Vec<Use>,
    /// Runs of each cure and use [default: 10, and up to 40 while a gain may be chance]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Threads; 0 for one per core
    #[arg(long, short, default_value_t = 0)]
    pub jobs: usize,
    /// Write the configuration of the advised cure, and beside it what is promised; in a folder under names of their own
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The gateway's interface towards the hop, as wlan0, for the configuration of a box
    #[arg(long, value_name = "NAME", requires = "out")]
    pub interface: Option<String>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub tunnel: TunnelEndsArgs,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

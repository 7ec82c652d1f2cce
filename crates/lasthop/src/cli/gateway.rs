//! Arguments of `lasthop gateway`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lasthop_scenario::units::{BitRate, ByteSize};
use lasthop_study::link::bit_rate;

use super::JsonArgs;
use super::daemon::{RecordArgs, byte_size, interval};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct GatewayArgs {
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    #[command(flatten)]
    pub run: Option<GatewayRunArgs>,
}

#[derive(Subcommand, Debug)]
pub enum GatewayCommand {
    /// Run the gateway in the foreground (same as `lasthop gateway FILE`)
    Run(GatewayRunArgs),
    /// Check whether this machine supports a configuration
    Check(GatewayCheckArgs),
    /// Print state and counters of a running gateway
    Status(GatewayStatusArgs),
    /// Print the gain of treated over untreated connections
    Report(GatewayReportArgs),
    /// Reload the configuration of a running gateway
    Reload(GatewaySocketArgs),
    /// Remove rules and socket left behind by a killed gateway
    Clean(GatewayCleanArgs),
    /// Repeat the decisions of a recording, and compare
    Replay(GatewayReplayArgs),
    /// Handle packets (started by the gateway)
    #[command(hide = true)]
    Worker(RecordArgs),
}

#[derive(Args, Debug)]
pub struct GatewayRunArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print all rules that would be installed, without installing them
    #[arg(long)]
    pub dry_run: bool,
    // Not flattened: these arguments are optional as a group, which clap cannot express across two levels.
    /// Record the headers of every packet and the decision taken, as pcapng; overwrites an existing file
    #[arg(long, value_name = "FILE.pcapng")]
    pub record: Option<PathBuf>,
    /// Maximum size of the recording
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = byte_size)]
    pub record_limit: ByteSize,
}

#[derive(Args, Debug)]
pub struct GatewayReplayArgs {
    /// Recording
    #[arg(value_name = "FILE.pcapng")]
    pub file: PathBuf,
    /// Replay with the simulator's element instead of the gateway's engine
    #[arg(long)]
    pub element: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct GatewayCheckArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct GatewaySocketArgs {
    /// Control socket of the gateway
    #[arg(long, value_name = "PATH", default_value = lasthop_gateway::configuration::DEFAULT_CONTROL)]
    pub control: PathBuf,
    /// Configuration file of the gateway, which names its control socket
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct GatewayCleanArgs {
    /// Configuration file, which names the control socket
    #[arg(value_name = "FILE", conflicts_with_all = ["control", "config"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub socket: GatewaySocketArgs,
}

#[derive(Args, Debug)]
pub struct GatewayAskArgs {
    #[command(flatten)]
    pub socket: GatewaySocketArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct GatewayReportArgs {
    #[command(flatten)]
    pub ask: GatewayAskArgs,
    /// Compare with the promise that `lasthop advise --out` wrote
    #[arg(long, value_name = "FILE")]
    pub promise: Option<PathBuf>,
    /// Write the hop as a scenario for `compare` and `advise`, fitted to recent packets (requires root and limits.link)
    #[arg(long, value_name = "FILE", conflicts_with = "promise")]
    pub link: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "link")]
    pub force: bool,
    /// Rate of the hop, e.g. "10 Mbps", if no queue has revealed it
    #[arg(long, value_name = "RATE", value_parser = bit_rate, requires = "link")]
    pub rate: Option<BitRate>,
}

#[derive(Args, Debug)]
pub struct GatewayStatusArgs {
    #[command(flatten)]
    pub ask: GatewayAskArgs,
    /// Repeat at this interval until Ctrl-C; with --json, print one line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = interval)]
    pub watch: Option<Duration>,
}

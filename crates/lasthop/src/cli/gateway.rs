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
    /// Run the gateway in the foreground (as `lasthop gateway FILE` does)
    Run(GatewayRunArgs),
    /// Say what this machine lacks for a configuration
    Check(GatewayCheckArgs),
    /// Print what a running gateway has done
    Status(GatewayStatusArgs),
    /// Print what the treatment gains over the connections that are left alone
    Report(GatewayReportArgs),
    /// Let a running gateway read its configuration again
    Reload(GatewaySocketArgs),
    /// Remove what a dead gateway left: its rules and its socket
    Clean(GatewayCleanArgs),
    /// Decide once more on what was recorded, and compare
    Replay(GatewayReplayArgs),
    /// Handle packets (started by the gateway itself)
    #[command(hide = true)]
    Worker(RecordArgs),
}

#[derive(Args, Debug)]
pub struct GatewayRunArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print every rule that would be installed, and install none
    #[arg(long)]
    pub dry_run: bool,
    // Not flattened: these arguments are optional as a group, which clap cannot express across two levels.
    /// Record every packet's headers and what was decided on it, as pcapng; a file that is there is emptied
    #[arg(long, value_name = "FILE.pcapng")]
    pub record: Option<PathBuf>,
    /// Largest recording
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = byte_size)]
    pub record_limit: ByteSize,
}

#[derive(Args, Debug)]
pub struct GatewayReplayArgs {
    /// Recording
    #[arg(value_name = "FILE.pcapng")]
    pub file: PathBuf,
    /// Let the simulator's element decide, instead of the gateway's engine
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
    /// The gateway's control socket, as its configuration names it
    #[arg(long, value_name = "PATH", default_value = lasthop_gateway::configuration::DEFAULT_CONTROL)]
    pub control: PathBuf,
    /// The gateway's configuration file, which names its control socket
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct GatewayCleanArgs {
    /// Configuration file, for the control socket that it names
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
    /// Set what `lasthop advise --out` promised beside what was measured
    #[arg(long, value_name = "FILE")]
    pub promise: Option<PathBuf>,
    /// Write the hop as a scenario for `compare` and `advise`, from what crossed it last (root; the configuration has limits.link)
    #[arg(long, value_name = "FILE", conflicts_with = "promise")]
    pub link: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "link")]
    pub force: bool,
    /// The hop's rate, as "10 Mbps", where nothing has waited for it
    #[arg(long, value_name = "RATE", value_parser = bit_rate, requires = "link")]
    pub rate: Option<BitRate>,
}

#[derive(Args, Debug)]
pub struct GatewayStatusArgs {
    #[command(flatten)]
    pub ask: GatewayAskArgs,
    /// Ask again every so many seconds, until Ctrl-C; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = interval)]
    pub watch: Option<Duration>,
}

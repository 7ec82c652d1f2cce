//! Arguments of `lasthop tunnel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::JsonArgs;
use super::daemon::{RecordArgs, interval};

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub struct TunnelArgs {
    #[command(subcommand)]
    pub command: TunnelCommand,
}

#[derive(Subcommand, Debug)]
pub enum TunnelCommand {
    /// Generate a private key, as `wg genkey` does
    Keygen(TunnelKeygenArgs),
    /// Print the public key of a private key, as `wg pubkey` does
    Pubkey(TunnelPubkeyArgs),
    /// Check whether this machine supports a configuration
    Check(TunnelCheckArgs),
    /// Run the tunnel in the foreground
    Run(TunnelRunArgs),
    /// Print state and counters of a running tunnel
    Status(TunnelStatusArgs),
    /// Print the gain of repaired over unrepaired flows
    Report(TunnelReportArgs),
    /// Reload the configuration of a running tunnel
    Reload(TunnelSocketArgs),
    /// Remove the socket left behind by a killed tunnel
    Clean(TunnelCleanArgs),
    /// Repeat the decisions of a recording with the simulator's node, and compare
    Replay(TunnelReplayArgs),
    /// Handle packets (started by the tunnel)
    #[command(hide = true)]
    Worker(RecordArgs),
}

#[derive(Args, Debug)]
pub struct TunnelReplayArgs {
    /// Recording
    #[arg(value_name = "FILE.pcapng")]
    pub file: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TunnelPubkeyArgs {
    /// File with the private key [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TunnelKeygenArgs {
    /// New file for the secret key, readable only by its owner; prints the public key [default: print the secret key]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Generate a preshared key, as `wg genpsk` does
    #[arg(long)]
    pub preshared: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TunnelCheckArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TunnelRunArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the planned setup without applying it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub record: RecordArgs,
}

#[derive(Args, Debug)]
pub struct TunnelSocketArgs {
    /// Control socket of the tunnel
    #[arg(long, value_name = "PATH", default_value = lasthop_scenario::tunnel::DEFAULT_CONTROL)]
    pub control: PathBuf,
    /// Configuration file of the tunnel, which names its control socket
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct TunnelCleanArgs {
    /// Configuration file, which names the control socket
    #[arg(value_name = "FILE", conflicts_with_all = ["control", "config"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub socket: TunnelSocketArgs,
}

#[derive(Args, Debug)]
pub struct TunnelReportArgs {
    #[command(flatten)]
    pub socket: TunnelSocketArgs,
    /// Compare with the promise that `lasthop advise --out` wrote
    #[arg(long, value_name = "FILE")]
    pub promise: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TunnelStatusArgs {
    #[command(flatten)]
    pub socket: TunnelSocketArgs,
    #[command(flatten)]
    pub json: JsonArgs,
    /// Repeat at this interval until Ctrl-C; with --json, print one line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = interval)]
    pub watch: Option<std::time::Duration>,
}

/// The two ends of a tunnel that is advised.
#[derive(Args, Debug)]
pub struct TunnelEndsArgs {
    /// Address of the end in front of the hop, with its UDP port if not 51900; --near, --far or both are required
    #[arg(long, value_name = "HOST[:PORT]", requires = "out", help_heading = "Devices at both ends")]
    pub near: Option<String>,
    /// Address of the end behind the hop
    #[arg(long, value_name = "HOST[:PORT]", requires = "out", help_heading = "Devices at both ends")]
    pub far: Option<String>,
    /// Networks behind the near end, e.g. 10.1.0.0/24, to route through the tunnel
    #[arg(
        long,
        value_name = "NETWORK",
        value_delimiter = ',',
        requires = "out",
        help_heading = "Devices at both ends"
    )]
    pub behind_near: Vec<String>,
    /// Networks behind the far end
    #[arg(
        long,
        value_name = "NETWORK",
        value_delimiter = ',',
        requires = "out",
        help_heading = "Devices at both ends"
    )]
    pub behind_far: Vec<String>,
    /// Private key file of the near end, created if missing [default: next to the configuration]
    #[arg(long, value_name = "FILE", requires = "out", help_heading = "Devices at both ends")]
    pub near_key: Option<PathBuf>,
    /// Public key of the far end, if it has one [default: generate a key for it]
    #[arg(long, value_name = "KEY", value_parser = public_key, requires = "out", help_heading = "Devices at both ends")]
    pub far_public_key: Option<lasthop_tunnel::PublicKey>,
}

/// Parses a public key, as `lasthop tunnel keygen` prints it.
fn public_key(text: &str) -> Result<lasthop_tunnel::PublicKey, String> {
    lasthop_tunnel::PublicKey::from_base64(text)
        .map_err(|error| format!("{error}; give a key printed by `lasthop tunnel keygen`"))
}

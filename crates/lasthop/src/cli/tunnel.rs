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
    /// Make a key, as `wg genkey` does
    Keygen(TunnelKeygenArgs),
    /// Print the public key of a private one, as `wg pubkey` does
    Pubkey(TunnelPubkeyArgs),
    /// Say what this machine lacks for a configuration
    Check(TunnelCheckArgs),
    /// Run the tunnel in the foreground
    Run(TunnelRunArgs),
    /// Print what a running tunnel has done
    Status(TunnelStatusArgs),
    /// Print what repair gains, where some flows go without
    Report(TunnelReportArgs),
    /// Let a running tunnel read its configuration again
    Reload(TunnelSocketArgs),
    /// Remove what a dead tunnel left: its socket
    Clean(TunnelCleanArgs),
    /// Let the simulator's node decide on what was recorded, and compare
    Replay(TunnelReplayArgs),
    /// Handle packets (started by the tunnel itself)
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
    /// New file for the secret, readable by its owner alone; the public key is printed [default: print the secret]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Make a key that both ends share besides, as `wg genpsk` does
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
    /// Print what would be made, and make nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub record: RecordArgs,
}

#[derive(Args, Debug)]
pub struct TunnelSocketArgs {
    /// The tunnel's control socket, as its configuration names it
    #[arg(long, value_name = "PATH", default_value = lasthop_scenario::tunnel::DEFAULT_CONTROL)]
    pub control: PathBuf,
    /// The tunnel's configuration file, which names its control socket
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct TunnelCleanArgs {
    /// Configuration file, for the control socket that it names
    #[arg(value_name = "FILE", conflicts_with_all = ["control", "config"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub socket: TunnelSocketArgs,
}

#[derive(Args, Debug)]
pub struct TunnelReportArgs {
    #[command(flatten)]
    pub socket: TunnelSocketArgs,
    /// Set what `lasthop advise --out` promised beside what was measured
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
    /// Ask again every so many seconds, until Ctrl-C; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = interval)]
    pub watch: Option<std::time::Duration>,
}

/// The two ends of a tunnel that is advised.
#[derive(Args, Debug)]
pub struct TunnelEndsArgs {
    /// Host, and UDP port if not 51900, at which the end in front of the hop is reached; of --near and --far one is needed
    #[arg(long, value_name = "HOST[:PORT]", requires = "out", help_heading = "Boxes at both ends")]
    pub near: Option<String>,
    /// The same of the end behind the hop
    #[arg(long, value_name = "HOST[:PORT]", requires = "out", help_heading = "Boxes at both ends")]
    pub far: Option<String>,
    /// Networks behind the first end, as 10.1.0.0/24: packets to them take the tunnel
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', requires = "out", help_heading = "Boxes at both ends")]
    pub behind_near: Vec<String>,
    /// Networks behind the second end
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', requires = "out", help_heading = "Boxes at both ends")]
    pub behind_far: Vec<String>,
    /// The first end's private key, made where there is none [default: beside the configuration]
    #[arg(long, value_name = "FILE", requires = "out", help_heading = "Boxes at both ends")]
    pub near_key: Option<PathBuf>,
    /// The second end's public key, if it has made one [default: a key is made for it]
    #[arg(long, value_name = "KEY", value_parser = public_key, requires = "out", help_heading = "Boxes at both ends")]
    pub far_public_key: Option<lasthop_tunnel::PublicKey>,
}

/// Parses a public key, as `lasthop tunnel keygen` prints it.
fn public_key(text: &str) -> Result<lasthop_tunnel::PublicKey, String> {
    lasthop_tunnel::PublicKey::from_base64(text)
        .map_err(|error| format!("{error}; give what `lasthop tunnel keygen` printed"))
}

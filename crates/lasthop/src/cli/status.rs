//! Arguments of `lasthop status`.

#[cfg(feature = "serve")]
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::JsonArgs;

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Control socket of a gateway; may be repeated [default: the usual sockets of gateway and tunnel]
    #[arg(long, value_name = "PATH")]
    pub gateway: Vec<PathBuf>,
    /// Control socket of a tunnel; may be repeated
    #[arg(long, value_name = "PATH")]
    pub tunnel: Vec<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
    /// Serve a read-only page with the last ten minutes until Ctrl-C; port 0 selects a free one [default: 127.0.0.1:8098]
    #[cfg(feature = "serve")]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:8098",
        conflicts_with = "json"
    )]
    pub serve: Option<SocketAddr>,
    /// Host name under which other machines may request the page; may be repeated
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "NAME", requires = "serve")]
    pub host_name: Vec<String>,
    /// Open the page in a browser
    #[cfg(feature = "serve")]
    #[arg(long, requires = "serve")]
    pub open: bool,
}

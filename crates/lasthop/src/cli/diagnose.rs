//! Arguments of `lasthop diagnose`.

use std::path::PathBuf;

use clap::Args;

use super::JsonArgs;

/// Packet captures, and what to say of them.
#[derive(Args, Debug)]
pub struct DiagnoseArgs {
    /// Captures, pcap or pcapng, also gzipped; `-` reads standard input. Files that continue each other are one capture
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    /// Two captures of the same connections: what was lost between them, found by matching their packets
    #[arg(long, conflicts_with_all = ["at", "interface", "flow", "annotate", "loss_trace"])]
    pub between: bool,
    /// Judge each file alone, though files continue each other
    #[arg(long, conflicts_with = "between")]
    pub separately: bool,
    /// Where they were taken, seen from whoever sends data [default: found from the capture]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub at: Option<Place>,
    /// Only what this interface saw, by its name in a pcapng file
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// All of one flow, by its number: what limits it, and each loss with its evidence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow: Option<u32>,
    /// Write the capture as pcapng with the verdicts as comments, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub annotate: Option<PathBuf>,
    /// Write what the link lost to corruption, packet by packet, for `fit`: of --flow, or of the flow with most data
    #[arg(long, value_name = "FILE")]
    pub loss_trace: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Where a capture was taken.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the sender
    Sender,
    /// At the receiver
    Receiver,
    /// At a gateway between them
    Gateway,
}

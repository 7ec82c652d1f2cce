//! Arguments of `lasthop diagnose`.

use std::path::PathBuf;

use clap::Args;

use super::JsonArgs;

/// Packet captures, and options of the report.
#[derive(Args, Debug)]
pub struct DiagnoseArgs {
    /// Captures in pcap or pcapng format, possibly gzipped; `-` reads standard input. Consecutive files form one capture
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    /// Match the packets of two captures of the same connections, and report losses between them
    #[arg(long, conflicts_with_all = ["at", "interface", "flow", "annotate", "loss_trace"])]
    pub between: bool,
    /// Treat each file as a capture of its own, even if they are consecutive
    #[arg(long, conflicts_with = "between")]
    pub separately: bool,
    /// Capture location relative to the data sender [default: inferred from the capture]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub at: Option<Place>,
    /// Read only packets of this interface, by its name in the pcapng file
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Show only the flow with this number: its limit, and each loss with evidence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow: Option<u32>,
    /// Write the capture as pcapng with verdicts as comments, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub annotate: Option<PathBuf>,
    /// Write per-packet corruption losses for `fit`, of --flow or of the flow with the most data
    #[arg(long, value_name = "FILE")]
    pub loss_trace: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Position of a capture.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the sender
    Sender,
    /// At the receiver
    Receiver,
    /// At a gateway between them
    Gateway,
}

//! Arguments of `lasthop conform`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lasthop_proto::tcp::config::Preset;
use lasthop_settings::values::{Choice, named};

/// Scripts, and the stack that they test.
#[derive(Args, Debug)]
pub struct ConformArgs {
    /// Scripts, or folders of scripts (*.pkt)
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Settings of the TCP under test
    #[arg(long, value_name = "NAME", default_value = "linux-6.18", value_parser = preset)]
    pub preset: Preset,
    /// Ticks of the kernel's clock per second, for presets of Linux [default: 250]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(24..=10_000))]
    pub hz: Option<u32>,
    /// List scripts of a result, with the first difference or the missing feature; may be repeated
    #[arg(long, value_name = "RESULT", value_enum)]
    pub list: Vec<Listed>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Run the scripts on this machine's kernel too, with packetdrill (requires root)
    #[cfg(live)]
    #[arg(long)]
    pub kernel: bool,
    /// Program that runs scripts on the kernel [default: packetdrill from the search path]
    #[cfg(live)]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    pub packetdrill: Option<PathBuf>,
    /// Number of scripts or random cases that run on the kernel at the same time
    #[cfg(live)]
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub jobs: u16,
}

/// A result to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Listed {
    /// Scripts that passed
    Passed,
    /// Scripts that failed
    Failed,
    /// Scripts that are not applicable
    NotApplicable,
    /// Files that are no valid scripts
    Invalid,
    /// All files
    All,
}

fn preset(name: &str) -> Result<Preset, String> {
    let given = named(name, Preset::CHOICES.iter(), |(name, _)| *name);
    let names = || Preset::CHOICES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    given.map(|(_, preset)| *preset).map_err(|hint| format!("expected one of {}; {hint}", names()))
}

//! Arguments of `lasthop conform`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
#[cfg(live)]
use lasthop_conform::differential::Kind;
use lasthop_proto::tcp::config::Preset;
use lasthop_settings::values::{Choice, named};

/// Scripts, and the stack that they test.
#[derive(Args, Debug)]
pub struct ConformArgs {
    /// Scripts, or folders of scripts (*.pkt)
    #[cfg_attr(live, arg(value_name = "PATH", required_unless_present = "differential"))]
    #[cfg_attr(not(live), arg(value_name = "PATH", required = true))]
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
    /// Lead random cases through this machine's kernel and the TCP, and compare each segment (requires root)
    #[cfg(live)]
    #[arg(long, value_name = "KIND", value_parser = kinds, conflicts_with_all = ["paths", "kernel", "list"])]
    pub differential: Option<Kinds>,
    /// Number of random cases of each kind
    #[cfg(live)]
    #[arg(long, value_name = "N", default_value = "100", requires = "differential", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub count: u32,
    /// Seed of the first random case
    #[cfg(live)]
    #[arg(long, short, value_name = "SEED", default_value = "1", requires = "differential")]
    pub seed: u64,
    /// Folder for the shortest scripts that differ
    #[cfg(live)]
    #[arg(long, short, value_name = "FOLDER", requires = "differential")]
    pub out: Option<PathBuf>,
    /// Maximum number of cases of each kind to shorten and write
    #[cfg(live)]
    #[arg(long, value_name = "N", default_value = "10", requires = "out")]
    pub most: usize,
    /// Do not compare the flag PSH of random cases
    #[cfg(live)]
    #[arg(long, requires = "differential")]
    pub ignore_push: bool,
    /// Number of scripts that run on the kernel at the same time, or of random cases [default: 4 scripts, 200 cases]
    #[cfg(live)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub jobs: Option<u16>,
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

/// Kinds of random cases.
#[cfg(live)]
#[derive(Clone, Debug)]
pub struct Kinds(pub Vec<Kind>);

#[cfg(live)]
fn kinds(name: &str) -> Result<Kinds, String> {
    if name == "all" {
        return Ok(Kinds(Kind::ALL.iter().map(|(_, kind)| *kind).collect()));
    }
    let given = named(name, Kind::ALL.iter(), |(name, _)| *name);
    let names = || Kind::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    given.map(|(_, kind)| Kinds(vec![*kind])).map_err(|hint| format!("expected all or one of {}; {hint}", names()))
}

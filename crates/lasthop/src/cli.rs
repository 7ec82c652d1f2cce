//! Command line.

#[cfg(target_os = "linux")]
mod daemon;
mod diagnose;
#[cfg(target_os = "linux")]
mod gateway;
mod link;
#[cfg(target_os = "linux")]
mod tunnel;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_scenario::units::TimeSpan;
use lasthop_scenario::{Scenario, did_you_mean};
use lasthop_study::link::time_span;
use lasthop_study::sweep::Axis;

#[cfg(target_os = "linux")]
pub use self::daemon::RecordArgs;
pub use self::diagnose::{DiagnoseArgs, Place};
#[cfg(target_os = "linux")]
pub use self::gateway::*;
pub use self::link::{AdviseArgs, FitArgs, LinkArgs};
#[cfg(target_os = "linux")]
pub use self::tunnel::*;
use crate::error::Error;
use crate::progress::note;

/// What a lossy last hop does to TCP, and what cures it.
#[derive(Parser, Debug)]
#[command(version = lasthop_identity::BUILD, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the schemes by name
    Schemes(JsonArgs),
    /// List the ready-made scenarios by name
    Scenarios(JsonArgs),
    /// Run one scenario under one scheme
    Run(RunArgs),
    /// Run one scenario under several schemes that meet the same errors
    Compare(CompareArgs),
    /// Run all combinations of some keys' values
    Sweep(SweepArgs),
    /// Follow one run segment by segment
    Trace(TraceArgs),
    /// Run a scenario with real TCP over emulated links, in network namespaces (root)
    #[cfg(target_os = "linux")]
    Lab(LabArgs),
    /// Draw packets, windows, throughput, round trip and queues of one run over time
    Plot(PlotArgs),
    /// Reproduce a published study beside its published numbers
    Reproduce(ReproduceArgs),
    /// Explore scenarios on a local web page
    Serve(ServeArgs),
    /// Print a scenario with every default and where each value comes from
    Explain(ExplainArgs),
    /// Say of each TCP flow in a packet capture what limits it, and why its packets were lost
    Diagnose(DiagnoseArgs),
    /// Measure the path to another machine: rate, delay, queue, losses, both ways
    #[cfg(target_os = "linux")]
    Probe(crate::commands::probe::ProbeArgs),
    /// Fit channel models to a link's losses, packet by packet, and write the link as a scenario
    Fit(FitArgs),
    /// Say which cure helps on a link, by how much, and write its configuration
    ///
    /// SCENARIO may be a measurement as well: the folder that `lasthop probe --out` wrote, a packet capture, a CSV of losses. It is fitted first.
    Advise(AdviseArgs),
    /// Treat the TCP connections that this machine forwards over a lossy hop
    #[cfg(target_os = "linux")]
    Gateway(GatewayArgs),
    /// Repair a lossy hop for all traffic, with a box at each of its ends
    #[cfg(target_os = "linux")]
    Tunnel(TunnelArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print a manual page
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Args, Debug)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A scenario and what to change in it.
#[derive(Args, Debug)]
pub struct ScenarioArgs {
    /// Scenario file, or the name of a ready-made one
    #[arg(value_name = "SCENARIO")]
    pub scenario: OsString,
    /// Set a key of the scenario, as links.wireless.rate="1 Mbps"; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root seed, a whole number from 0 on [default: the scenario's]
    #[arg(long, short, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
}

impl ScenarioArgs {
    pub fn open(&self) -> Result<Scenario, Error> {
        // A name that is not UTF-8 can only be a file's.
        let scenario = match self.scenario.to_str() {
            Some(name) => {
                if let Some(file) = Scenario::shadowed_file(name) {
                    note(&format!(
                        "{name}: the ready-made scenario, not the file of that name here: give {file} for that"
                    ));
                }
                Scenario::open(name)?
            }
            None => Scenario::load(&self.scenario)?,
        };
        self.with_overrides(scenario)
    }

    /// Returns `scenario` with the changes of `--set`.
    pub fn with_overrides(&self, scenario: Scenario) -> Result<Scenario, Error> {
        let mut overrides = Vec::new();
        for set in &self.set {
            let (key, value) = set.split_once('=').ok_or_else(|| Error::Set { given: set.clone() })?;
            overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        if overrides.is_empty() {
            return Ok(scenario);
        }
        Ok(scenario.with_overrides(&overrides).map_err(|error| error.set_by("--set"))?)
    }

    /// Rejects TCP keys of `scenario` that no endpoint reads under any of these schemes.
    pub fn check_effects(&self, scenario: &Scenario, schemes: &[&'static Scheme]) -> Result<(), Error> {
        Ok(scenario.check_effects(schemes).map_err(|error| error.set_by("--set"))?)
    }
}

/// How often to run, and on how many threads.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Runs [default: the scenario's]
    #[arg(long, short = 'n', allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Threads; 0 for one per core
    #[arg(long, short, allow_negative_numbers = true, default_value_t = 0)]
    pub jobs: usize,
}

/// Parses a root seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}, as 7", u64::MAX))
}

/// Returns the scheme with this name, in any case.
pub fn scheme(name: &str) -> Result<&'static Scheme, String> {
    SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names = || SCHEMES.iter().map(|scheme| scheme.name);
        match did_you_mean(name, names()) {
            Some(near) => format!("no such scheme; did you mean {near}?"),
            None => format!("no such scheme; there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    })
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    #[command(flatten)]
    pub runs: RunsArgs,
    /// Write throughput, round trip and queues of one run over time to this CSV file
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Time between two rows of the series
    #[arg(long, value_name = "TIME", value_parser = time_span, default_value = "100 ms", requires = "series")]
    pub interval: TimeSpan,
    /// Replace the file if there is one
    #[arg(long, requires = "series")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Schemes [default: all]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    #[command(flatten)]
    pub runs: RunsArgs,
    /// Print CSV with all metrics, a row a scheme
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub csv: bool,
    /// File to write with all metrics, .csv or .parquet, a row a scheme
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct SweepArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// A key and its values; may be repeated
    #[arg(long, value_name = "KEY=VALUE,VALUE,...", required = true)]
    pub vary: Vec<Axis>,
    /// Schemes [default: the scenario's]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    #[command(flatten)]
    pub runs: RunsArgs,
    /// Print CSV with all metrics instead of a table
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub csv: bool,
    /// File to write, .csv or .parquet; a sweep that was interrupted goes on where it stopped
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct TraceArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    /// Number of the run to follow, from 0
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    pub run: u32,
    /// Threads: one run takes one, however many are given
    #[arg(long, short, default_value_t = 0, hide_short_help = true)]
    pub jobs: usize,
    /// Print CSV (docs/trace-format.md) instead of lines for people
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON object a record
    #[arg(long)]
    pub json: bool,
    /// Stop after so many records
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Leave out what happened before this simulated time, as "1.5 s"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub from: Option<TimeSpan>,
    /// Stop after this simulated time, as "2 s"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub to: Option<TimeSpan>,
    /// Write a pcapng file for Wireshark: an interface and addresses for each capture point
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Only what this capture point saw, an end of a link as source or base:radio (a wrong name lists them)
    #[arg(long, value_name = "NAME")]
    pub point: Option<String>,
    /// Replace a file that is no capture of lasthop's
    #[arg(long, requires = "pcapng")]
    pub force: bool,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    #[command(flatten)]
    pub run: LabRunArgs,
}

#[cfg(target_os = "linux")]
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Run a command behind a scenario's links, and say what they carried
    ///
    /// The command runs at a host of the scenario, on the kernel's TCP; the scenario's flows do not run. Inside, hosts have the
    /// scenario's names. Standard input and output are the command's alone, and its exit status is this program's: 128 and the number for
    /// a signal, 125 where the lab fails, 126 and 127 where the command cannot be run or is not found.
    Exec(LabExecArgs),
    /// Open namespaces and links for other programs, print their names, and close them at Ctrl-C
    Hold(LabHoldArgs),
    /// Remove what labs that were killed left behind
    Clean,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct LabExecArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme, for what it does at the base station [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    /// Host where the command runs [default: the one at which the scenario's first flow ends]
    #[arg(long, value_name = "HOST")]
    pub at: Option<String>,
    /// Run a shell's command line at another host first, as "server:iperf3 -s -1", wait until it listens, and end it after the
    /// command; may be repeated
    #[arg(long, value_name = "HOST:COMMAND")]
    pub serve: Vec<String>,
    /// Give all hosts a route to the outside by way of a host, with this machine's address [default host: the one at the other end of
    /// the first flow]
    #[arg(long, value_name = "HOST", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub nat: Option<String>,
    /// Name of the lab: its namespaces are lh-NAME-node-HOST [default: lab, or lab2, lab3, ... while others are open]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Write what the links carried as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw throughput, delay and queue of the links over time, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write throughput, delay, queue and losses of the links over time as CSV
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// pcapng file of all that crosses the links, both ends of each
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Print nothing but what the command prints
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct LabHoldArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme, for what it does at the base station [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    /// pcapng file of all that crosses the links, both ends of each
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Print JSON: a line when the lab is open, another when it has been closed
    #[arg(long)]
    pub json: bool,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct LabRunArgs {
    #[command(flatten)]
    pub scenario: Option<ScenarioArgs>,
    /// Schemes [default: the scenario's]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    /// Runs, each in real time [default: the scenario's]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Simulate the same runs, and print them beside
    #[arg(long)]
    pub against_sim: bool,
    /// Folder for a pcapng file of each run, both ends of all links in it
    #[arg(long, value_name = "DIR")]
    pub pcapng: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct PlotArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Schemes, drawn together [default: the scenario's]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    /// Number of the run to draw, from 0
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    pub run: u32,
    /// Threads: one run takes one, however many are given
    #[arg(long, short, default_value_t = 0, hide_short_help = true)]
    pub jobs: usize,
    /// Flow to draw [default: the first transfer; of web sessions, the first replies]
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
    /// Folder for the pictures and series.csv
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Time between two points of throughput, round trip and queue
    #[arg(long, value_name = "TIME", value_parser = time_span, default_value = "100 ms")]
    pub interval: TimeSpan,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// The study
    #[arg(value_name = "STUDY", value_parser = lasthop_study::reproduce::names())]
    pub study: String,
    /// Only this table
    #[arg(long, conflicts_with = "figure")]
    pub table: Option<String>,
    /// Only this figure
    #[arg(long)]
    pub figure: Option<String>,
    /// Root seed, a whole number from 0 on
    #[arg(long, short, allow_negative_numbers = true, value_parser = seed, default_value_t = 1)]
    pub seed: u64,
    /// Runs a cell
    #[arg(long, short = 'n', allow_negative_numbers = true, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Threads; 0 for one per core
    #[arg(long, short, allow_negative_numbers = true, default_value_t = 0)]
    pub jobs: usize,
    /// Folder for cells.csv, index.html and figures/; a study that was interrupted goes on where it stopped
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Scenario files to offer besides the ready-made ones
    #[arg(value_name = "FILE")]
    pub scenarios: Vec<PathBuf>,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8097")]
    pub listen: SocketAddr,
    /// A name under which browsers on other machines may ask for the page; may be repeated
    #[arg(long, value_name = "NAME")]
    pub host_name: Vec<String>,
    /// Open the page in a browser
    #[arg(long)]
    pub open: bool,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Explain it as this scheme has it: the endpoints that run then, and what the base station does
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct ManArgs {
    /// The command, as "gateway" or "gateway status" [default: all of lasthop]
    pub command: Vec<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, short, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

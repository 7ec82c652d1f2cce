//! Command line.

mod conform;
mod convert;
#[cfg(live)]
mod daemon;
mod diagnose;
#[cfg(live)]
mod gateway;
mod link;
#[cfg(live)]
mod status;
#[cfg(live)]
mod tunnel;

use std::ffi::OsString;
#[cfg(feature = "serve")]
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_scenario::units::TimeSpan;
use lasthop_scenario::{Scenario, did_you_mean};
use lasthop_study::link::time_span;
use lasthop_study::sweep::Axis;

#[cfg(live)]
pub use self::conform::Kinds;
pub use self::conform::{ConformArgs, Listed};
pub use self::convert::{ConvertArgs, Target};
#[cfg(live)]
pub use self::daemon::RecordArgs;
pub use self::diagnose::{DiagnoseArgs, Place};
#[cfg(live)]
pub use self::gateway::*;
pub use self::link::{AdviseArgs, FitArgs, LinkArgs};
#[cfg(live)]
pub use self::status::StatusArgs;
#[cfg(live)]
pub use self::tunnel::*;
use crate::error::Error;
use crate::progress::note;

/// Version and commit: `0.1.0 (1a2b3c4d5e6f)`. If the build script found no commit, version and digest of the sources.
const VERSION: &str = match option_env!("LASTHOP_VERSION") {
    Some(version) => version,
    None => lasthop_identity::BUILD,
};

/// Simulator, lab, gateway and tunnel for lossy last hops.
#[derive(Parser, Debug)]
#[command(version = VERSION, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the schemes
    Schemes(JsonArgs),
    /// List the ready-made scenarios
    Scenarios(JsonArgs),
    /// Run one scenario under one scheme
    Run(RunArgs),
    /// Run one scenario under several schemes with the same errors
    Compare(CompareArgs),
    /// Run all combinations of values of selected keys
    Sweep(SweepArgs),
    /// Trace one run segment by segment
    Trace(TraceArgs),
    /// Run a scenario with real TCP over emulated links in network namespaces (requires root)
    #[cfg(live)]
    Lab(LabArgs),
    /// Plot packets, windows, throughput, round trips and queues of one run over time
    Plot(PlotArgs),
    /// Reproduce a published study and compare with its numbers
    Reproduce(ReproduceArgs),
    /// Explore scenarios on a local web page
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Print a scenario with all defaults and the origin of each value
    Explain(ExplainArgs),
    /// Find the limit of each TCP flow in a packet capture, and the causes of its losses
    Diagnose(DiagnoseArgs),
    /// Measure rate, delay, queue and loss of the path to another machine, in both directions
    #[cfg(live)]
    Probe(crate::commands::probe::ProbeArgs),
    /// Fit channel models to a link's per-packet losses, and write the link as a scenario
    Fit(FitArgs),
    /// Convert traces of links between public formats and the CSV that scenarios read
    Convert(ConvertArgs),
    /// Run packetdrill scripts against a TCP of the simulator, and report those that differ
    Conform(ConformArgs),
    /// Find the cure that helps most on a link, and write its configuration
    ///
    /// SCENARIO may also be a measurement, which is fitted first: a folder written by `lasthop probe --out`, a packet capture, or a CSV of losses.
    Advise(AdviseArgs),
    /// Repair TCP connections that this machine forwards over a lossy hop
    #[cfg(live)]
    Gateway(GatewayArgs),
    /// Repair all traffic over a lossy hop, with a device at each end
    #[cfg(live)]
    Tunnel(TunnelArgs),
    /// Show the running gateway and tunnel, on a page if wanted
    #[cfg(live)]
    Status(StatusArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print a manual page
    #[command(hide = true)]
    Man(ManArgs),
    /// Print a table of the keys of scenarios, gateway or tunnel, for the documentation
    #[command(hide = true)]
    Keys(KeysArgs),
}

impl Command {
    /// Returns whether the command runs simulations or reads recordings, and handles no packets while it does.
    pub const fn simulates(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Compare(_)
                | Self::Sweep(_)
                | Self::Trace(_)
                | Self::Plot(_)
                | Self::Reproduce(_)
                | Self::Diagnose(_)
                | Self::Fit(_)
                | Self::Advise(_)
        )
    }
}

#[derive(Args, Debug)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A scenario and the changes to it.
#[derive(Args, Debug)]
pub struct ScenarioArgs {
    /// Scenario file, or the name of a ready-made one
    #[arg(value_name = "SCENARIO")]
    pub scenario: OsString,
    /// Set a key of the scenario, e.g. links.wireless.rate="1 Mbps"; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root seed, a non-negative integer [default: the scenario's]
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
                        "{name}: using the ready-made scenario, not the file of the same name; give {file} to use the file"
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

/// Number of runs and of threads.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Number of runs [default: the scenario's]
    #[arg(long, short = 'n', allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Number of threads; 0 for one per core
    #[arg(long, short, allow_negative_numbers = true, default_value_t = 0)]
    pub jobs: usize,
}

/// Parses a root seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected an integer from 0 to {}", u64::MAX))
}

/// Returns the scheme with this name, in any case.
pub fn scheme(name: &str) -> Result<&'static Scheme, String> {
    SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names = || SCHEMES.iter().map(|scheme| scheme.name);
        match did_you_mean(name, names()) {
            Some(near) => format!("no such scheme; did you mean {near}?"),
            None => format!("no such scheme; expected one of {}", names().collect::<Vec<_>>().join(", ")),
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
    /// Time between rows of the series
    #[arg(long, value_name = "TIME", value_parser = time_span, default_value = "100 ms", requires = "series")]
    pub interval: TimeSpan,
    /// Overwrite an existing file
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
    /// Print CSV with all metrics, one row per scheme
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub csv: bool,
    /// Write all metrics to this .csv or .parquet file, one row per scheme
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct SweepArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Key to vary and its values; may be repeated
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
    /// Write rows to this .csv or .parquet file; resumes an interrupted sweep
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite an existing file
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
    /// Number of the run to trace, from 0
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    pub run: u32,
    /// Number of threads; has no effect, since a run uses one
    #[arg(long, short, default_value_t = 0, hide_short_help = true)]
    pub jobs: usize,
    /// Print CSV (docs/trace-format.md) instead of text
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON object per record
    #[arg(long)]
    pub json: bool,
    /// Stop after this number of records
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Omit records before this simulated time, e.g. "1.5 s"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub from: Option<TimeSpan>,
    /// Stop after this simulated time, e.g. "2 s"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub to: Option<TimeSpan>,
    /// Write a pcapng file for Wireshark, with an interface and addresses for each capture point
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Show only this capture point, an end of a link, e.g. source or base:radio (an unknown name lists all)
    #[arg(long, value_name = "NAME")]
    pub point: Option<String>,
    /// Add the state of every TCP connection at this interval, e.g. "100 ms": the fields of Linux's `struct tcp_info`, as `ss -ti` shows them
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub tcp_info: Option<TimeSpan>,
    /// Overwrite a file that lasthop did not write
    #[arg(long, requires = "pcapng")]
    pub force: bool,
}

#[cfg(live)]
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    #[command(flatten)]
    pub run: LabRunArgs,
}

#[cfg(live)]
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Run a command behind a scenario's links, and report what they carried
    ///
    /// The command runs on a host of the scenario and uses the kernel's TCP; the scenario's flows do not run. Host names of the scenario
    /// resolve inside the lab. The command owns standard input and output. The exit status is the command's: 128 plus the signal number
    /// if a signal killed it, 125 if the lab fails, 126 if the command cannot be executed, 127 if it is not found.
    Exec(LabExecArgs),
    /// Open namespaces and links for other programs, print their names, and close them on Ctrl-C
    Hold(LabHoldArgs),
    /// Remove namespaces left behind by killed labs
    Clean,
}

#[cfg(live)]
#[derive(Args, Debug)]
pub struct LabExecArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme that the base station runs [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    /// Host that runs the command [default: destination of the scenario's first flow]
    #[arg(long, value_name = "HOST")]
    pub at: Option<String>,
    /// Start a shell command on another host first, e.g. "server:iperf3 -s -1", wait until it listens, and stop it after the
    /// command; may be repeated
    #[arg(long, value_name = "HOST:COMMAND")]
    pub serve: Vec<String>,
    /// Give all hosts access to the outside through this host, using this machine's address [default host: source of the first flow]
    #[arg(long, value_name = "HOST", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub nat: Option<String>,
    /// Name of the lab; its namespaces are called lh-NAME-node-HOST [default: lab, or lab2, lab3, ... if others are open]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Write statistics of the links as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot throughput, delay and queue of the links over time as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write throughput, delay, queue and losses of the links over time as CSV
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Capture both ends of all links to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Print only the output of the command
    #[arg(long, short)]
    pub quiet: bool,
    /// Command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[cfg(live)]
#[derive(Args, Debug)]
pub struct LabHoldArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme that the base station runs [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    /// Capture both ends of all links to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Print JSON: one line once the lab is open, another once it is closed
    #[arg(long)]
    pub json: bool,
}

#[cfg(live)]
#[derive(Args, Debug)]
pub struct LabRunArgs {
    #[command(flatten)]
    pub scenario: Option<ScenarioArgs>,
    /// Schemes [default: the scenario's]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    /// Number of runs, each in real time [default: the scenario's]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Also simulate the same runs, for comparison
    #[arg(long)]
    pub against_sim: bool,
    /// Capture both ends of all links to a pcapng file per run in this folder
    #[arg(long, value_name = "DIR")]
    pub pcapng: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct PlotArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Schemes to plot together [default: the scenario's]
    #[arg(long, visible_alias = "schemes", value_parser = scheme, value_delimiter = ',')]
    pub scheme: Vec<&'static Scheme>,
    /// Number of the run to plot, from 0
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    pub run: u32,
    /// Number of threads; has no effect, since a run uses one
    #[arg(long, short, default_value_t = 0, hide_short_help = true)]
    pub jobs: usize,
    /// Flow to plot [default: the first transfer; of web sessions, the first replies]
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
    /// Folder for the figures and series.csv
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Time between points of throughput, round trip and queue
    #[arg(long, value_name = "TIME", value_parser = time_span, default_value = "100 ms")]
    pub interval: TimeSpan,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Study to reproduce; without it, the studies are listed
    #[arg(value_name = "STUDY", value_parser = lasthop_study::reproduce::names())]
    pub study: Option<String>,
    /// Reproduce all studies, and write one page over them
    #[arg(long, conflicts_with = "study")]
    pub all: bool,
    /// Reproduce only this table; of studies with topics also a part, by the beginning of its cells: bulk/farm
    #[arg(long, conflicts_with = "figure", requires = "study")]
    pub table: Option<String>,
    /// Reproduce only this figure
    #[arg(long, requires = "study")]
    pub figure: Option<String>,
    /// Root seed, a non-negative integer
    #[arg(long, short, allow_negative_numbers = true, value_parser = seed, default_value_t = 1)]
    pub seed: u64,
    /// Number of runs per cell [default: by study, see the list]
    #[arg(long, short = 'n', allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Run the cells that the study names for it in the lab as well (root)
    #[arg(long, requires = "study")]
    pub lab: bool,
    /// Number of runs per cell in the lab
    #[arg(long, allow_negative_numbers = true, requires = "lab", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub lab_runs: u32,
    /// Number of threads; 0 for one per core
    #[arg(long, short, allow_negative_numbers = true, default_value_t = 0)]
    pub jobs: usize,
    /// Folder for cells.csv, index.html and figures/, with --all one per study in it; resumes an interrupted study
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[cfg(feature = "serve")]
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Scenario files to offer in addition to the ready-made ones
    #[arg(value_name = "FILE")]
    pub scenarios: Vec<PathBuf>,
    /// Address and port to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8097")]
    pub listen: SocketAddr,
    /// Host name under which other machines may request the page; may be repeated
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
    /// Explain the scenario under this scheme, with its endpoints and base station
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct ManArgs {
    /// Command, e.g. "gateway" or "gateway status" [default: lasthop itself]
    pub command: Vec<String>,
    /// Write the pages of all commands to this folder
    #[arg(long, short, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct KeysArgs {
    /// Name of the table, e.g. "links"
    pub table: String,
}

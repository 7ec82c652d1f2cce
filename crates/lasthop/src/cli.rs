//! Command line.

mod diagnose;
#[cfg(target_os = "linux")]
mod tunnel;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lasthop_proto::scheme::{SCHEMES, Scheme};
#[cfg(target_os = "linux")]
use lasthop_scenario::units::ByteSize;
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use lasthop_scenario::{Scenario, did_you_mean};
use lasthop_study::advise::{Needs, Use};
use lasthop_study::link::{bit_rate, time_span};
use lasthop_study::sweep::Axis;

pub use self::diagnose::{DiagnoseArgs, Place};
#[cfg(target_os = "linux")]
pub use self::tunnel::*;
use crate::error::Error;

/// What a lossy last hop does to TCP, and what cures it.
#[derive(Parser, Debug)]
#[command(version, max_term_width = 100)]
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
    /// Draw sequence and window plots of one run
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
    /// Root seed [default: the scenario's]
    #[arg(long, short)]
    pub seed: Option<u64>,
}

impl ScenarioArgs {
    pub fn open(&self) -> Result<Scenario, Error> {
        // A name that is no text can only be a file's.
        let scenario = match self.scenario.to_str() {
            Some(name) => Scenario::open(name)?,
            None => Scenario::load(&self.scenario)?,
        };
        self.with_overrides(scenario)
    }

    /// `scenario` with what `--set` says.
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
}

/// How often to run, and on how many threads.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Runs [default: the scenario's]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Threads; 0 for one per core
    #[arg(long, short, default_value_t = 0)]
    pub jobs: usize,
}

/// The scheme by its name, in capitals or not.
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
    #[arg(long, default_value_t = 0)]
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
    /// Open namespaces and links for other programs, print their names, and close them at Ctrl-C
    Hold(LabHoldArgs),
    /// Remove what labs that were killed left behind
    Clean,
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
    #[arg(long, default_value_t = 0)]
    pub run: u32,
    /// Threads: one run takes one, however many are given
    #[arg(long, short, default_value_t = 0, hide_short_help = true)]
    pub jobs: usize,
    /// Flow to draw [default: the first transfer; of web sessions, the first replies]
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
    /// Folder for the pictures
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
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
    /// Root seed
    #[arg(long, short, default_value_t = 1)]
    pub seed: u64,
    /// Runs a cell
    #[arg(long, short = 'n', default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Threads; 0 for one per core
    #[arg(long, short, default_value_t = 0)]
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

/// What a link lost, and what else is known of it.
#[derive(Args, Debug)]
pub struct FitArgs {
    /// Losses on the way to the client: 0 (arrives) and 1 (lost), a CSV with the columns sent_s and lost, the output of `ping -D -O`, a packet capture, or the folder (or its probe.json) that `lasthop probe --out` wrote
    #[arg(value_name = "TRACE")]
    pub down: PathBuf,
    /// Losses on the way from the client
    #[arg(long, value_name = "TRACE")]
    pub up: Option<PathBuf>,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Write the link as a scenario, ready for `compare`; needs --rate and --delay, which a probe has and a capture may have
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// What is known of a link that was measured.
#[derive(Args, Debug)]
pub struct LinkArgs {
    /// The link's rate, as "10 Mbps": packets are on the air for their length
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    pub rate: Option<BitRate>,
    /// The link's delay, one way, as "20 ms"
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub delay: Option<TimeSpan>,
    /// The delay of the path behind the base station, one way [default: 20 ms]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub wire_delay: Option<TimeSpan>,
    /// The queue before the link, as "100 packets" [default: 100 packets]
    #[arg(long, value_name = "SIZE")]
    pub queue: Option<QueueSize>,
}

/// A link, what can be changed, and what it is for.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    #[command(flatten)]
    pub link: LinkArgs,
    /// What can be changed: the senders' settings, a box in front of the hop, boxes at both its ends [default: all three]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Needs::by_name)]
    pub control: Vec<Needs>,
    /// What the link is for: bulk, pages, call [default: all]
    #[arg(long = "for", value_name = "USE", value_delimiter = ',', value_parser = Use::by_name)]
    pub uses: Vec<Use>,
    /// Runs of each cure and use [default: 10, and up to 40 while a gain may be chance]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Threads; 0 for one per core
    #[arg(long, short, default_value_t = 0)]
    pub jobs: usize,
    /// Write the configuration of the advised cure, and beside it what is promised; in a folder under names of their own
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The gateway's interface towards the hop, as wlan0, for the configuration of a box
    #[arg(long, value_name = "NAME", requires = "out")]
    pub interface: Option<String>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub tunnel: TunnelEndsArgs,
    /// Replace the file if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
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

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct GatewayArgs {
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    #[command(flatten)]
    pub run: Option<GatewayRunArgs>,
}

#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewayRunArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print every rule that would be installed, and install none
    #[arg(long)]
    pub dry_run: bool,
    // Not flattened: these arguments are optional as a whole, which clap does not see through two levels.
    /// Record every packet's headers and what was decided on it, as pcapng, in a new file
    #[arg(long, value_name = "FILE.pcapng")]
    pub record: Option<PathBuf>,
    /// Largest recording
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = byte_size)]
    pub record_limit: ByteSize,
}

/// Where a daemon records.
#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Record every packet's headers and what was decided on it, as pcapng, in a new file
    #[arg(long, value_name = "FILE.pcapng")]
    pub record: Option<PathBuf>,
    /// Largest recording
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = byte_size)]
    pub record_limit: ByteSize,
}

/// A number of bytes, as "1 GiB".
#[cfg(target_os = "linux")]
fn byte_size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|error| format!("{error}; give a number of bytes, as \"1 GiB\""))
}

#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewayCheckArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewaySocketArgs {
    /// The gateway's control socket, as its configuration names it
    #[arg(long, value_name = "PATH", default_value = lasthop_gateway::configuration::DEFAULT_CONTROL)]
    pub control: PathBuf,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewayCleanArgs {
    /// Configuration file, for the control socket that it names
    #[arg(value_name = "FILE", conflicts_with = "control")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub socket: GatewaySocketArgs,
}

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewayAskArgs {
    #[command(flatten)]
    pub socket: GatewaySocketArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
pub struct GatewayStatusArgs {
    #[command(flatten)]
    pub ask: GatewayAskArgs,
    /// Ask again every so many seconds, until Ctrl-C; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = interval)]
    pub watch: Option<std::time::Duration>,
}

/// Seconds between two questions.
#[cfg(target_os = "linux")]
fn interval(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(std::time::Duration::from_secs_f64).ok_or_else(|| "give 0.1 to 86400 seconds, as --watch=2".to_owned())
}

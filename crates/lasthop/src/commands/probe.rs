//! `lasthop probe`

mod moving;
mod page;
mod summary;

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use lasthop_probe::client::{LEAST_RATE, Progress, SECONDS, Way};
use lasthop_probe::live::{Listener, PORT, Stop, measure};
use lasthop_probe::report::{Analysis, Recording, analyse};
use lasthop_probe::{ClientConfig, Event, Key, MOST_SESSIONS, ServerConfig};
use lasthop_scenario::units::BitRate;
use lasthop_study::link::bit_rate;
use serde_json::json;
use signal_hook::consts::SIGTERM;

use crate::cli::JsonArgs;
use crate::commands::tunnel::secrets;
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::{CtrlC, note};
use crate::terminal::{fold, width};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ProbeArgs {
    #[command(subcommand)]
    pub command: Option<ProbeCommand>,
    #[command(flatten)]
    pub measure: MeasureArgs,
}

#[derive(Subcommand, Debug)]
pub enum ProbeCommand {
    /// Run the other end, which serves only clients that have the key
    Serve(ProbeServeArgs),
    /// Generate the key that both ends share
    Keygen(ProbeKeygenArgs),
}

/// A path to measure.
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// Host that runs `lasthop probe serve`, optionally with a port; an IPv6 address with a port in brackets
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// File with the shared key
    #[arg(long, short, value_name = "FILE", required = true)]
    pub key: Option<PathBuf>,
    /// Maximum duration in seconds, 10 to 300; rare losses require longer measurements
    #[arg(long, value_name = "N", default_value_t = SECONDS[1], value_parser = clap::value_parser!(u64).range(SECONDS[0]..=SECONDS[2]))]
    pub seconds: u64,
    /// Follow rates that move: trains every 0.2 s for this time, then overloads of 1 s
    #[arg(long)]
    pub moving: bool,
    /// Maximum sending rate in either direction, e.g. "50 Mbps"; the measured rate cannot exceed it [default: 1 Gbps]
    #[arg(long, value_name = "RATE", value_parser = probe_rate)]
    pub max_rate: Option<BitRate>,
    /// Folder for probe.json, down.csv, up.csv and index.html; with --moving, trace.csv and rates instead of the page
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also record the rate over time for another emulator: mahimahi, leoreplayer
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', value_parser = moving::recording, requires_all = ["moving", "out"])]
    pub record: Vec<Recording>,
    /// Overwrite the files of an earlier probe
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Args, Debug)]
pub struct ProbeServeArgs {
    /// File with the shared key
    #[arg(long, short, value_name = "FILE")]
    pub key: PathBuf,
    /// Address and port to listen on [default: port 4105 of all addresses]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Maximum sending rate for all clients together, e.g. "50 Mbps" [default: 1 Gbps]
    #[arg(long, value_name = "RATE", value_parser = probe_rate)]
    pub max_rate: Option<BitRate>,
    /// Maximum number of concurrent clients; those that share a link disturb each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MOST_SESSIONS as i64))]
    pub sessions: u8,
}

#[derive(Args, Debug)]
pub struct ProbeKeygenArgs {
    /// New file for the key, readable only by its owner [default: print it]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Parses a rate that is high enough for trains.
fn probe_rate(text: &str) -> Result<BitRate, String> {
    match bit_rate(text)? {
        BitRate(rate) if rate < LEAST_RATE => Err("expected at least \"64 kbps\"".to_owned()),
        rate => Ok(rate),
    }
}

/// Default maximum rate in bits per second.
const MAX_RATE: u64 = 1_000_000_000;

pub fn execute(args: &ProbeArgs) -> Result<(), Error> {
    match &args.command {
        Some(ProbeCommand::Serve(args)) => serve(args),
        Some(ProbeCommand::Keygen(args)) => keygen(args),
        None => probe(&args.measure),
    }
}

fn keygen(args: &ProbeKeygenArgs) -> Result<(), Error> {
    let key = Key::from_bytes(secrets::entropy()?.bytes()).to_base64();
    match &args.file {
        Some(file) => secrets::write(file, &key),
        None => Ok(writeln!(stdout().lock(), "{key}")?),
    }
}

fn key(path: &Path) -> Result<Key, Error> {
    let wrong = |what: String| Error::ProbeKey { path: path.to_path_buf(), what };
    // The error already contains the file's name.
    let named = format!("{}: ", path.display());
    let text = lasthop_tunneld::secrets::read(path)
        .map_err(|said| wrong(said.strip_prefix(&named).unwrap_or(&said).to_owned()))?;
    Key::parse(&text).map_err(|error| wrong(error.to_string()))
}

/// Registers Ctrl-C and SIGTERM, which a service manager sends.
fn stops() -> Result<impl Fn() -> Stop, Error> {
    let ctrl_c = CtrlC::heard();
    let terminated = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, terminated.clone()).map_err(Error::Signals)?;
    Ok(move || {
        let stop = ctrl_c.pressed() || terminated.load(std::sync::atomic::Ordering::Relaxed);
        if stop { Stop::Now } else { Stop::NotYet }
    })
}

fn serve(args: &ProbeServeArgs) -> Result<(), Error> {
    let key = key(&args.key)?;
    let stop = stops()?;
    let listener = Listener::bind(args.listen)?;
    let addresses: Vec<String> = listener.addresses().iter().map(ToString::to_string).collect();
    note(&format!("probe: listening at {}", addresses.join(" and ")));
    let config =
        ServerConfig { max_rate: args.max_rate.map_or(MAX_RATE, |rate| rate.0), sessions: usize::from(args.sessions) };
    listener.serve(key, secrets::entropy()?.bytes(), config, |event| {
        match event {
            Some(Event::Opened(peer)) => note(&format!("probe: {peer} started a measurement")),
            Some(Event::Closed(peer)) => note(&format!("probe: {peer} finished")),
            Some(Event::Busy(peer)) => note(&format!("probe: refused {peer}: all sessions are in use")),
            None => {}
        }
        stop()
    })?;
    Ok(())
}

/// Resolves `host` to an address.
fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let wrong = |what: String| Error::ProbeHost { host: host.to_owned(), what };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok((address, PORT).into());
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => {
            let port = port.parse::<u16>().ok().filter(|port| *port > 0);
            (name.trim_start_matches('[').trim_end_matches(']'), port.ok_or_else(|| wrong("invalid port".to_owned()))?)
        }
        None => (host.trim_start_matches('[').trim_end_matches(']'), PORT),
    };
    let mut found = (name, port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("no address found".to_owned()))
}

fn probe(args: &MeasureArgs) -> Result<(), Error> {
    let host = args.host.as_deref().ok_or(Error::NoProbeHost)?;
    let key = key(args.key.as_deref().ok_or(Error::NoProbeHost)?)?;
    if let Some(report) =
        args.out.as_ref().map(|out| out.join("probe.json")).filter(|file| file.exists() && !args.force)
    {
        return Err(Error::Exists { path: report });
    }
    let server = resolve(host)?;
    // Reports an unusable folder now, not after a minute.
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(Error::file(out))?;
    }
    let stop = stops()?;
    let config = ClientConfig {
        key,
        server,
        lasts: lasthop_proto::time::Duration::from_secs(args.seconds),
        max_rate: args.max_rate.map_or(MAX_RATE, |rate| rate.0),
        moving: args.moving,
        nonce: secrets::entropy()?.bytes(),
    };
    let shown = Shown::new();
    let measured = measure(config, |progress| {
        shown.tell(&progress);
        stop()
    });
    shown.finish();
    let measured = measured?;
    let name = if host == server.to_string() { host.to_owned() } else { format!("{host} ({server})") };
    let thin = |at: usize| !measured.logs[at].packets.iter().any(|packet| packet.arrived.is_some());
    let way = if thin(0) { "downlink" } else { "uplink" };
    let (stopped, seconds) = (measured.stopped, measured.seconds);
    if args.moving {
        moving::report(args, measured, name, way)?;
        return if stopped { Err(Error::ProbeStopped { seconds }) } else { Ok(()) };
    }
    let analysis = analyse(measured, &name).ok_or(Error::ProbeThin { server: name, way })?;
    if let Some(out) = &args.out {
        write(out, &analysis)?;
    }
    if args.json.json {
        print_json(&json!(analysis.report))?;
    } else {
        let mut out = stdout().lock();
        write!(out, "{}", fold(&summary::text(&analysis.report), width()))?;
        if let Some(folder) = &args.out {
            let folder = folder.display();
            // The complete command on a line of its own, for copying.
            writeln!(out, "\nwrote {folder}; next:\nlasthop fit {folder} --out link.toml")?;
        }
    }
    if stopped { Err(Error::ProbeStopped { seconds }) } else { Ok(()) }
}

fn write(folder: &Path, analysis: &Analysis) -> Result<(), Error> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        write_file(&path, |out| out.write_all(text.as_bytes()).map_err(Error::file(&path)))
    };
    let [down, up] = Way::BOTH.map(|way| analysis.trace(way));
    file(&analysis.report.down.trace, &down)?;
    file(&analysis.report.up.trace, &up)?;
    file("index.html", &lasthop_report::html::figure_page(&page::page(analysis, folder))?)?;
    let report = serde_json::to_string_pretty(&analysis.report).map_err(std::io::Error::from)?;
    // This file comes last: its presence shows that the others are complete.
    file("probe.json", &(report + "\n"))
}

/// Progress on standard error: a bar on a terminal, otherwise occasional lines.
struct Shown {
    bar: Option<ProgressBar>,
    next: Cell<Instant>,
}

impl Shown {
    /// Interval between plain lines.
    const EVERY: Duration = Duration::from_secs(10);

    fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}%");
            ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, next: Cell::new(Instant::now() + Self::EVERY) }
    }

    fn tell(&self, progress: &Progress) {
        let Progress { doing, share, arrived: [down, up] } = progress;
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{doing}: {down} packets down, {up} up"));
                bar.set_position((share * 1000.0) as u64);
            }
            None if Instant::now() >= self.next.get() => {
                self.next.set(Instant::now() + Self::EVERY);
                note(&format!("probe: {doing}: {:.0} %, {down} packets down, {up} up", share * 100.0));
            }
            None => {}
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

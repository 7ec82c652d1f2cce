//! Errors, each in one line.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use lasthop_report::ReportError;
use lasthop_study::link::LinkError;
use lasthop_study::series::SeriesError;
use lasthop_study::study::StudyError;
use lasthop_study::sweep::SweepError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error(transparent)]
    Sweep(#[from] SweepError),
    #[error(transparent)]
    Overflow(#[from] lasthop_sim::Overflow),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("--flow {given}: there {}", if *flows == 1 { "is one flow".to_owned() } else { format!("are {flows} flows") })]
    FlowNumber { given: u32, flows: usize },
    #[error("--between takes two captures, not {given}")]
    TwoCaptures { given: usize },
    #[error("--{flag} takes one capture, not {given}")]
    OneCapture { flag: &'static str, given: usize },
    #[error("--{flag} reads a capture twice, which standard input does not allow; give a file instead of -")]
    ReadTwice { flag: &'static str },
    #[error("- is standard input, which is one capture; give it alone, not among {given} captures")]
    OneInput { given: usize },
    #[error("--{flag} {}: there is a file already; give another name, or --force to replace it", path.display())]
    There { flag: &'static str, path: PathBuf },
    #[error("--{flag} {}: that is the capture itself; give another name", path.display())]
    Itself { flag: &'static str, path: PathBuf },
    #[error(
        "fit --out: --rate and --delay are needed, as --rate \"10 Mbps\" --delay \"20 ms\"; or fit what `lasthop probe --out` wrote, which has them"
    )]
    FitOut,
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    #[error("--set {given}: expected KEY=VALUE, such as links.wireless.rate=\"1 Mbps\"")]
    Set { given: String },
    #[error("--point {given}: no such capture point; there are {}", points.join(", "))]
    Point { given: String, points: Vec<String> },
    #[error("--flow {given}: no such flow; there are {}", first_names(flows))]
    Flow { given: String, flows: Vec<String> },
    #[error("{}: there is something else than {what} in it; give another name, or --force to replace it", path.display())]
    Foreign { path: PathBuf, what: &'static str },
    #[error("--interval: {0}")]
    Series(#[from] SeriesError),
    #[error("--series {}: there is a file already; give another name, or --force to replace it", path.display())]
    SeriesExists { path: PathBuf },
    #[error("--out {}: there is a file already; give another name, or --force to replace it", path.display())]
    Exists { path: PathBuf },
    #[error("--out {}: no cure helps here, so there is nothing to configure", path.display())]
    NothingHelps { path: PathBuf },
    #[error("--out {}: the configuration of {cure} names the gateway's interface towards the hop; give --interface, as wlan0", path.display())]
    NoInterface { path: PathBuf, cure: &'static str },
    #[error("--{flag}: {message}")]
    Site { flag: &'static str, message: String },
    #[cfg(not(target_os = "linux"))]
    #[error("--out {}: the two-ended link runs on Linux only; --control sender,box is for what one file can do", path.display())]
    TwoEnds { path: PathBuf },
    #[cfg(target_os = "linux")]
    #[error("{}: {what}", path.display())]
    TunnelKey { path: PathBuf, what: String },
    #[cfg(target_os = "linux")]
    #[error("{what}")]
    TunnelKeyFile { what: String },
    #[error(
        "--{flag}: is for a measurement, which may not have it; a scenario's keys are changed with --set, as --set links.hop.rate=\"1 Mbps\""
    )]
    ScenarioHas { flag: &'static str },
    #[error("stopped at {at:.3} s of simulated time")]
    StoppedAt { at: f64 },
    #[error("--out {}: expected a file whose name ends in .csv or .parquet, not a folder", path.display())]
    SweepFile { path: PathBuf },
    #[error("{}: holds another sweep; its first line is not `{expected}`; give another --out, or remove it", path.display())]
    OtherSweep { path: PathBuf, expected: String },
    #[error("stopped: {done} of {total} points are in {}; the same command goes on from there", path.display())]
    SweepStopped { done: usize, total: usize, path: PathBuf },
    #[error("stopped: {done} of {total} cells are in {}; the same command goes on from there", path.display())]
    StudyStopped { done: usize, total: usize, path: PathBuf },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Supervisor(#[from] lasthop_gateway::daemon::supervisor::SupervisorError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Worker(#[from] lasthop_gateway::daemon::worker::WorkerError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Tunnel(#[from] lasthop_tunneld::daemon::supervisor::SupervisorError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    TunnelWorker(#[from] lasthop_tunneld::daemon::worker::WorkerError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Control(#[from] lasthop_daemon::control::ControlError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Firewall(#[from] lasthop_gateway::firewall::FirewallError),
    #[cfg(target_os = "linux")]
    #[error("{}: there is a file already, perhaps a key in use; give another name, or remove it", path.display())]
    KeyExists { path: PathBuf },
    #[cfg(target_os = "linux")]
    #[error("{0}; give a file that `lasthop tunnel keygen` wrote, or its text on standard input")]
    PrivateKey(String),
    #[cfg(target_os = "linux")]
    #[error("the operating system gives no randomness: {0}")]
    Randomness(io::Error),
    #[cfg(target_os = "linux")]
    #[error("{}: {missing} of {total} checks failed", file.display())]
    Check { file: PathBuf, missing: usize, total: usize },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Recording(#[from] lasthop_gateway::engine::recording::reader::RecordingError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    TunnelRecording(#[from] lasthop_daemon::recording::reader::ReadError),
    #[cfg(target_os = "linux")]
    #[error("{}: {differences} of {calls} decisions differ, first at {first}", file.display())]
    Replay { file: PathBuf, differences: u64, calls: u64, first: String },
    #[cfg(target_os = "linux")]
    #[error(
        "--link: the gateway keeps no packets; its configuration needs link = \"16 MiB\" under [limits], and a restart"
    )]
    NoTape,
    #[cfg(target_os = "linux")]
    #[error("--link: {}: {error}; the worker's memory is read by root alone", path.display())]
    Tape { path: PathBuf, error: io::Error },
    #[cfg(target_os = "linux")]
    #[error("--promise {}: {error}", path.display())]
    Promise { path: PathBuf, error: lasthop_study::promise::PromiseError },
    #[error("man {given}: no such command")]
    Man { given: String },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Lab(#[from] lasthop_lab::LabError),
    #[error("--listen {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Probe(#[from] lasthop_probe::live::ProbeError),
    #[cfg(target_os = "linux")]
    #[error("probe: give the host that `lasthop probe serve` runs on, or `serve`, or `keygen`")]
    NoProbeHost,
    #[cfg(target_os = "linux")]
    #[error("--key {}: {what}", path.display())]
    ProbeKey { path: PathBuf, what: String },
    #[cfg(target_os = "linux")]
    #[error("{host}: {what}; give a name or an address, with a port as HOST:PORT or [ADDRESS]:PORT")]
    ProbeHost { host: String, what: String },
    #[cfg(target_os = "linux")]
    #[error("{server}: too little arrived to tell a rate {way}")]
    ProbeThin { server: String, way: &'static str },
    #[cfg(target_os = "linux")]
    #[error("stopped after {seconds:.0} s; what was measured until then is kept")]
    ProbeStopped { seconds: f64 },
    #[cfg(target_os = "linux")]
    #[error("lab: give a scenario file, the name of a ready-made one, or `clean`")]
    NoLabScenario,
    /// The error has been reported; this is the exit status.
    #[cfg(target_os = "linux")]
    #[error("exit status {0}")]
    Status(u8),
    #[cfg(target_os = "linux")]
    #[error("--serve {given}: expected HOST:COMMAND, such as \"server:iperf3 -s -1\"")]
    Serve { given: String },
    #[error("cannot listen to signals: {0}")]
    Signals(io::Error),
    #[error("stopped: {done} of {total} {what} are done")]
    Stopped { done: usize, total: usize, what: &'static str },
}

/// Joins names, up to a limit.
fn first_names(names: &[String]) -> String {
    const MOST: usize = 20;
    let more = if names.len() > MOST { format!(" and {} more", names.len() - MOST) } else { String::new() };
    names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ") + &more
}

impl Error {
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Report(error) => error.is_broken_pipe(),
            _ => false,
        }
    }
}

//! Errors, each in one line.

use std::io;
#[cfg(feature = "serve")]
use std::net::SocketAddr;
use std::path::PathBuf;

use lasthop_convert::ConvertError;
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
    #[error(transparent)]
    Convert(#[from] ConvertError),
    #[error("{failed} of {total} scripts failed; --list failed shows the first difference of each")]
    Conform { failed: usize, total: usize },
    #[cfg(live)]
    #[error("--kernel: cannot run {}: {error}; run as root, and name the program with --packetdrill", program.display())]
    Packetdrill { program: PathBuf, error: io::Error },
    #[cfg(live)]
    #[error("--differential: cannot set up the kernel's side: {0}; run as root")]
    Kernel(io::Error),
    #[error("{}: no scripts (*.pkt); give a script or a folder that contains some", path.display())]
    NoScripts { path: PathBuf },
    #[error("--to: files are written for each direction; give their name with --out")]
    ConvertOut,
    #[error("--flow {given}: no such flow; the capture has {}", if *flows == 1 { "one flow".to_owned() } else { format!("{flows} flows") })]
    FlowNumber { given: u32, flows: usize },
    #[error("--between requires two captures, not {given}")]
    TwoCaptures { given: usize },
    #[error("--{flag} requires exactly one capture, not {given}")]
    OneCapture { flag: &'static str, given: usize },
    #[error("--{flag} reads the capture twice and cannot use standard input; give a file instead of -")]
    ReadTwice { flag: &'static str },
    #[error("- (standard input) cannot be combined with other captures ({given} given); give it alone")]
    OneInput { given: usize },
    #[error("--{flag} {}: file exists; give another name, or --force to overwrite it", path.display())]
    There { flag: &'static str, path: PathBuf },
    #[error("--{flag} {}: is the capture itself; give another name", path.display())]
    Itself { flag: &'static str, path: PathBuf },
    #[error(
        "fit --out: --rate and --delay are missing; give both, e.g. --rate \"10 Mbps\" --delay \"20 ms\", or fit the folder of a `lasthop probe --out`, which contains them"
    )]
    FitOut,
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    #[error("--set {given}: expected KEY=VALUE, e.g. links.wireless.rate=\"1 Mbps\"")]
    Set { given: String },
    #[error("--point {given}: no such capture point; expected one of {}", points.join(", "))]
    Point { given: String, points: Vec<String> },
    #[error("--flow {given}: no such flow; expected one of {}", first_names(flows))]
    Flow { given: String, flows: Vec<String> },
    #[error("{}: file exists and is not {what}; give another name, or --force to overwrite it", path.display())]
    Foreign { path: PathBuf, what: &'static str },
    #[error("--interval: {0}")]
    Series(#[from] SeriesError),
    #[error("--series {}: file exists; give another name, or --force to overwrite it", path.display())]
    SeriesExists { path: PathBuf },
    #[error("--out {}: file exists; give another name, or --force to overwrite it", path.display())]
    Exists { path: PathBuf },
    #[error("--out {}: no cure helps on this link, so there is no configuration to write", path.display())]
    NothingHelps { path: PathBuf },
    #[error("--out {}: the configuration of {cure} requires the gateway's interface towards the hop; give --interface, e.g. wlan0", path.display())]
    NoInterface { path: PathBuf, cure: String },
    #[error("--{flag}: {message}")]
    Site { flag: &'static str, message: String },
    #[cfg(not(live))]
    #[error("--out {}: this build has no tunnel (it requires Linux and the feature `live`); give --control sender,box to exclude it", path.display())]
    TwoEnds { path: PathBuf },
    #[cfg(live)]
    #[error("{}: {what}", path.display())]
    TunnelKey { path: PathBuf, what: String },
    #[cfg(live)]
    #[error("{what}")]
    TunnelKeyFile { what: String },
    #[error(
        "--{flag}: applies only to measurements; to change a scenario, use --set, e.g. --set links.hop.rate=\"1 Mbps\""
    )]
    ScenarioHas { flag: &'static str },
    #[error("stopped at {at:.3} s of simulated time")]
    StoppedAt { at: f64 },
    #[error("--out {}: expected a file name ending in .csv or .parquet, not a folder", path.display())]
    SweepFile { path: PathBuf },
    #[error("{}: holds another sweep, or that of another build; its first line is not `{expected}`; give another --out, or remove the file", path.display())]
    OtherSweep { path: PathBuf, expected: String },
    #[error("stopped: {done} of {total} points are in {}; repeat the command to continue", path.display())]
    SweepStopped { done: usize, total: usize, path: PathBuf },
    #[error("stopped: {done} of {total} cells are in {}; repeat the command to continue", path.display())]
    StudyStopped { done: usize, total: usize, path: PathBuf },
    #[cfg(live)]
    #[error(transparent)]
    Supervisor(#[from] lasthop_gateway::daemon::supervisor::SupervisorError),
    #[cfg(live)]
    #[error(transparent)]
    Worker(#[from] lasthop_gateway::daemon::worker::WorkerError),
    #[cfg(live)]
    #[error(transparent)]
    Tunnel(#[from] lasthop_tunneld::daemon::supervisor::SupervisorError),
    #[cfg(live)]
    #[error(transparent)]
    TunnelWorker(#[from] lasthop_tunneld::daemon::worker::WorkerError),
    #[cfg(live)]
    #[error(transparent)]
    Control(#[from] lasthop_daemon::control::ControlError),
    #[cfg(live)]
    #[error(
        "no gateway or tunnel is running at {}; start one (`lasthop gateway FILE`, `lasthop tunnel run FILE`), or name its control socket with --gateway or --tunnel",
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
    )]
    NoDaemon { paths: Vec<PathBuf> },
    #[cfg(live)]
    #[error(transparent)]
    Firewall(#[from] lasthop_gateway::firewall::FirewallError),
    #[cfg(live)]
    #[error("{}: file exists and may contain a key in use; give another name, or remove the file", path.display())]
    KeyExists { path: PathBuf },
    #[cfg(live)]
    #[error("{0}; give a file written by `lasthop tunnel keygen`, or its contents on standard input")]
    PrivateKey(String),
    #[cfg(live)]
    #[error("cannot get random bytes from the operating system: {0}")]
    Randomness(io::Error),
    #[cfg(live)]
    #[error("{}: {missing} of {total} checks failed", file.display())]
    Check { file: PathBuf, missing: usize, total: usize },
    #[cfg(live)]
    #[error(transparent)]
    Recording(#[from] lasthop_gateway::engine::recording::reader::RecordingError),
    #[cfg(live)]
    #[error(transparent)]
    TunnelRecording(#[from] lasthop_daemon::recording::reader::ReadError),
    #[cfg(live)]
    #[error("{}: {differences} of {calls} decisions differ, first at {first}", file.display())]
    Replay { file: PathBuf, differences: u64, calls: u64, first: String },
    #[cfg(live)]
    #[error(
        "--link: the gateway does not record packet headers; set link = \"16 MiB\" under [limits] in its configuration, and restart it"
    )]
    NoTape,
    #[cfg(live)]
    #[error("--link: {}: {error}; run as root, since only root can read the worker's memory", path.display())]
    Tape { path: PathBuf, error: io::Error },
    #[cfg(live)]
    #[error("--promise {}: {error}", path.display())]
    Promise { path: PathBuf, error: lasthop_study::promise::PromiseError },
    #[error("man {given}: no such command")]
    Man { given: String },
    #[error("keys {given}: no such table")]
    Keys { given: String },
    #[cfg(live)]
    #[error(transparent)]
    Lab(#[from] lasthop_lab::LabError),
    #[cfg(feature = "serve")]
    #[error("--{flag} {address}: {error}{}", if error.kind() == io::ErrorKind::AddrInUse { "; give another port, or 0 for a free one" } else { "" })]
    Listen { flag: &'static str, address: SocketAddr, error: io::Error },
    #[cfg(live)]
    #[error(transparent)]
    Probe(#[from] lasthop_probe::live::ProbeError),
    #[cfg(live)]
    #[error("probe: no host given; give the host that runs `lasthop probe serve`, or a subcommand (`serve`, `keygen`)")]
    NoProbeHost,
    #[cfg(live)]
    #[error("--key {}: {what}", path.display())]
    ProbeKey { path: PathBuf, what: String },
    #[cfg(live)]
    #[error("{host}: {what}; expected HOST, HOST:PORT or [ADDRESS]:PORT")]
    ProbeHost { host: String, what: String },
    #[cfg(live)]
    #[error("{server}: too few packets arrived to estimate the rate of the {way}")]
    ProbeThin { server: String, way: &'static str },
    #[cfg(live)]
    #[error("stopped after {seconds:.0} s; results until then are kept")]
    ProbeStopped { seconds: f64 },
    #[cfg(live)]
    #[error(
        "lab: no scenario given; give a scenario file or the name of a ready-made scenario, or a subcommand (`exec`, `hold`, `clean`)"
    )]
    NoLabScenario,
    /// The error has been reported; this is the exit status.
    #[cfg(live)]
    #[error("exit status {0}")]
    Status(u8),
    #[cfg(live)]
    #[error("--serve {given}: expected HOST:COMMAND, e.g. \"server:iperf3 -s -1\"")]
    Serve { given: String },
    #[error("cannot handle signals: {0}")]
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

//! The base station: what a scheme adds to the router's plain forwarding.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{thread, time};

use lasthop_gateway::configuration::{Gateway, Mode, Network, OpenedBy, Rule, SideSettings, SplitSettings};
use lasthop_gateway::daemon::control::{self, Request};
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::{BaseStation, Scheme, TcpAwareness};
use lasthop_proto::tcp::config::{Recovery, TcpConfig};
use lasthop_scenario::elements::{Snoop, Split};
use lasthop_scenario::units::Fraction;
use lasthop_sim::element::{AnyElement, Role};
use lasthop_sys::namespace::run_in;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::capture::Captures;
use super::error::LabError;
use super::kernel;
use super::namespace::Namespace;

/// Where a scheme's part at the base station goes.
pub struct Site<'l> {
    /// The router's namespace; devices, addresses and routes are up, and it forwards.
    pub namespace: &'l Namespace,
    /// The router's name in the scenario.
    pub router: &'l str,
    /// The device towards the lossy link.
    pub wireless: String,
    /// The router's other devices.
    pub wired: Vec<String>,
    /// The hosts beyond the lossy link.
    pub beyond: Vec<Ipv4Addr>,
    /// What the simulator runs there, with all its parameters.
    pub element: &'l AnyElement,
    /// Whether its decisions are recorded.
    pub captures: Captures,
}

/// A base station at work: it ends when this is dropped, before the namespace goes.
pub trait Running: Send {
    /// What it counted so far.
    ///
    /// # Errors
    ///
    /// When it cannot say: it may have ended too early.
    fn counts(&self) -> Result<StationCounts, LabError>;

    /// Ends it. What it decided, if that was recorded ([`lasthop_gateway::engine::recording`]).
    fn end(self: Box<Self>) -> Option<Vec<u8>>;
}

/// What only the base station knows, over all flows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StationCounts {
    /// Retransmission timers that expired at a relay.
    pub relay_timeouts: u64,
    /// Duplicate acknowledgments that it kept back.
    pub dupacks_suppressed: u64,
    /// How often its worker had to be replaced.
    pub restarts: u64,
    /// How often packets passed it by, because it was too slow.
    pub overflows: u64,
}

impl StationCounts {
    /// Those of two stations.
    pub fn and(self, other: Self) -> Self {
        Self {
            relay_timeouts: self.relay_timeouts + other.relay_timeouts,
            dupacks_suppressed: self.dupacks_suppressed + other.dupacks_suppressed,
            restarts: self.restarts + other.restarts,
            overflows: self.overflows + other.overflows,
        }
    }

    /// Why a run does not count, if it does not: the scheme did not see all packets.
    pub fn void(&self) -> Option<String> {
        let Self { restarts, overflows, .. } = *self;
        let why = format!("its worker was replaced: {restarts}, it was too slow: {overflows}");
        (restarts + overflows > 0).then(|| format!("packets passed the gateway untreated ({why})"))
    }
}

/// Starts what `scheme` does at the base station, and returns when it is ready for packets: the gateway, as an operator would
/// run it, which is this program again.
///
/// It does not outlive this process, not even one that is killed.
///
/// # Errors
///
/// When the gateway does not play that part, or does not start.
pub fn start_base_station(site: &Site<'_>, scheme: &Scheme) -> Result<Box<dyn Running>, LabError> {
    let gateway = configuration(site, scheme)
        .ok_or_else(|| LabError::NeedsGateway { scheme: scheme.name, router: site.router.to_owned() })?;
    // A relay does not decide on packets.
    let decides = site.element.role() == Role::Repair;
    let captures = if decides { site.captures } else { Captures::Off };
    Ok(Box::new(Daemon::start(site.namespace, gateway, captures)?))
}

/// The gateway's configuration for a scheme; `None` where it does something else.
fn configuration(site: &Site<'_>, scheme: &Scheme) -> Option<Gateway> {
    let rule = Rule {
        name: "lab".to_owned(),
        mode: mode(site.element, scheme)?,
        interface: site.wireless.clone(),
        addresses: site.beyond.iter().map(|&address| Network { address: address.into(), prefix: 32 }).collect(),
        ports: Vec::new(),
        opened_by: OpenedBy::Either,
        ab: Fraction::ZERO,
    };
    Some(Gateway { log: "warn".to_owned(), ..Gateway::new(vec![rule]) })
}

/// What the rule does. The size of snoop's cache, the number of its connections and the place of its repairs in the queue are
/// the gateway's.
fn mode(element: &AnyElement, scheme: &Scheme) -> Option<Mode> {
    if let Some(Snoop(config)) = element.get() {
        return Some(Mode::Snoop(SnoopConfig {
            detection: config.detection,
            awareness: config.awareness,
            dupack_threshold: config.dupack_threshold,
            timer_min: config.timer_min,
            timer_max: config.timer_max,
            max_local_retries: config.max_local_retries,
            // Who knows nothing of TCP has nothing to hold senders back with.
            hop: config.hop.filter(|_| config.awareness == TcpAwareness::Aware),
            ..SnoopConfig::gateway()
        }));
    }
    let Split { handover, wired, wireless, repair } = element.get()?;
    match (handover, scheme.base_station) {
        (Handover::Shared(buffer), BaseStation::Split { wireless: Recovery::Reno }) => {
            let reno = |default| SideSettings { congestion: "reno".to_owned(), buffer: Some(*buffer), ..default };
            let (wireless, wired) = (reno(SideSettings::wireless()), reno(SideSettings::wired()));
            Some(Mode::Split(SplitSettings { wireless, wired, repair: *repair }))
        }
        (Handover::Shared(_), _) => None,
        (Handover::Moved, _) => {
            let side = |tcp: &TcpConfig| {
                Some(SideSettings {
                    congestion: kernel::congestion(tcp)?.to_owned(),
                    buffer: kernel::receive_buffer(tcp),
                    rto_min: Some(tcp.rto_min),
                    rto_max: Some(tcp.rto_max),
                })
            };
            Some(Mode::Split(SplitSettings { wireless: side(wireless)?, wired: side(wired)?, repair: *repair }))
        }
    }
}

/// How long the gateway may take to start, and to stop.
const PATIENCE: time::Duration = time::Duration::from_secs(15);
/// It is kept in memory at the end of a run: some 500,000 packets.
const LONGEST_RECORDING: &str = "64 MiB";
const STEP: time::Duration = time::Duration::from_millis(20);

/// The gateway as a child process. Its files are in a folder of its own.
struct Daemon {
    child: Child,
    folder: PathBuf,
    control: PathBuf,
    recording: Option<PathBuf>,
}

impl Daemon {
    fn start(namespace: &Namespace, gateway: Gateway, captures: Captures) -> Result<Self, LabError> {
        let folder = std::env::temp_dir().join(namespace.name());
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| LabError::File { path, error }
        };
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let (file, control) = (folder.join("gateway.toml"), folder.join("gateway.sock"));
        let gateway = Gateway { control: control.clone(), ..gateway };
        std::fs::write(&file, gateway.to_string()).map_err(failed(&file))?;
        let netns = File::open(namespace.path()).map_err(failed(&namespace.path()))?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["gateway", "run"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let recording = (captures == Captures::On).then(|| folder.join("gateway.pcapng"));
        if let Some(path) = &recording {
            command.arg("--record").arg(path).args(["--record-limit", LONGEST_RECORDING]);
        }
        run_in(&mut command, netns.into(), Signal::TERM);
        let child = command.spawn().map_err(LabError::system("cannot start the gateway"))?;
        let mut daemon = Self { child, folder, control, recording };
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self) -> Result<(), LabError> {
        let begun = time::Instant::now();
        while begun.elapsed() < PATIENCE {
            if control::ask(&self.control, Request::Status).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(LabError::Gateway(format!("it ended with {status}; its messages are above")));
            }
            thread::sleep(STEP);
        }
        Err(LabError::Gateway(format!("it was not ready within {} s", PATIENCE.as_secs())))
    }

    /// Lets it take its rules back, and waits for its end.
    fn stop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32).filter(|_| matches!(self.child.try_wait(), Ok(None))) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = time::Instant::now();
        while begun.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(STEP);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running for Daemon {
    fn counts(&self) -> Result<StationCounts, LabError> {
        let status =
            control::ask(&self.control, Request::Status).map_err(|error| LabError::Gateway(error.to_string()))?;
        let sum = |key: &str| {
            let rules = status.get("rules").and_then(Value::as_array).into_iter().flatten();
            rules.filter_map(|rule| rule.get(key).and_then(Value::as_u64)).sum()
        };
        let count = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        Ok(StationCounts {
            // What a relay's kernel counts it tells when a connection has ended, and timeouts not at all.
            relay_timeouts: 0,
            dupacks_suppressed: sum("dup_acks_suppressed"),
            restarts: count("/worker/restarts"),
            overflows: count("/packets/overflows"),
        })
    }

    fn end(mut self: Box<Self>) -> Option<Vec<u8>> {
        self.stop();
        // What is missing of it its own messages say.
        self.recording.as_ref().and_then(|path| std::fs::read(path).ok())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::time::Duration;
    use lasthop_scenario::Scenario;

    use super::*;

    /// What the gateway does for a scheme, which is also what it reads of what the lab writes for it.
    fn told(scheme: &str, set: &[(&str, &str)]) -> Mode {
        let scheme = Scheme::by_name(scheme).unwrap();
        let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(set).unwrap();
        let network = scenario.network(scheme).unwrap();
        let mode = mode(&network.elements[0].element, scheme).unwrap();
        let text = format!("[[rule]]\nname = 'lab'\ninterface = 'link1'\nmode = '{}'\n", mode.name());
        let mut gateway = Gateway::parse("lab", &text).unwrap();
        gateway.rules[0].mode = mode;
        assert_eq!(Gateway::parse("lab", &gateway.to_string()).unwrap(), gateway);
        gateway.rules.remove(0).mode
    }

    #[test]
    fn schemes_of_today_are_the_gateways_defaults() {
        let text = "[[rule]]\nname = 'rule'\nmode = 'snoop'\ninterface = 'wlan0'\n";
        let default = Gateway::parse("default", text).unwrap().rules.remove(0).mode;
        assert_eq!(told("SNOOP", &[]), default);
        let Mode::Split(split) = told("SPLIT-BBR", &[]) else { panic!("a split") };
        let kernels = Some(Duration::from_millis(200));
        assert_eq!(split.wireless, SideSettings::wireless());
        let longest = Some(Duration::from_secs(120));
        assert_eq!(split.wired, SideSettings { rto_min: kernels, rto_max: longest, ..SideSettings::wired() });
    }

    #[test]
    fn the_scenarios_keys_reach_the_gateway() {
        let set = [
            ("base_station.snoop.timer_min", "70 ms"),
            ("base_station.split.wireless.congestion", "reno"),
            ("base_station.split.wired.buffer", "300 KiB"),
        ];
        let Mode::Snoop(snoop) = told("SNOOP", &set) else { panic!("snoop") };
        assert_eq!(snoop.timer_min, Duration::from_millis(70));
        let Mode::Split(split) = told("SPLIT-BBR", &set) else { panic!("a split") };
        assert_eq!((split.wireless.congestion.as_str(), split.wired.buffer), ("reno", Some(300 << 10)));
        // The study's relay is Reno with the study's buffer.
        let Mode::Split(studied) = told("SPLIT", &set) else { panic!("a split") };
        assert_eq!((studied.wireless.congestion.as_str(), studied.wired.buffer), ("reno", Some(64 << 10)));
    }
}

//! The base station: the scheme's addition to the router's plain forwarding.

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

/// Place of a scheme's part at the base station.
pub struct Site<'l> {
    /// Namespace of the router; devices, addresses and routes are up, and it forwards.
    pub namespace: &'l Namespace,
    /// Name of the router in the scenario.
    pub router: &'l str,
    /// Device towards the lossy link.
    pub wireless: String,
    /// Other devices of the router.
    pub wired: Vec<String>,
    /// Hosts beyond the lossy link.
    pub beyond: Vec<Ipv4Addr>,
    /// Element that the simulator runs at the base station, with all its parameters.
    pub element: &'l AnyElement,
    /// Indicates whether its decisions are recorded.
    pub captures: Captures,
}

/// A running base station. It ends when this is dropped, before its namespace is removed.
pub trait Running: Send {
    /// Returns the base station's counters.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read, for example if it has ended.
    fn counts(&self) -> Result<StationCounts, LabError>;

    /// Ends the base station. Returns its decisions, if recorded ([`lasthop_gateway::engine::recording`]).
    fn end(self: Box<Self>) -> Option<Vec<u8>>;
}

/// Counters of the base station, over all flows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StationCounts {
    /// Number of retransmission timeouts at a relay.
    pub relay_timeouts: u64,
    /// Number of duplicate acknowledgments that the base station suppressed.
    pub dupacks_suppressed: u64,
    /// Number of restarts of the station's worker.
    pub restarts: u64,
    /// Number of overflows after which packets bypassed the base station because it was too slow.
    pub overflows: u64,
    /// Number of SYNs that the base station forwarded although their connections were to be split.
    pub unsplit: u64,
}

impl StationCounts {
    /// Returns the sum of the counters of two stations.
    pub fn and(self, other: Self) -> Self {
        Self {
            relay_timeouts: self.relay_timeouts + other.relay_timeouts,
            dupacks_suppressed: self.dupacks_suppressed + other.dupacks_suppressed,
            restarts: self.restarts + other.restarts,
            overflows: self.overflows + other.overflows,
            unsplit: self.unsplit + other.unsplit,
        }
    }

    /// Returns the reason why a run is void, if it is: the scheme did not process all packets.
    pub fn void(&self) -> Option<String> {
        let Self { restarts, overflows, unsplit, .. } = *self;
        let why = format!(
            "worker restarts: {restarts}, queue overflows: {overflows}, connections forwarded unsplit: {unsplit}"
        );
        (restarts + overflows + unsplit > 0).then(|| format!("packets passed the gateway untreated ({why})"))
    }
}

/// Starts the scheme's part at the base station, and returns when it is ready for packets. It is the gateway as an
/// operator would run it, started from this program's executable.
///
/// It ends with this process, even if that is killed.
///
/// # Errors
///
/// Returns an error if the gateway does not support that part, or does not start.
pub fn start_base_station(site: &Site<'_>, scheme: &Scheme) -> Result<Box<dyn Running>, LabError> {
    let gateway = configuration(site, scheme)
        .ok_or_else(|| LabError::NeedsGateway { scheme: scheme.name, router: site.router.to_owned() })?;
    // A relay does not decide on packets.
    let decides = site.element.role() == Role::Repair;
    let captures = if decides { site.captures } else { Captures::Off };
    Ok(Box::new(Daemon::start(site.namespace, gateway, captures)?))
}

/// Returns the gateway's configuration for a scheme; `None` if the gateway does not support the scheme.
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
    // A run measures the gateway's steady state. Its namespace has no firewall that a trial could find, and without an
    // answer to the trial the first connection, often the only one, would pass untreated.
    Some(Gateway { log: "warn".to_owned(), trial: None, ..Gateway::new(vec![rule]) })
}

/// Returns the mode of the rule. The size of snoop's cache, the maximum number of connections and the position of
/// repairs in the queue are the gateway's defaults.
fn mode(element: &AnyElement, scheme: &Scheme) -> Option<Mode> {
    if let Some(Snoop(config)) = element.get() {
        return Some(Mode::Snoop(SnoopConfig {
            detection: config.detection,
            awareness: config.awareness,
            dupack_threshold: config.dupack_threshold,
            timer_min: config.timer_min,
            timer_max: config.timer_max,
            max_local_retries: config.max_local_retries,
            // Without knowledge of TCP it cannot limit senders.
            hop: config.hop.filter(|_| config.awareness == TcpAwareness::Aware),
            ..SnoopConfig::gateway()
        }));
    }
    let Split { handover, wired, wireless, repair } = element.get()?;
    match (handover, scheme.base_station) {
        (Handover::Shared(buffer), BaseStation::Split { wireless: Recovery::RENO }) => {
            let reno = |default| SideSettings { congestion: "reno".to_owned(), buffer: Some(*buffer), ..default };
            let (wireless, wired) = (reno(SideSettings::wireless()), reno(SideSettings::wired()));
            Some(Mode::Split(SplitSettings { wireless, wired, repair: *repair }))
        }
        (Handover::Shared(_), _) => None,
        (Handover::Moved, _) => {
            let side = |tcp: &TcpConfig| {
                Some(SideSettings {
                    congestion: kernel::congestion(tcp).ok()?.to_owned(),
                    buffer: kernel::receive_buffer(tcp),
                    rto_min: Some(tcp.common.rto_min),
                    rto_max: Some(tcp.common.rto_max),
                })
            };
            Some(Mode::Split(SplitSettings { wireless: side(wireless)?, wired: side(wired)?, repair: *repair }))
        }
    }
}

/// Maximum time for the gateway to start, and to stop.
const PATIENCE: time::Duration = time::Duration::from_secs(15);
/// Maximum size of a recording, which is kept in memory at the end of a run: about 500,000 packets.
const LONGEST_RECORDING: &str = "64 MiB";
const STEP: time::Duration = time::Duration::from_millis(20);

/// The gateway as a child process, with a folder for its files.
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
                return Err(LabError::Gateway(format!("it exited ({status}); see its messages above")));
            }
            thread::sleep(STEP);
        }
        Err(LabError::Gateway(format!("it was not ready within {} s", PATIENCE.as_secs())))
    }

    /// Terminates the gateway so that it removes its rules, and waits for its end.
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
            // A relay reports its kernel's counters when a connection has ended, without timeouts.
            relay_timeouts: 0,
            dupacks_suppressed: sum("dup_acks_suppressed"),
            restarts: count("/worker/restarts"),
            overflows: count("/packets/overflows"),
            unsplit: count("/split/passed"),
        })
    }

    fn end(mut self: Box<Self>) -> Option<Vec<u8>> {
        self.stop();
        // If it is missing, the gateway has logged the reason.
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

    /// Returns the gateway's mode for a scheme. Also checks that it parses the configuration written by the lab.
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
    fn modern_schemes_are_the_gateways_defaults() {
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

//! Answers on the gateway's control socket ([`lasthop_daemon::control`]): its status, and a report on the effect of
//! treatment.

use std::path::Path;

use lasthop_daemon::ab::Gain;
pub use lasthop_daemon::control::{ControlError, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::configuration::{Bridge, Gateway, Rule};
use crate::daemon::passage::Untreated;
use crate::daemon::snapshot::{Arm, PacketCounters, QuicSnapshot, RelaySnapshot, RoundTrips, RuleSnapshot};
pub use crate::daemon::state::RulesState;
use crate::daemon::state::State;

/// Name of the daemon in messages.
pub(super) const WHO: &str = "gateway";

/// Sends a request to the gateway whose control socket is `path`.
///
/// # Errors
///
/// Returns an error if no gateway answers, or it returns an error.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    lasthop_daemon::control::ask(path, WHO, request)
}

/// Removes the socket of a gateway that no longer runs.
///
/// # Errors
///
/// Returns an error if a gateway answers on it, or it is not a socket.
pub fn remove_stale(path: &Path) -> Result<(), ControlError> {
    lasthop_daemon::control::remove_stale(path, WHO)
}

/// Answer to a status request.
pub type Status = lasthop_daemon::status::Status<GatewayStatus>;

/// State and statistics of a gateway.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayStatus {
    /// State of the rules; `None` if packets come from a bridge.
    pub firewall: Option<RulesState>,
    /// Suspended treatments.
    pub untreated: Vec<Suspended>,
    /// Number of suspensions so far.
    pub suspensions: u64,
    /// State of the ports, if packets come from a bridge.
    pub bridge: Option<Ports>,
    /// Limits.
    pub limits: LimitsStatus,
    /// Connections with state.
    pub flows: u64,
    /// Bytes of packets in caches.
    pub cached_bytes: u64,
    /// Packets that are neither complete, readable TCP segments nor UDP datagrams; they passed.
    pub unread: u64,
    /// TCP segments with a wrong checksum; they passed.
    pub damaged: u64,
    /// Segments that their receivers would refuse.
    pub out_of_window: u64,
    /// TCP segments and UDP datagrams that match no rule; they passed.
    pub unmatched: u64,
    /// Packets and verdicts.
    pub packets: PacketCounters,
    /// Rules, in the order of the configuration, with their statistics.
    pub rules: Vec<OfRule<RuleSnapshot>>,
    /// Statistics of the relay, if a rule splits.
    pub split: Option<RelaySnapshot>,
}

/// Suspended treatment, with a description of the cause.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Suspended {
    /// The suspension.
    #[serde(flatten)]
    pub untreated: Untreated,
    /// Description of the cause.
    #[serde(default)]
    pub problem: String,
}

/// Ports of a bridge.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// Port towards the wired side.
    pub wired: String,
    /// Port towards the lossy hop.
    pub wireless: String,
}

/// Limits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsStatus {
    /// Maximum number of bytes in caches.
    pub cache_bytes: u64,
    /// Maximum number of connections with state.
    pub flows: u32,
}

/// Configuration of a rule, and its figures if the worker reports any.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct OfRule<T> {
    /// Name of the rule.
    pub name: String,
    /// Mode of the rule.
    pub mode: String,
    /// Interface towards the lossy hop.
    pub interface: String,
    /// Share of connections that are left untreated.
    pub ab: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: Option<T>,
}

/// Answer to a request for a report.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Rules, in the order of the configuration, with the effect of their treatment.
    pub rules: Vec<OfRule<Effect>>,
    /// Statistics of the relay, if a rule splits.
    pub split: Option<RelaySnapshot>,
    /// Record of packets on the hop, if enabled.
    pub link: Option<LinkFile>,
}

/// Effect of a rule's treatment.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// Treated connections.
    pub treated: Arm,
    /// Connections left untreated for comparison.
    pub untreated: Arm,
    /// Ratio of the goodput of treated connections to that of untreated ones.
    pub gain: Option<Gain>,
    /// Segments that the receiver was found to lack.
    pub wireless_losses: u64,
    /// Segments missing from the wired side.
    pub wired_losses: u64,
    /// Local retransmissions.
    pub repairs: u64,
    /// Round-trip times between the gateway and the wired end.
    pub rtt_wired: RoundTrips,
    /// Round-trip times between the gateway and the wireless end.
    pub rtt_wireless: RoundTrips,
    /// Statistics of a rule for QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicSnapshot>,
}

/// File with a record of packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkFile {
    /// Process that has the tape open.
    pub process: u32,
    /// Descriptor of the tape in that process.
    pub file: i32,
}

impl From<&RuleSnapshot> for Effect {
    fn from(rule: &RuleSnapshot) -> Self {
        Self {
            treated: rule.treated,
            untreated: rule.untreated,
            gain: rule.gain,
            wireless_losses: rule.wireless_losses,
            wired_losses: rule.wired_losses,
            repairs: rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer,
            rtt_wired: rule.rtt_wired,
            rtt_wireless: rule.rtt_wireless,
            quic: rule.quic,
        }
    }
}

/// Returns state and statistics.
pub(super) fn status(state: &State) -> Value {
    let State { configuration: Gateway { bridge, limits, .. }, own: installed, snapshot, .. } = state;
    let suspended = |one: &Untreated| Suspended { untreated: one.clone(), problem: one.cause.words().to_owned() };
    state.status(GatewayStatus {
        firewall: bridge.is_none().then(|| installed.clone()),
        untreated: snapshot.untreated.iter().map(suspended).collect(),
        suspensions: snapshot.suspensions,
        bridge: bridge.clone().map(|Bridge { wired, wireless }| Ports { wired, wireless }),
        limits: LimitsStatus { cache_bytes: limits.cache, flows: limits.flows },
        flows: snapshot.flows,
        cached_bytes: snapshot.cached_bytes,
        unread: snapshot.unread,
        damaged: snapshot.damaged,
        out_of_window: snapshot.out_of_window,
        unmatched: snapshot.unmatched,
        packets: snapshot.packets,
        rules: rules(state, RuleSnapshot::clone),
        split: snapshot.split,
    })
}

/// Returns the effect of treatment.
pub(super) fn report(state: &State) -> Value {
    let link = state.worker.zip(state.snapshot.tape).map(|(process, file)| LinkFile { process, file });
    json!(Report { rules: rules(state, |rule| rule.into()), split: state.snapshot.split, link })
}

/// Combines the configuration of each rule with the worker's statistics.
fn rules<T>(state: &State, figures: impl Fn(&RuleSnapshot) -> T) -> Vec<OfRule<T>> {
    let rule = |rule: &Rule| OfRule {
        name: rule.name.clone(),
        mode: rule.mode.name().to_owned(),
        interface: rule.interface.clone(),
        ab: rule.ab.get(),
        figures: state.snapshot.rules.iter().find(|snapshot| snapshot.name == rule.name).map(&figures),
    };
    state.configuration.rules.iter().map(rule).collect()
}

//! Statistics of a worker, as reported to its supervisor.

use lasthop_daemon::ab::{ArmReport, Difference, Gain};
use lasthop_proto::link::hybrid::{Counters, PathId};
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::Drop;
use serde::{Deserialize, Serialize};

use crate::comparison::{ArmCounters, Findings};
use crate::engine::{Engine, Hearing};
use crate::link::{Link, LinkCounters, Tally, shown};

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Total number of bytes of the packets.
    pub bytes: u64,
}

impl From<Tally> for Count {
    fn from(Tally { packets, bytes }: Tally) -> Self {
        Self { packets, bytes }
    }
}

/// Statistics of a worker for all peers together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Completed handshakes.
    pub handshakes: u64,
    /// Datagrams that are not the tunnel's.
    pub malformed: u64,
    /// Handshakes of callers that do not know this end's key, or are not peers.
    pub strangers: u64,
    /// Handshakes refused because of load; some were answered with a cookie.
    pub overload: u64,
    /// Datagrams received before.
    pub replayed: u64,
    /// Datagrams that were modified, or belong to no session.
    pub unauthentic: u64,
    /// Packets from the device whose destination belongs to no peer.
    pub unroutable: u64,
    /// The tunnel's own datagrams that were routed into it.
    pub looped: u64,
    /// Packets and datagrams that the system refused.
    pub unsent: u64,
    /// Peers, in the order of the configuration.
    pub peers: Vec<PeerSnapshot>,
}

/// Traffic of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TrafficSnapshot {
    /// Packets to the peer.
    pub sent: Count,
    /// Packets from the peer.
    pub received: Count,
    /// Datagrams with frames of the link to the peer.
    pub frames: Count,
    /// Repair among these datagrams.
    pub repair: Count,
}

impl From<LinkCounters> for TrafficSnapshot {
    fn from(LinkCounters { sent, received, frames, repair, .. }: LinkCounters) -> Self {
        Self { sent: sent.into(), received: received.into(), frames: frames.into(), repair: repair.into() }
    }
}

/// Work of a link's mechanism: repairs, and congestion signals at its entrance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HopSnapshot {
    /// Packets retransmitted because they were declared lost.
    pub resent: u64,
    /// Copies and coded frames sent ahead of losses.
    pub redundant: u64,
    /// Packets given up.
    pub given_up: u64,
    /// Packets from the peer that were decoded from coded frames.
    pub restored: u64,
    /// Packets from the peer that were released without waiting longer for an earlier one.
    pub released: u64,
    /// Packets to the peer that were dropped at the entrance.
    pub dropped: u64,
    /// Number of times that a TCP sender was signalled by receive-window clamping instead of a drop.
    pub windows_cut: u64,
    /// Feedback frames sent to the peer.
    pub feedback: u64,
}

impl From<Counters> for HopSnapshot {
    fn from(hop: Counters) -> Self {
        Self {
            resent: hop.resent,
            redundant: hop.redundant,
            given_up: hop.given_up,
            restored: hop.restored,
            released: hop.released,
            dropped: hop.dropped,
            windows_cut: hop.windows_cut,
            feedback: hop.feedback,
        }
    }
}

/// Statistics of a peer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerSnapshot {
    /// Name of the peer.
    pub name: String,
    /// True if there is a session.
    pub up: bool,
    /// Time since its start, in seconds.
    pub up_seconds: Option<f64>,
    /// Time since the last authentic datagram from the peer, in seconds.
    pub heard_seconds: Option<f64>,
    /// True if the peer has not answered for more than 1 s and four round trips.
    pub unanswered: bool,
    /// Address of the peer.
    pub address: Option<String>,
    /// Maximum size of an inner packet, in bytes.
    pub mtu: u16,
    /// Maximum rate of this end, in bits per second: configured, or found automatically.
    pub rate: u64,
    /// True if the rate is found automatically.
    pub finds_rate: bool,
    /// State of repair: "silent", "repairing", "congested" or "breaker"; "idle" if nothing arrived from the peer for so
    /// long that the measurements no longer describe the path.
    pub state: String,
    /// Round-trip time of the hop, in seconds, if known.
    pub rtt_seconds: Option<f64>,
    /// Share of datagrams to the peer that were lost in the last 2 s.
    pub loss: f64,
    /// Packets that wait to be sent.
    pub waiting: usize,
    /// Packets and datagrams exchanged with the peer.
    #[serde(flatten)]
    pub traffic: TrafficSnapshot,
    /// Work of the link's mechanism.
    #[serde(flatten)]
    pub hop: HopSnapshot,
    /// Packets that were too big for the path.
    pub oversize: u64,
    /// Invalid frames and packets from the peer.
    pub refused: u64,
    /// Times that the peer started a new session.
    pub starts: u64,
    /// Frames sent unrepaired over the hop, on a bridge.
    pub plain: u64,
    /// Times that the peer became silent, on a bridge.
    pub silences: u64,
    /// Comparison with unrepaired flows, if enabled.
    pub comparison: Option<ComparisonSnapshot>,
}

/// One arm of a comparison.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArmSnapshot {
    /// TCP connections measured.
    pub flows: u64,
    /// Geometric mean of the connections' goodputs, in bits per second; `None` without connections.
    pub goodput_bps: Option<f64>,
    /// Geometric mean of the connections' round-trip times over the hop, in seconds.
    pub rtt_seconds: Option<f64>,
    /// Packets sent, of all flows; each counts once.
    pub packets: u64,
    /// Packets that were lost and not repaired.
    pub lost: u64,
}

/// Comparison of repaired and unrepaired flows.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ComparisonSnapshot {
    /// Repaired flows.
    pub treated: ArmSnapshot,
    /// Unrepaired flows.
    pub untreated: ArmSnapshot,
    /// Ratio of the goodputs of repaired connections to those of unrepaired ones.
    pub gain: Option<Gain>,
    /// Ratio of the round-trip times of repaired connections to those of unrepaired ones.
    pub delay: Option<Gain>,
    /// Difference of the loss rates of unrepaired and repaired flows.
    pub loss: Option<Difference>,
}

impl ComparisonSnapshot {
    fn of(findings: &Findings) -> Self {
        let arm = |goodputs: &ArmReport, trips: &ArmReport, packets: ArmCounters| ArmSnapshot {
            flows: goodputs.flows,
            goodput_bps: goodputs.mean().map(|bytes| 8.0 * bytes),
            rtt_seconds: trips.mean(),
            packets: packets.packets,
            lost: packets.lost,
        };
        let (goodputs, trips, [treated, untreated]) = (&findings.goodputs, &findings.trips, findings.packets);
        Self {
            treated: arm(&goodputs.treated, &trips.treated, treated),
            untreated: arm(&goodputs.untreated, &trips.untreated, untreated),
            gain: findings.gain(),
            delay: findings.delay(),
            loss: findings.loss(),
        }
    }
}

impl Snapshot {
    /// Returns the statistics of an engine.
    pub fn of(engine: &mut Engine, now: Instant, unsent: u64) -> Self {
        let (hearings, in_front) = (engine.hearings(now), engine.in_front());
        let peers = engine.links_mut().zip(hearings);
        let peers = peers.map(|(link, hearing)| PeerSnapshot::of(link, hearing, in_front, now)).collect();
        let (own, session) = (engine.counters(), engine.session_counters());
        let dropped = |reasons: &[Drop]| reasons.iter().map(|reason| session.dropped[*reason as usize]).sum();
        Self {
            handshakes: session.handshakes,
            malformed: dropped(&[Drop::Form, Drop::Unknown]),
            strangers: dropped(&[Drop::Mac, Drop::Stranger, Drop::Stale]),
            overload: dropped(&[Drop::Load]),
            replayed: dropped(&[Drop::Replayed]),
            unauthentic: dropped(&[Drop::Index, Drop::Expired, Drop::Damaged]),
            unroutable: own.unroutable,
            looped: own.looped,
            unsent: unsent + own.overflow,
            peers,
        }
    }
}

/// Time without a datagram from a peer after which its path is unknown. An end with keep-alive sends more often.
const IDLE: Duration = Duration::from_secs(15);

/// Returns the state of repair according to recent datagrams.
fn state(link: &Link, hearing: Hearing, now: Instant) -> &'static str {
    let is_idle = hearing.last.is_none_or(|last| now.since(last) >= IDLE) && !hearing.unanswered;
    if is_idle { "idle" } else { link.hop.state(now, PathId::FIRST).name() }
}

impl PeerSnapshot {
    fn of(link: &mut Link, hearing: Hearing, in_front: u16, now: Instant) -> Self {
        let (counters, hop) = (link.counters, link.hop_counters());
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Self {
            name: link.plan.name.clone(),
            up: link.up,
            up_seconds: link.since.map(|since| seconds(now.since(since).as_nanos())),
            heard_seconds: hearing.last.map(|last| seconds(now.since(last).as_nanos())),
            unanswered: hearing.unanswered,
            address: link.path.map(shown),
            mtu: link.mtu(now).saturating_sub(in_front),
            rate: link.hop.rate(PathId::FIRST),
            finds_rate: link.plan.rate.is_none(),
            state: state(link, hearing, now).to_owned(),
            rtt_seconds: (link.up && counters.frames.packets > 0)
                .then(|| seconds(link.hop.round_trip(PathId::FIRST).as_nanos())),
            loss: link.hop.loss(PathId::FIRST) as f64 / 1e6,
            waiting: link.waiting(),
            traffic: counters.into(),
            hop: hop.into(),
            oversize: counters.oversize,
            refused: hop.refused + counters.foreign + counters.marked_lost,
            starts: counters.starts,
            plain: counters.plain,
            silences: counters.silences,
            comparison: link.findings().map(|findings| ComparisonSnapshot::of(&findings)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/tunnel.md` describes a peer as one table: the parts of the structure do not show.
    #[test]
    fn a_peer_is_one_table_in_json() {
        let json = serde_json::to_string(&PeerSnapshot::default()).unwrap();
        let keys = json.split('"').skip(1).step_by(2).filter(|key| !["", "packets", "bytes"].contains(key));
        let expected = "name up up_seconds heard_seconds unanswered address mtu rate finds_rate state rtt_seconds loss \
                        waiting sent received frames repair resent redundant given_up restored released dropped \
                        windows_cut feedback oversize refused starts plain silences comparison";
        assert_eq!(keys.collect::<Vec<_>>().join(" "), expected);
        assert_eq!(serde_json::from_str::<PeerSnapshot>(&json).unwrap(), PeerSnapshot::default());
    }
}

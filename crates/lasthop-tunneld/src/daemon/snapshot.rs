//! Statistics of a worker, as reported to its supervisor.

use lasthop_daemon::ab::{ArmReport, Difference, Gain};
use lasthop_proto::link::hybrid::{Counters, PathId, PathUse, Tier};
use lasthop_proto::time::{Duration, Instant};
use lasthop_settings::values::Choice;
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

/// Statistics of a path to a peer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSnapshot {
    /// Name; empty for a peer's only path.
    pub name: String,
    /// Address of the peer.
    pub address: Option<String>,
    /// Maximum rate of this end, in bits per second: configured, or found automatically.
    pub rate: u64,
    /// True if the rate is found automatically.
    pub finds_rate: bool,
    /// State: that of repair as of the peer, "standby" if another path carries all packets, "untried" if none was sent,
    /// "down" if nothing is answered, "off" if its tier is, or "unused" if the other end has no such path.
    pub state: String,
    /// Tier: the later one of both ends'.
    pub tier: String,
    /// Earliest tier that the data volume permits.
    pub limit: String,
    /// Datagrams in both directions since the worker's start, with IP or Ethernet headers.
    pub volume: Count,
    /// Maximum number of bytes in a month, of a path with a cap.
    pub cap_bytes: Option<u64>,
    /// Number of bytes in the current month, of a path with a cap.
    pub month_bytes: Option<u64>,
    /// Round-trip time, in seconds, if known.
    pub rtt_seconds: Option<f64>,
    /// Share of datagrams to the peer that were lost in the last 2 s.
    pub loss: f64,
    /// Time since the last authentic datagram from the peer on the path, in seconds.
    pub heard_seconds: Option<f64>,
    /// Datagrams with frames of the link to the peer.
    pub frames: Count,
    /// Repair among these datagrams.
    pub repair: Count,
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
    /// Address of the peer on the first path that is in use.
    pub address: Option<String>,
    /// Maximum size of an inner packet, in bytes.
    pub mtu: u16,
    /// Maximum rate of this end, in bits per second: configured, or found automatically; the sum of all paths in use.
    pub rate: u64,
    /// True if the rate of a path is found automatically.
    pub finds_rate: bool,
    /// State of repair on the first path that is in use: "silent", "repairing", "congested" or "breaker"; "idle" if nothing arrived from the peer for so
    /// long that the measurements no longer describe the path.
    pub state: String,
    /// Round-trip time of the hop, in seconds, if known: the shortest of all paths in use.
    pub rtt_seconds: Option<f64>,
    /// Share of datagrams to the peer that were lost in the last 2 s, of all paths in use, each by its rate.
    pub loss: f64,
    /// Paths, in the order of the configuration.
    pub paths: Vec<PathSnapshot>,
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

/// Returns the state of repair on a path according to recent datagrams.
fn state(link: &Link, path: PathId, hearing: Hearing, now: Instant) -> &'static str {
    let is_idle = hearing.last.is_none_or(|last| now.since(last) >= IDLE) && !hearing.unanswered;
    if is_idle { "idle" } else { link.hop.state(now, path).name() }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl PathSnapshot {
    fn of(link: &Link, path: PathId, hearing: Hearing, now: Instant) -> Self {
        let (index, is_used) = (usize::from(path.0), link.hop.has_path(path));
        let (plan, link_path) = (&link.plan.paths[index], &link.paths()[index]);
        let (rate, rtt, loss) = if is_used {
            (link.hop.rate(path), link.hop.round_trip(path), link.hop.loss(path))
        } else {
            (plan.rate.unwrap_or(0), Duration::ZERO, 0)
        };
        let state = match is_used.then(|| link.hop.path_use(path)) {
            None => "unused",
            Some(_) if !link.up => state(link, path, hearing, now),
            Some(PathUse::Used) => state(link, path, hearing, now),
            Some(PathUse::Standby) => "standby",
            Some(PathUse::Untried) => "untried",
            Some(PathUse::Down) => "down",
            Some(PathUse::Off) => "off",
        };
        let tier = if is_used { link.hop.terms(path).tier } else { link.own_terms(path).tier };
        let name = |tier: Tier| tier.name().unwrap_or_default().to_owned();
        Self {
            name: plan.name.clone(),
            address: link_path.address.map(shown),
            rate,
            finds_rate: plan.rate.is_none(),
            state: state.to_owned(),
            rtt_seconds: (is_used && link.up && link_path.frames.packets > 0).then(|| seconds(rtt.as_nanos())),
            loss: loss as f64 / 1e6,
            heard_seconds: hearing.on_paths[index].map(|last| seconds(now.since(last).as_nanos())),
            frames: link_path.frames.into(),
            repair: link_path.repair.into(),
            tier: name(tier),
            limit: name(link_path.limit),
            volume: link_path.volume.into(),
            cap_bytes: None,
            month_bytes: None,
        }
    }

    /// Returns whether packets are sent on the path.
    fn is_in_use(&self) -> bool {
        !["unused", "standby", "untried", "down", "off"].contains(&self.state.as_str())
    }

    /// Returns whether packets can be sent on the path, as far as it is known.
    pub fn works(&self) -> bool {
        !["unused", "down", "off"].contains(&self.state.as_str())
    }
}

impl PeerSnapshot {
    fn of(link: &mut Link, hearing: Hearing, in_front: u16, now: Instant) -> Self {
        let (counters, hop) = (link.counters, link.hop_counters());
        let numbers = (0..link.plan.paths.len() as u8).map(PathId);
        let paths: Vec<_> = numbers.map(|path| PathSnapshot::of(link, path, hearing, now)).collect();
        let mut used: Vec<_> = paths.iter().filter(|path| path.is_in_use()).collect();
        if used.is_empty() {
            used.extend(paths.first());
        }
        let rate: u64 = used.iter().map(|path| path.rate).sum();
        let lost: f64 = used.iter().map(|path| path.loss * path.rate as f64).sum();
        Self {
            name: link.plan.name.clone(),
            up: link.up,
            up_seconds: link.since.map(|since| seconds(now.since(since).as_nanos())),
            heard_seconds: hearing.last.map(|last| seconds(now.since(last).as_nanos())),
            unanswered: hearing.unanswered,
            address: used.iter().find_map(|path| path.address.clone()),
            mtu: link.mtu(now).saturating_sub(in_front),
            rate,
            finds_rate: used.iter().any(|path| path.finds_rate),
            state: used.first().map_or(String::new(), |path| path.state.clone()),
            rtt_seconds: used.iter().filter_map(|path| path.rtt_seconds).min_by(f64::total_cmp),
            loss: if let [path] = used[..] { path.loss } else { lost / (rate as f64).max(1.0) },
            paths,
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
                        paths waiting sent received frames repair resent redundant given_up restored released dropped \
                        windows_cut feedback oversize refused starts plain silences comparison";
        assert_eq!(keys.collect::<Vec<_>>().join(" "), expected);
        assert_eq!(serde_json::from_str::<PeerSnapshot>(&json).unwrap(), PeerSnapshot::default());
    }
}

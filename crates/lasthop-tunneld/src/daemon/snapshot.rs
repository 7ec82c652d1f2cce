//! What a worker has done, as it tells its supervisor.

use lasthop_daemon::ab::{ArmReport, Difference, Gain};
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::Drop;
use serde::{Deserialize, Serialize};

use crate::comparison::{ArmCounters, Findings};
use crate::engine::{Engine, Hearing};
use crate::link::{Link, Tally, shown};

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<Tally> for Count {
    fn from(Tally { packets, bytes }: Tally) -> Self {
        Self { packets, bytes }
    }
}

/// What became of datagrams and packets of all peers together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Handshakes finished.
    pub handshakes: u64,
    /// Datagrams that are none of the tunnel's.
    pub malformed: u64,
    /// Handshakes of those who do not know this end's key, or are no peers.
    pub strangers: u64,
    /// Handshakes refused for want of time; cookies were asked for some.
    pub overload: u64,
    /// Datagrams seen before.
    pub replayed: u64,
    /// Datagrams that were changed on their way, or belong to no session.
    pub unauthentic: u64,
    /// Packets from the device to addresses of no peer.
    pub unroutable: u64,
    /// The tunnel's own datagrams that were led into it.
    pub looped: u64,
    /// Packets and datagrams that the system did not take.
    pub unsent: u64,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerSnapshot>,
}

/// A peer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PeerSnapshot {
    /// Its name.
    pub name: String,
    /// Whether there is a session.
    pub up: bool,
    /// For how long.
    pub up_seconds: Option<f64>,
    /// How long ago something came from it that nobody else can have sent.
    pub heard_seconds: Option<f64>,
    /// Whether it has not answered what was sent to it for 1 s and four round trips.
    pub unanswered: bool,
    /// Where it is reached.
    pub address: Option<String>,
    /// Bytes of a packet of the inner network that fit.
    pub mtu: u16,
    /// Bits per second that this end sends at most: the given ones, or those that it found.
    pub rate: u64,
    /// Whether it finds them.
    pub finds_rate: bool,
    /// What is done against losses: "silent", "repairing", "congested" or "breaker"; "idle" where nothing came from it for so long that
    /// what was measured says nothing of the path now.
    pub state: String,
    /// The hop's round trip, where it is known.
    pub rtt_seconds: Option<f64>,
    /// The share of datagrams to it that were lost in the last 2 s.
    pub loss: f64,
    /// Packets that wait for being sent.
    pub waiting: usize,
    /// Packets to it.
    pub sent: Count,
    /// Packets from it.
    pub received: Count,
    /// Datagrams to it with frames of the link.
    pub frames: Count,
    /// Those of them that are repair.
    pub repair: Count,
    /// Packets sent again because they were lost.
    pub resent: u64,
    /// Copies and sums sent ahead of losses.
    pub redundant: u64,
    /// Packets that were given up.
    pub given_up: u64,
    /// Packets from it that a sum restored.
    pub restored: u64,
    /// Packets from it that did not wait for an earlier one any longer.
    pub released: u64,
    /// Packets to it that were dropped at the entrance.
    pub dropped: u64,
    /// Times that a TCP source was told of congestion by a smaller window, where a packet would have been dropped.
    pub windows_cut: u64,
    /// Feedback sent to it.
    pub feedback: u64,
    /// Packets that were too big for the path.
    pub oversize: u64,
    /// Frames and packets from it that could not be true.
    pub refused: u64,
    /// Times that it began anew.
    pub starts: u64,
    /// Frames that this end took and sent as they are, on a bridge.
    pub plain: u64,
    /// Times that it fell silent, on a bridge.
    pub silences: u64,
    /// What repair gains, where some flows go without.
    pub comparison: Option<ComparisonSnapshot>,
}

/// One arm of a comparison.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ArmSnapshot {
    /// TCP connections measured.
    pub flows: u64,
    /// Geometric mean of their goodputs, in bits per second; none without connections.
    pub goodput_bps: Option<f64>,
    /// Geometric mean of their times to an answer over the hop.
    pub rtt_seconds: Option<f64>,
    /// Packets sent, of all flows, each once.
    pub packets: u64,
    /// Those of them that were lost for good.
    pub lost: u64,
}

/// Repaired and unrepaired flows beside each other.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ComparisonSnapshot {
    /// Those that are repaired.
    pub treated: ArmSnapshot,
    /// Those that are not.
    pub untreated: ArmSnapshot,
    /// How many times as fast treated connections are.
    pub gain: Option<Gain>,
    /// How many times as long their segments wait for an answer.
    pub delay: Option<Gain>,
    /// By how much the share of packets lost is smaller.
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
    /// What an engine has done.
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

/// After so long without a datagram from a peer its path is not known any more: an end with a keep-alive speaks more often.
const IDLE: Duration = Duration::from_secs(15);

/// What is done against losses, as far as what was heard last tells.
fn state(link: &Link, hearing: Hearing, now: Instant) -> &'static str {
    let is_idle = hearing.last.is_none_or(|last| now.since(last) >= IDLE) && !hearing.unanswered;
    if is_idle { "idle" } else { link.hop.state(now).name() }
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
            rate: link.hop.rate(),
            finds_rate: link.plan.rate.is_none(),
            state: state(link, hearing, now).to_owned(),
            rtt_seconds: (link.up && counters.frames.packets > 0).then(|| seconds(link.hop.round_trip().as_nanos())),
            loss: link.hop.loss() as f64 / 1e6,
            waiting: link.waiting(),
            sent: counters.sent.into(),
            received: counters.received.into(),
            frames: counters.frames.into(),
            repair: counters.repair.into(),
            resent: hop.resent,
            redundant: hop.redundant,
            given_up: hop.given_up,
            restored: hop.restored,
            released: hop.released,
            dropped: hop.dropped,
            windows_cut: hop.windows_cut,
            feedback: hop.feedback,
            oversize: counters.oversize,
            refused: hop.refused + counters.foreign + counters.marked_lost,
            starts: counters.starts,
            plain: counters.plain,
            silences: counters.silences,
            comparison: link.findings().map(|findings| ComparisonSnapshot::of(&findings)),
        }
    }
}

//! Metrics of the tunnel for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::daemon::snapshot::{ArmSnapshot, PeerSnapshot, Snapshot};
use crate::daemon::supervisor::State;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfPeer {
    peer: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfArm {
    peer: String,
    arm: &'static str,
}

/// Returns the metrics as text. The worker's counters restart with each worker, as Prometheus expects after a restart.
///
/// # Errors
///
/// None: writing to a string cannot fail.
pub fn encode(state: &State) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("lasthop_tunnel");
    let up = u64::from(state.worker.is_some());
    registry.register("worker_up", "Whether there is a worker", ConstGauge::new(up));
    let uptime = Gauge::<f64, AtomicU64>::default();
    uptime.set(state.started.elapsed().as_secs_f64());
    registry.register_with_unit("uptime", "How long the tunnel has run", Unit::Seconds, uptime);
    registry.register("worker_restarts", "Workers started after the first", ConstCounter::new(state.restarts));
    registry.register("reloads", "Configurations taken after the first", ConstCounter::new(state.reloads));
    register_all(&mut registry, &state.snapshot);
    register_peers(&mut registry, &state.snapshot.peers);
    register_arms(&mut registry, &state.snapshot.peers);
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn register_all(registry: &mut Registry, all: &Snapshot) {
    let counters = [
        ("handshakes", "Handshakes finished", all.handshakes),
        ("malformed_datagrams", "Datagrams that are none of the tunnel's", all.malformed),
        ("stranger_handshakes", "Handshakes of those who do not know this end's key, or are no peers", all.strangers),
        ("overload_handshakes", "Handshakes refused for want of time", all.overload),
        ("replayed_datagrams", "Datagrams seen before", all.replayed),
        ("unauthentic_datagrams", "Datagrams that were changed, or belong to no session", all.unauthentic),
        ("unroutable_packets", "Packets to addresses of no peer", all.unroutable),
        ("looped_packets", "Own datagrams that were led into the tunnel", all.looped),
        ("unsent", "Packets and datagrams that the system did not take", all.unsent),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
}

fn register_peers(registry: &mut Registry, peers: &[PeerSnapshot]) {
    type Read<T> = fn(&PeerSnapshot) -> T;
    let of = |peer: &PeerSnapshot| OfPeer { peer: peer.name.clone() };
    let counters: [(&str, &str, Read<u64>); 17] = [
        ("sent_packets", "Packets to the peer", |peer| peer.sent.packets),
        ("received_packets", "Packets from the peer", |peer| peer.received.packets),
        ("frames", "Datagrams with frames of the link to the peer", |peer| peer.frames.packets),
        ("repair_frames", "Those of them that are repair", |peer| peer.repair.packets),
        ("resent", "Packets sent again because they were lost", |peer| peer.resent),
        ("redundant", "Copies and sums sent ahead of losses", |peer| peer.redundant),
        ("given_up", "Packets that were lost for good", |peer| peer.given_up),
        ("restored", "Packets from the peer that a sum restored", |peer| peer.restored),
        ("released", "Packets from the peer that did not wait for an earlier one any longer", |peer| peer.released),
        ("dropped", "Packets to the peer dropped at the entrance", |peer| peer.dropped),
        (
            "windows_cut",
            "Times that a TCP source was told of congestion by a smaller window instead of a drop",
            |peer| peer.windows_cut,
        ),
        ("feedback", "Feedback sent to the peer", |peer| peer.feedback),
        ("oversize", "Packets too big for the path", |peer| peer.oversize),
        ("refused", "Frames and packets from the peer that could not be true", |peer| peer.refused),
        ("starts", "Times that the peer began anew", |peer| peer.starts),
        ("plain", "Frames taken and sent as they are, on a bridge", |peer| peer.plain),
        ("silences", "Times that the peer fell silent, on a bridge", |peer| peer.silences),
    ];
    for (name, help, read) in counters {
        let family = Family::<OfPeer, Counter>::default();
        for peer in peers {
            family.get_or_create(&of(peer)).inc_by(read(peer));
        }
        registry.register(name, help, family);
    }
    let bytes: [(&str, &str, Read<u64>); 4] = [
        ("sent", "Bytes of packets to the peer", |peer| peer.sent.bytes),
        ("received", "Bytes of packets from the peer", |peer| peer.received.bytes),
        ("framed", "Bytes of datagrams with frames of the link", |peer| peer.frames.bytes),
        ("repair", "Those of them that are repair", |peer| peer.repair.bytes),
    ];
    for (name, help, read) in bytes {
        let family = Family::<OfPeer, Counter>::default();
        for peer in peers {
            family.get_or_create(&of(peer)).inc_by(read(peer));
        }
        registry.register_with_unit(name, help, Unit::Bytes, family);
    }
    let gauges: [(&str, &str, Read<f64>); 8] = [
        ("up", "Whether there is a session", |peer| f64::from(u8::from(peer.up))),
        ("unanswered", "Whether what was sent to the peer is not answered for 1 s and four round trips", |peer| {
            f64::from(u8::from(peer.unanswered))
        }),
        ("loss", "Share of datagrams to the peer lost in the last 2 s", |peer| peer.loss),
        ("rate", "Bits per second that are sent to the peer at most, given or found", |peer| peer.rate as f64),
        ("congested", "Whether the way to the peer is full", |peer| f64::from(u8::from(peer.state == "congested"))),
        ("breaker", "Whether too much is lost to be repaired", |peer| f64::from(u8::from(peer.state == "breaker"))),
        ("mtu", "Bytes of a packet that fit", |peer| f64::from(peer.mtu)),
        ("waiting", "Packets that wait for being sent", |peer| peer.waiting as f64),
    ];
    for (name, help, read) in gauges {
        let family = Family::<OfPeer, Gauge<f64, AtomicU64>>::default();
        for peer in peers {
            family.get_or_create(&of(peer)).set(read(peer));
        }
        registry.register(name, help, family);
    }
    let times: [(&str, &str, Read<Option<f64>>); 2] = [
        ("round_trip", "The hop's round trip", |peer| peer.rtt_seconds),
        ("last_heard", "Time since something authentic came from the peer", |peer| peer.heard_seconds),
    ];
    for (name, help, read) in times {
        let family = Family::<OfPeer, Gauge<f64, AtomicU64>>::default();
        for peer in peers {
            if let Some(time) = read(peer) {
                family.get_or_create(&of(peer)).set(time);
            }
        }
        registry.register_with_unit(name, help, Unit::Seconds, family);
    }
}

/// Registers the metrics of both arms, for peers with a comparison.
fn register_arms(registry: &mut Registry, peers: &[PeerSnapshot]) {
    type Read<T> = fn(&ArmSnapshot) -> T;
    let arms = || {
        peers.iter().flat_map(|peer| {
            let arms = peer.comparison.map(|both| [("treated", both.treated), ("untreated", both.untreated)]);
            let of = move |arm| OfArm { peer: peer.name.clone(), arm };
            arms.into_iter().flatten().map(move |(name, arm)| (of(name), arm))
        })
    };
    let counters: [(&str, &str, Read<u64>); 3] = [
        ("compared_connections", "TCP connections measured", |arm| arm.flows),
        ("compared_packets", "Packets sent, each once", |arm| arm.packets),
        ("compared_lost_packets", "Those of them that were lost for good", |arm| arm.lost),
    ];
    for (name, help, read) in counters {
        let family = Family::<OfArm, Counter>::default();
        for (label, arm) in arms() {
            family.get_or_create(&label).inc_by(read(&arm));
        }
        registry.register(name, help, family);
    }
    let gauges: [(&str, &str, Unit, Read<Option<f64>>); 2] = [
        ("compared_goodput", "Geometric mean of goodputs, a second", Unit::Bytes, |arm| {
            arm.goodput_bps.map(|bits| bits / 8.0)
        }),
        ("compared_round_trip", "Geometric mean of times to an answer", Unit::Seconds, |arm| arm.rtt_seconds),
    ];
    for (name, help, unit, read) in gauges {
        let family = Family::<OfArm, Gauge<f64, AtomicU64>>::default();
        for (label, arm) in arms() {
            if let Some(value) = read(&arm) {
                family.get_or_create(&label).set(value);
            }
        }
        registry.register_with_unit(name, help, unit, family);
    }
}

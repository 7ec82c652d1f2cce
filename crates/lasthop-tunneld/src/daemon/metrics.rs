//! Metrics of the tunnel for Prometheus.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::daemon::snapshot::{ArmSnapshot, PathSnapshot, PeerSnapshot, Snapshot};
use crate::daemon::state::State;
use crate::daemon::usage;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfPeer {
    peer: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfPath {
    peer: String,
    path: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfArm {
    peer: String,
    arm: &'static str,
}

/// Returns a counter with these values.
fn counters_of<L: Clone + Eq + Hash>(values: impl Iterator<Item = (L, u64)>) -> Family<L, Counter> {
    let family = Family::<L, Counter>::default();
    for (label, value) in values {
        family.get_or_create(&label).inc_by(value);
    }
    family
}

/// Returns a gauge with these values.
fn gauges_of<L: Clone + Eq + Hash>(values: impl Iterator<Item = (L, f64)>) -> Family<L, Gauge<f64, AtomicU64>> {
    let family = Family::<L, Gauge<f64, AtomicU64>>::default();
    for (label, value) in values {
        family.get_or_create(&label).set(value);
    }
    family
}

/// Returns the metrics as text. The worker's counters restart with each worker, as Prometheus expects after a restart.
///
/// # Errors
///
/// Never returns an error: writing to a string cannot fail.
pub fn encode(state: &State) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("lasthop_tunnel");
    let up = u64::from(state.worker.is_some());
    registry.register("worker_up", "1 if a worker is processing packets", ConstGauge::new(up));
    let uptime = Gauge::<f64, AtomicU64>::default();
    uptime.set(state.started.elapsed().as_secs_f64());
    registry.register_with_unit("uptime", "Time since the tunnel started", Unit::Seconds, uptime);
    registry.register("worker_restarts", "Worker restarts", ConstCounter::new(state.restarts));
    registry.register("reloads", "Successful configuration reloads", ConstCounter::new(state.reloads));
    register_snapshot(&mut registry, &usage::add_to(state.snapshot.clone(), &state.own));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn register_snapshot(registry: &mut Registry, snapshot: &Snapshot) {
    register_all(registry, snapshot);
    register_peers(registry, &snapshot.peers);
    register_paths(registry, &snapshot.peers);
    register_arms(registry, &snapshot.peers);
}

fn register_all(registry: &mut Registry, all: &Snapshot) {
    let counters = [
        ("handshakes", "Completed handshakes", all.handshakes),
        ("malformed_datagrams", "Datagrams that are not in the tunnel's format", all.malformed),
        (
            "stranger_handshakes",
            "Handshakes refused because the initiator does not know this end's key or is not a peer",
            all.strangers,
        ),
        ("overload_handshakes", "Handshakes refused because of load", all.overload),
        ("replayed_datagrams", "Replayed or duplicated datagrams", all.replayed),
        ("unauthentic_datagrams", "Datagrams that were modified or belong to no session", all.unauthentic),
        ("unroutable_packets", "Packets to addresses that belong to no peer", all.unroutable),
        ("looped_packets", "The tunnel's own datagrams that were routed into it", all.looped),
        ("unsent", "Packets and datagrams that the kernel refused to send", all.unsent),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
}

fn register_peers(registry: &mut Registry, peers: &[PeerSnapshot]) {
    type Read<T> = fn(&PeerSnapshot) -> T;
    let of = |peer: &PeerSnapshot| OfPeer { peer: peer.name.clone() };
    let counters: [(&str, &str, Read<u64>); 17] = [
        ("sent_packets", "Packets sent to the peer", |peer| peer.traffic.sent.packets),
        ("received_packets", "Packets received from the peer", |peer| peer.traffic.received.packets),
        ("frames", "Datagrams with link frames sent to the peer", |peer| peer.traffic.frames.packets),
        ("repair_frames", "Datagrams with link frames for repair sent to the peer", |peer| peer.traffic.repair.packets),
        ("resent", "Packets retransmitted because they were declared lost", |peer| peer.hop.resent),
        ("redundant", "Copies and coded frames sent before any loss was detected", |peer| peer.hop.redundant),
        ("given_up", "Packets lost and given up", |peer| peer.hop.given_up),
        ("restored", "Packets from the peer decoded from coded frames", |peer| peer.hop.restored),
        ("released", "Packets from the peer released out of order because an earlier one took too long", |peer| {
            peer.hop.released
        }),
        ("dropped", "Packets to the peer dropped at the tunnel's entrance", |peer| peer.hop.dropped),
        (
            "windows_cut",
            "Times that receive-window clamping signalled congestion to a TCP sender instead of a drop",
            |peer| peer.hop.windows_cut,
        ),
        ("feedback", "Feedback frames sent to the peer", |peer| peer.hop.feedback),
        ("oversize", "Packets too large for the path", |peer| peer.oversize),
        ("refused", "Invalid frames and packets from the peer", |peer| peer.refused),
        ("starts", "New sessions started by the peer", |peer| peer.starts),
        ("plain", "Frames sent unrepaired over the hop, on a bridge", |peer| peer.plain),
        ("silences", "Times that the peer became silent, on a bridge", |peer| peer.silences),
    ];
    for (name, help, read) in counters {
        registry.register(name, help, counters_of(peers.iter().map(|peer| (of(peer), read(peer)))));
    }
    let bytes: [(&str, &str, Read<u64>); 4] = [
        ("sent", "Bytes of packets sent to the peer", |peer| peer.traffic.sent.bytes),
        ("received", "Bytes of packets received from the peer", |peer| peer.traffic.received.bytes),
        ("framed", "Bytes of datagrams with link frames sent to the peer", |peer| peer.traffic.frames.bytes),
        ("repair", "Bytes of datagrams with link frames for repair sent to the peer", |peer| peer.traffic.repair.bytes),
    ];
    for (name, help, read) in bytes {
        let family = counters_of(peers.iter().map(|peer| (of(peer), read(peer))));
        registry.register_with_unit(name, help, Unit::Bytes, family);
    }
    let gauges: [(&str, &str, Read<f64>); 8] = [
        ("up", "1 if there is a session", |peer| f64::from(u8::from(peer.up))),
        ("unanswered", "1 if the peer has not answered for 1 s and four round-trip times", |peer| {
            f64::from(u8::from(peer.unanswered))
        }),
        ("loss", "Fraction of datagrams to the peer lost in the last 2 s", |peer| peer.loss),
        ("rate", "Maximum rate towards the peer in bit/s, configured or found automatically", |peer| peer.rate as f64),
        ("congested", "1 if the path to the peer is congested", |peer| f64::from(u8::from(peer.state == "congested"))),
        ("breaker", "1 if the circuit breaker is open: too much loss to repair", |peer| {
            f64::from(u8::from(peer.state == "breaker"))
        }),
        ("mtu", "Maximum size of an inner packet in bytes", |peer| f64::from(peer.mtu)),
        ("waiting", "Packets waiting to be sent", |peer| peer.waiting as f64),
    ];
    for (name, help, read) in gauges {
        registry.register(name, help, gauges_of(peers.iter().map(|peer| (of(peer), read(peer)))));
    }
    let times: [(&str, &str, Read<Option<f64>>); 2] = [
        ("round_trip", "Round-trip time of the hop", |peer| peer.rtt_seconds),
        ("last_heard", "Time since the last authentic datagram from the peer", |peer| peer.heard_seconds),
    ];
    for (name, help, read) in times {
        let family = gauges_of(peers.iter().filter_map(|peer| Some((of(peer), read(peer)?))));
        registry.register_with_unit(name, help, Unit::Seconds, family);
    }
}

/// Registers the metrics of paths, for peers with several.
fn register_paths(registry: &mut Registry, peers: &[PeerSnapshot]) {
    type Read<T> = fn(&PathSnapshot) -> T;
    let paths = || {
        peers.iter().filter(|peer| peer.paths.len() > 1).flat_map(|peer| {
            let of = |path: &PathSnapshot| OfPath { peer: peer.name.clone(), path: path.name.clone() };
            peer.paths.iter().map(move |path| (of(path), path))
        })
    };
    if paths().next().is_none() {
        return;
    }
    let bytes: [(&str, &str, Read<u64>); 3] = [
        ("path_volume", "Bytes of datagrams on the path in both directions, with headers", |path| path.volume.bytes),
        ("path_framed", "Bytes of datagrams with link frames sent on the path", |path| path.frames.bytes),
        ("path_repair", "Bytes of datagrams with link frames for repair sent on the path", |path| path.repair.bytes),
    ];
    for (name, help, read) in bytes {
        let family = counters_of(paths().map(|(label, path)| (label, read(path))));
        registry.register_with_unit(name, help, Unit::Bytes, family);
    }
    let gauges: [(&str, &str, Read<f64>); 3] = [
        ("path_up", "0 if nothing is answered on the path", |path| f64::from(u8::from(path.works()))),
        ("path_loss", "Fraction of datagrams on the path lost in the last 2 s", |path| path.loss),
        ("path_rate", "Maximum rate of the path in bit/s, configured or found automatically", |path| path.rate as f64),
    ];
    for (name, help, read) in gauges {
        registry.register(name, help, gauges_of(paths().map(|(label, path)| (label, read(path)))));
    }
    let volumes: [(&str, &str, Read<Option<u64>>); 2] = [
        ("path_cap", "Maximum data volume of the path in a month", |path| path.cap_bytes),
        ("path_month", "Data volume of the path in the current month", |path| path.month_bytes),
    ];
    for (name, help, read) in volumes {
        let family = gauges_of(paths().filter_map(|(label, path)| Some((label, read(path)? as f64))));
        registry.register_with_unit(name, help, Unit::Bytes, family);
    }
    let times: [(&str, &str, Read<Option<f64>>); 2] = [
        ("path_round_trip", "Round-trip time of the path", |path| path.rtt_seconds),
        ("path_last_heard", "Time since the last authentic datagram from the peer on the path", |path| {
            path.heard_seconds
        }),
    ];
    for (name, help, read) in times {
        let family = gauges_of(paths().filter_map(|(label, path)| Some((label, read(path)?))));
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
        ("compared_packets", "Packets sent, not counting retransmissions", |arm| arm.packets),
        ("compared_lost_packets", "Packets lost and not repaired", |arm| arm.lost),
    ];
    for (name, help, read) in counters {
        registry.register(name, help, counters_of(arms().map(|(label, arm)| (label, read(&arm)))));
    }
    let gauges: [(&str, &str, Unit, Read<Option<f64>>); 2] = [
        ("compared_goodput", "Geometric mean of the goodputs of connections, per second", Unit::Bytes, |arm| {
            arm.goodput_bps.map(|bits| bits / 8.0)
        }),
        ("compared_round_trip", "Geometric mean of round-trip times over the hop", Unit::Seconds, |arm| {
            arm.rtt_seconds
        }),
    ];
    for (name, help, unit, read) in gauges {
        let family = gauges_of(arms().filter_map(|(label, arm)| Some((label, read(&arm)?))));
        registry.register_with_unit(name, help, unit, family);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names that begin with `prefix` in a text.
    fn names<'t>(text: &'t str, prefix: &str) -> BTreeSet<&'t str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(prefix)).collect()
    }

    /// The dashboard and the alerts of packages use metrics that exist.
    #[test]
    fn dashboard_and_alerts_use_existing_metrics() {
        let path = |name: &str| PathSnapshot {
            name: name.to_owned(),
            rtt_seconds: Some(0.02),
            heard_seconds: Some(0.1),
            state: "repairing".to_owned(),
            ..PathSnapshot::default()
        };
        let peer = PeerSnapshot {
            name: "hub".to_owned(),
            paths: vec![path("dish"), path("lte")],
            rtt_seconds: Some(0.02),
            heard_seconds: Some(0.1),
            ..PeerSnapshot::default()
        };
        let mut registry = Registry::with_prefix("lasthop_tunnel");
        register_snapshot(&mut registry, &Snapshot { peers: vec![peer], ..Snapshot::default() });
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        let mut known = names(&text, "lasthop_tunnel_");
        // Metrics of the supervisor.
        known.extend(["lasthop_tunnel_worker_up", "lasthop_tunnel_worker_restarts_total"]);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring");
        let mut count = 0;
        for file in ["alerts.yml", "grafana-tunnel.json"] {
            let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
            for name in names(&text, "lasthop_tunnel_") {
                assert!(known.contains(name), "{file}: {name}");
                count += 1;
            }
        }
        assert!(count > 15, "{count}");
        assert!(text.contains("lasthop_tunnel_path_up{peer=\"hub\",path=\"lte\"} 1"), "{text}");
    }
}

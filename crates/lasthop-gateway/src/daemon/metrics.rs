//! Metrics of the gateway for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::daemon::passage::{Treatment, Untreated};
use crate::daemon::snapshot::{RoundTrips, RuleSnapshot};
use crate::daemon::state::State;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Direction {
    towards: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Judged {
    verdict: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfRule {
    rule: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Treated {
    treatment: &'static str,
    family: &'static str,
}

/// Registers the metrics of each rule.
fn register_rules(registry: &mut Registry, rules: &[RuleSnapshot]) {
    type Read = fn(&RuleSnapshot) -> u64;
    let counters: [(&str, &str, Read); 9] = [
        ("rule_flows_seen", "Connections seen", |rule| rule.flows_seen),
        ("rule_flows_evicted", "Connections forgotten for want of room", |rule| rule.flows_evicted),
        ("rule_cache_evicted", "Connections whose cache was given up for want of room", |rule| rule.cache_evicted),
        (
            "rule_packets_guarded",
            "Packets passed untreated since a TCP option protects them (TCP-MD5, TCP-AO)",
            |rule| rule.packets_guarded,
        ),
        ("rule_repairs", "Packets resent over the lossy hop (observe: that would have been)", |rule| {
            rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer
        }),
        ("rule_dup_acks_suppressed", "Duplicate acknowledgments kept from senders", |rule| rule.dup_acks_suppressed),
        ("rule_wireless_losses", "Segments lost behind the gateway", |rule| rule.wireless_losses),
        ("rule_wired_losses", "Segments lost before the gateway", |rule| rule.wired_losses),
        ("rule_source_retransmissions", "Segments that came again", |rule| rule.source_retransmissions),
    ];
    for (name, help, read) in counters {
        let family = Family::<OfRule, Counter>::default();
        for rule in rules {
            family.get_or_create(&OfRule { rule: rule.name.clone() }).inc_by(read(rule));
        }
        registry.register(name, help, family);
    }
    type Trips = fn(&RuleSnapshot) -> &RoundTrips;
    let trips: [(&str, &str, Trips); 2] = [
        ("wired", "wired end", |rule| &rule.rtt_wired),
        ("wireless", "end behind the lossy hop", |rule| &rule.rtt_wireless),
    ];
    for (side, end, read) in trips {
        let samples = Family::<OfRule, Counter>::default();
        let sums = Family::<OfRule, Counter<f64, AtomicU64>>::default();
        for rule in rules {
            let label = OfRule { rule: rule.name.clone() };
            samples.get_or_create(&label).inc_by(read(rule).samples);
            sums.get_or_create(&label).inc_by(read(rule).sum_seconds);
        }
        registry.register(format!("rule_rtt_{side}_samples"), format!("Round trips measured to the {end}"), samples);
        let help = format!("Sum of round trips to the {end}");
        registry.register_with_unit(format!("rule_rtt_{side}"), help, Unit::Seconds, sums);
    }
}

/// Registers the suspension of each treatment and IP version.
fn register_suspended(registry: &mut Registry, state: &State) {
    let suspended = Family::<Treated, Gauge>::default();
    for treatment in Treatment::ALL {
        for family in crate::family::Family::BOTH.map(crate::family::Family::name) {
            let is_so = |one: &Untreated| one.treatment == treatment && one.family == family;
            let value = state.snapshot.untreated.iter().any(is_so);
            suspended.get_or_create(&Treated { treatment: treatment.name(), family }).set(value.into());
        }
    }
    registry.register(
        "suspended",
        "Whether connections pass untreated, since packets of the gateway's own do not pass",
        suspended,
    );
}

/// Returns the metrics as text. The worker's counters restart with each worker, as Prometheus expects after a restart.
pub fn encode(state: &State) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("lasthop");
    let packets = &state.snapshot.packets;
    let directions = |wireless: u64, wired: u64| {
        let family = Family::<Direction, Counter>::default();
        family.get_or_create(&Direction { towards: "wireless" }).inc_by(wireless);
        family.get_or_create(&Direction { towards: "wired" }).inc_by(wired);
        family
    };
    let forwarded = directions(packets.towards_wireless, packets.from_wireless);
    registry.register("packets", "Packets seen; a super-segment is one", forwarded);
    let bytes = directions(packets.towards_wireless_bytes, packets.from_wireless_bytes);
    registry.register_with_unit("seen", "Bytes seen, from the IP header on", Unit::Bytes, bytes);
    let injected = directions(packets.injected_wireless, packets.injected_wired);
    registry.register("injected_packets", "Packets sent by the gateway itself", injected);
    let verdicts = Family::<Judged, Counter>::default();
    let judged = [("accept", packets.accepted), ("take", packets.dropped), ("replace", packets.replaced)];
    for (verdict, count) in judged {
        verdicts.get_or_create(&Judged { verdict }).inc_by(count);
    }
    registry.register(
        "verdicts",
        "Packets by what became of them: accept (passed unchanged), replace (passed changed), take (held and sent later, or answered here)",
        verdicts,
    );
    let counters = [
        ("injection_failures", "Packets that could not be sent", packets.injection_failures),
        ("truncated_packets", "Packets shown in part only, and passed on", packets.truncated),
        ("damaged_packets", "TCP segments with a wrong checksum, passed on", state.snapshot.damaged),
        (
            "out_of_window_packets",
            "TCP segments that their receiver would refuse, passed on",
            state.snapshot.out_of_window,
        ),
        ("stranger_packets", "Packets of interfaces without a rule, passed on", packets.strangers),
        ("queue_overflows", "Times that packets passed by a full queue", packets.overflows),
        ("verdict_failures", "Verdicts that the kernel did not take", packets.verdict_failures),
        ("worker_restarts", "Workers started after the first", state.restarts),
        ("reloads", "Configurations taken after the first", state.reloads),
        (
            "suspensions",
            "Times that a treatment was suspended, since packets of the gateway's own did not pass",
            state.snapshot.suspensions,
        ),
        ("rules_restored", "Times that rules were put back that other programs had removed", state.rules.restored),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
    let gauges = [
        ("flows", "Connections with state", state.snapshot.flows),
        ("worker_up", "Whether there is a worker", u64::from(state.worker.is_some())),
        ("rules_in_place", "Whether all netfilter rules are there", u64::from(state.rules.in_place)),
    ];
    for (name, help, value) in gauges {
        registry.register(name, help, ConstGauge::new(value));
    }
    register_suspended(&mut registry, state);
    let cached = ConstGauge::new(state.snapshot.cached_bytes);
    registry.register_with_unit("cached", "Bytes of packets in caches", Unit::Bytes, cached);
    let uptime = Gauge::<f64, AtomicU64>::default();
    uptime.set(state.started.elapsed().as_secs_f64());
    registry.register_with_unit("uptime", "How long the gateway has run", Unit::Seconds, uptime);
    register_rules(&mut registry, &state.snapshot.rules);
    if let Some(split) = &state.snapshot.split {
        registry.register("split_connections", "Connections split", ConstCounter::new(split.total));
        registry.register(
            "split_refused",
            "Connections whose far side was out of reach",
            ConstCounter::new(split.refused),
        );
        registry.register(
            "split_aborted",
            "Connections that ended by a reset of either end or a timeout",
            ConstCounter::new(split.aborted),
        );
        registry.register("split_open_connections", "Connections split now", ConstGauge::new(split.open));
        let repairs = ConstCounter::new(split.repairs);
        registry.register("split_repairs", "Packets resent over the lossy hop beneath the relay's TCP", repairs);
        let bytes = directions(split.wireless.bytes, split.wired.bytes);
        registry.register_with_unit("split_relayed", "Bytes relayed", Unit::Bytes, bytes);
    }
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

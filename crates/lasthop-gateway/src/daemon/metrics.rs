//! Metrics of the gateway for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::daemon::passage::{Treatment, Untreated};
use crate::daemon::snapshot::{QuicArm, QuicSnapshot, RoundTrips, RuleSnapshot};
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
        ("rule_flows_evicted", "Connections evicted because the connection table was full", |rule| rule.flows_evicted),
        ("rule_cache_evicted", "Connections whose cached packets were evicted because the cache was full", |rule| {
            rule.cache_evicted
        }),
        (
            "rule_packets_guarded",
            "Packets passed untreated because a TCP option authenticates them (TCP-MD5, TCP-AO)",
            |rule| rule.packets_guarded,
        ),
        ("rule_repairs", "Packets retransmitted over the lossy hop (mode observe: that would have been)", |rule| {
            rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer
        }),
        ("rule_dup_acks_suppressed", "Duplicate acknowledgments suppressed", |rule| rule.dup_acks_suppressed),
        ("rule_wireless_losses", "Segments lost on the lossy hop", |rule| rule.wireless_losses),
        ("rule_wired_losses", "Segments lost on the wired side", |rule| rule.wired_losses),
        ("rule_source_retransmissions", "Segments retransmitted by their sender", |rule| rule.source_retransmissions),
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
        ("wired", "host on the wired side", |rule| &rule.rtt_wired),
        ("wireless", "host behind the lossy hop", |rule| &rule.rtt_wireless),
    ];
    for (side, end, read) in trips {
        let samples = Family::<OfRule, Counter>::default();
        let sums = Family::<OfRule, Counter<f64, AtomicU64>>::default();
        for rule in rules {
            let label = OfRule { rule: rule.name.clone() };
            samples.get_or_create(&label).inc_by(read(rule).samples);
            sums.get_or_create(&label).inc_by(read(rule).sum_seconds);
        }
        registry.register(
            format!("rule_rtt_{side}_samples"),
            format!("Round-trip times measured to the {end}"),
            samples,
        );
        let help = format!("Sum of round-trip times to the {end}");
        registry.register_with_unit(format!("rule_rtt_{side}"), help, Unit::Seconds, sums);
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfArm {
    rule: String,
    arm: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfReason {
    rule: String,
    arm: &'static str,
    reason: &'static str,
}

/// Registers the metrics of rules for QUIC, if there are any.
fn register_quic(registry: &mut Registry, rules: &[RuleSnapshot]) {
    type Read = fn(&QuicArm) -> u64;
    let counters: [(&str, &str, Read); 4] = [
        ("rule_quic_cases", "Acknowledgments of QUIC that revealed a loss", |arm| arm.cases),
        ("rule_quic_repaired", "Cases whose losses were all repaired (arm untreated: by the sender)", |arm| {
            arm.repaired
        }),
        ("rule_quic_copies", "Copies of datagrams that were sent, or would have been (arm untreated)", |arm| {
            arm.copies
        }),
        ("rule_quic_held", "Acknowledgments that were held, or would have been (arm untreated)", |arm| arm.held),
    ];
    let of_quic: Vec<_> = rules.iter().filter_map(|rule| Some((&rule.name, rule.quic?))).collect();
    if of_quic.is_empty() {
        return;
    }
    let arms = |quic: &QuicSnapshot| [("treated", quic.treated), ("untreated", quic.untreated)];
    for (name, help, read) in counters {
        let family = Family::<OfArm, Counter>::default();
        for (rule, quic) in &of_quic {
            for (arm, counts) in arms(quic) {
                family.get_or_create(&OfArm { rule: (*rule).clone(), arm }).inc_by(read(&counts));
            }
        }
        registry.register(name, help, family);
    }
    let passed = Family::<OfReason, Counter>::default();
    let unseen = Family::<OfRule, Counter>::default();
    for (rule, quic) in &of_quic {
        for (arm, counts) in arms(quic) {
            for (reason, _, count) in counts.passed.by_reason() {
                passed.get_or_create(&OfReason { rule: (*rule).clone(), arm, reason }).inc_by(count);
            }
        }
        unseen.get_or_create(&OfRule { rule: (*rule).clone() }).inc_by(quic.unseen);
    }
    registry.register("rule_quic_passed", "Times that a connection of QUIC was passed, by reason", passed);
    registry.register("rule_quic_unseen", "Connections of QUIC passed because their beginning was not seen", unseen);
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
        "1 if connections pass untreated because the gateway's own packets do not pass",
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
    registry.register("packets", "Packets seen; an aggregated segment (GRO, GSO) counts as one", forwarded);
    let bytes = directions(packets.towards_wireless_bytes, packets.from_wireless_bytes);
    registry.register_with_unit("seen", "Bytes seen, including IP headers", Unit::Bytes, bytes);
    let injected = directions(packets.injected_wireless, packets.injected_wired);
    registry.register("injected_packets", "Packets sent by the gateway itself", injected);
    let verdicts = Family::<Judged, Counter>::default();
    let judged = [("accept", packets.accepted), ("take", packets.dropped), ("replace", packets.replaced)];
    for (verdict, count) in judged {
        verdicts.get_or_create(&Judged { verdict }).inc_by(count);
    }
    registry.register(
        "verdicts",
        "Packets by verdict: accept (passed unchanged), replace (passed modified), take (held and sent later, or answered by the gateway)",
        verdicts,
    );
    let counters = [
        ("injection_failures", "Packets of the gateway that could not be sent", packets.injection_failures),
        ("truncated_packets", "Packets received truncated and passed untreated", packets.truncated),
        ("damaged_packets", "TCP segments with an invalid checksum, passed untreated", state.snapshot.damaged),
        (
            "out_of_window_packets",
            "TCP segments that their receiver would discard, passed untreated",
            state.snapshot.out_of_window,
        ),
        ("stranger_packets", "Packets of interfaces without a rule, passed untreated", packets.strangers),
        (
            "queue_overflows",
            "Overflows of the packet queue: packets passed untreated (on a bridge, they were lost)",
            packets.overflows,
        ),
        ("verdict_failures", "Verdicts that the kernel rejected", packets.verdict_failures),
        ("worker_restarts", "Worker restarts", state.restarts),
        ("reloads", "Successful configuration reloads", state.reloads),
        (
            "suspensions",
            "Suspensions of a treatment because the gateway's own packets did not pass",
            state.snapshot.suspensions,
        ),
        (
            "rules_restored",
            "Times that the gateway restored rules that other programs had removed or changed",
            state.own.restored,
        ),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
    let gauges = [
        ("flows", "Connections tracked", state.snapshot.flows),
        ("worker_up", "1 if a worker is processing packets", u64::from(state.worker.is_some())),
        ("rules_in_place", "1 if all netfilter rules are in place", u64::from(state.own.in_place)),
    ];
    for (name, help, value) in gauges {
        registry.register(name, help, ConstGauge::new(value));
    }
    register_suspended(&mut registry, state);
    let cached = ConstGauge::new(state.snapshot.cached_bytes);
    registry.register_with_unit("cached", "Bytes of cached packets", Unit::Bytes, cached);
    let uptime = Gauge::<f64, AtomicU64>::default();
    uptime.set(state.started.elapsed().as_secs_f64());
    registry.register_with_unit("uptime", "Time since the gateway started", Unit::Seconds, uptime);
    register_rules(&mut registry, &state.snapshot.rules);
    register_quic(&mut registry, &state.snapshot.rules);
    if let Some(split) = &state.snapshot.split {
        registry.register("split_connections", "Connections split", ConstCounter::new(split.total));
        registry.register(
            "split_refused",
            "Connections whose destination could not be reached",
            ConstCounter::new(split.refused),
        );
        registry.register(
            "split_aborted",
            "Split connections ended by a reset from either end or by a timeout",
            ConstCounter::new(split.aborted),
        );
        registry.register("split_open_connections", "Split connections now open", ConstGauge::new(split.open));
        let repairs = ConstCounter::new(split.repairs);
        registry.register("split_repairs", "Packets retransmitted over the lossy hop below the relay's TCP", repairs);
        let bytes = directions(split.wireless.bytes, split.wired.bytes);
        registry.register_with_unit("split_relayed", "Bytes relayed", Unit::Bytes, bytes);
    }
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::*;
    use crate::configuration::Gateway;
    use crate::daemon::snapshot::Snapshot;
    use crate::daemon::state::RulesState;

    /// Names of the gateway's metrics in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("lasthop_") && !word.starts_with("lasthop_tunnel_")).collect()
    }

    /// The dashboard and the alerts of packages use metrics that exist.
    #[test]
    fn dashboard_and_alerts_use_existing_metrics() {
        let text = "[[rule]]\nname = 'roof'\nmode = 'snoop'\ninterface = 'wlan0'\n";
        let rule = RuleSnapshot { name: "roof".to_owned(), ..RuleSnapshot::default() };
        let state = State {
            configuration: Gateway::parse("gateway.toml", text).unwrap(),
            started: Instant::now(),
            worker: Some(7),
            restarts: 0,
            reloads: 0,
            own: RulesState::default(),
            snapshot: Snapshot { rules: vec![rule], ..Snapshot::default() },
        };
        let text = encode(&state).unwrap();
        let (known, mut count) = (names(&text), 0);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring");
        for file in ["alerts.yml", "grafana-gateway.json"] {
            let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
            for name in names(&text) {
                assert!(known.contains(name), "{file}: {name}");
                count += 1;
            }
        }
        assert!(count > 15, "{count}");
    }
}

//! Answers of a gateway, in sentences with units; programs read the JSON.

use std::fmt::Write;

use lasthop_gateway::daemon::control::{Effect, GatewayStatus, OfRule, Report, RulesState, Status, Suspended};
use lasthop_gateway::daemon::snapshot::{
    PacketCounters, QuicSnapshot, RelaySide, RelaySnapshot, RoundTrips, RuleSnapshot,
};
use lasthop_scenario::one_line;
use lasthop_study::promise::{Beside, Promise};
use serde_json::json;

use crate::commands::answers::{self, Compared, Trouble, bytes, digits, gain, rate_since, span, troubles};
use crate::output::count;

/// Describes state and counters. `before` is an earlier answer, for the rates since then.
pub fn status(answer: &Status, before: Option<&Status>) -> String {
    let (more, mut lines) = (&answer.more, head(answer));
    for (way, packets, carried, own) in WAYS {
        let rate = rate_since(answer, before, |status| carried(&status.packets));
        let now = rate.map_or(String::new(), |bits| format!(", {} now", answers::rate(bits)));
        lines.push(format!(
            "{way}: {}, {}{now}; {} sent by the gateway itself",
            count(packets(&more.packets) as usize, "packet"),
            bytes(carried(&more.packets) as f64),
            own(&more.packets)
        ));
    }
    lines.extend(troubles(more, &TROUBLES));
    for rule in &more.rules {
        lines.push(rule_head(rule));
        let figures = rule.figures.clone().unwrap_or_default();
        let effect = Effect::from(&figures);
        if splits(rule) {
            if rule.ab > 0.0 {
                lines.push(format!("  {}", gain(&compared(rule, &effect))));
            }
            continue;
        }
        let mut details = match &figures.quic {
            Some(quic) => of_quic(quic),
            None => vec![losses(&rule.mode, &effect, figures.dup_acks_suppressed), round_trips(&effect)],
        };
        details.push(gain(&compared(rule, &effect)));
        lines.extend(details.into_iter().chain(guarded(&figures)).map(|detail| format!("  {detail}")));
    }
    lines.extend(more.split.as_ref().map(relay));
    lines.join("\n") + "\n"
}

/// Describes the state in a few lines.
pub fn summary(answer: &Status) -> String {
    let mut lines = head(answer);
    lines.extend(troubles(&answer.more, &TROUBLES));
    lines.extend(answer.more.rules.iter().map(rule_head));
    lines.join("\n") + "\n"
}

/// Describes what is wrong, one sentence each, and the relay.
pub fn remarks(answer: &Status) -> Vec<String> {
    let more = &answer.more;
    let worker = answer.worker.pid.is_none().then(|| worker(answer));
    let rules = more.firewall.as_ref().filter(|rules| !rules.in_place || rules.restored > 0).map(rules_in_place);
    let first = worker.into_iter().chain(rules).chain(more.untreated.iter().map(untreated));
    first.chain(troubles(more, &TROUBLES)).chain(more.split.as_ref().map(relay)).collect()
}

/// Describes the daemon without traffic and rules.
fn head(answer: &Status) -> Vec<String> {
    let Status { version, uptime_seconds, more, .. } = answer;
    let mut lines = vec![format!("lasthop {version}, up for {}; {}", span(*uptime_seconds), worker(answer))];
    lines.extend(more.firewall.as_ref().map(rules_in_place));
    lines.extend(more.untreated.iter().map(untreated));
    lines.push(format!(
        "{} of at most {}; {} cached of at most {}",
        count(more.flows as usize, "connection"),
        more.limits.flows,
        bytes(more.cached_bytes as f64),
        bytes(more.limits.cache_bytes as f64)
    ));
    lines
}

fn worker(answer: &Status) -> String {
    answers::worker(answer.worker, "packets pass untreated")
}

fn untreated(Suspended { untreated, problem }: &Suspended) -> String {
    format!(
        "NOT TREATED: {} over {}, for {}: {}",
        untreated.treatment.name(),
        untreated.family,
        span(untreated.seconds),
        one_line(problem)
    )
}

fn rule_head(rule: &OfRule<RuleSnapshot>) -> String {
    let figures = rule.figures.clone().unwrap_or_default();
    format!(
        "{}: {} on {}; {} now, {} since the worker started",
        rule.name,
        rule.mode,
        rule.interface,
        count(figures.flows_active as usize, "connection"),
        figures.flows_seen
    )
}

/// Describes the gain of the treatment, one line per rule, and compares it with the promise.
pub fn report(answer: &Report, promise: Option<&Promise>) -> String {
    let mut text = String::new();
    for rule in &answer.rules {
        let effect = rule.figures.clone().unwrap_or_default();
        if !splits(rule) || rule.ab > 0.0 {
            let _ = writeln!(text, "{}: {}", rule.name, gain(&compared(rule, &effect)));
        }
        if let Some(promise) = promise {
            let _ = writeln!(text, "  {}", Beside::of_rule(&json!(rule), promise).words());
        }
        if let Some(quic) = &effect.quic {
            of_quic(quic).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        } else if !splits(rule) {
            let _ = writeln!(text, "  {}\n  {}", losses(&rule.mode, &effect, 0), round_trips(&effect));
        }
    }
    if let Some(split) = &answer.split {
        let _ = writeln!(text, "{}", relay(split));
    }
    text
}

/// Reads a counter of packets.
type OfPackets = fn(&PacketCounters) -> u64;

/// Directions, with the counters of packets, of their bytes, and of the gateway's own packets.
const WAYS: [(&str, OfPackets, OfPackets, OfPackets); 2] = [
    (
        "towards the hop",
        |packets| packets.towards_wireless,
        |packets| packets.towards_wireless_bytes,
        |packets| packets.injected_wireless,
    ),
    (
        "from the hop",
        |packets| packets.from_wireless,
        |packets| packets.from_wireless_bytes,
        |packets| packets.injected_wired,
    ),
];

/// Counters that are zero in a healthy gateway, and their consequences.
const TROUBLES: [Trouble<GatewayStatus>; 9] = [
    (|status| status.packets.overflows, "queue overflows: packets passed untreated (on a bridge, they were lost)"),
    (|status| status.packets.injection_failures, "packets generated by the gateway could not be sent"),
    (|status| status.packets.verdict_failures, "verdicts were rejected by the kernel"),
    (|status| status.packets.truncated, "truncated packets passed untreated"),
    (|status| status.packets.strangers, "packets from interfaces that no rule names passed untreated"),
    (|status| status.damaged, "segments with a wrong checksum passed untreated"),
    (|status| status.out_of_window, "segments that receivers would reject passed without changing state"),
    (|status| status.unread, "packets that are neither valid TCP segments nor datagrams passed untreated"),
    (|status| status.unmatched, "packets that match no rule passed untreated"),
];

fn rules_in_place(rules: &RulesState) -> String {
    let restored = match rules.restored {
        0 => String::new(),
        times => format!(", restored {}", count(times as usize, "time")),
    };
    match &rules.problem {
        Some(problem) => format!("netfilter rules NOT IN PLACE{restored}: {}", one_line(problem)),
        None if !rules.in_place => format!("netfilter rules NOT IN PLACE{restored}"),
        None => format!("netfilter rules in place{restored}"),
    }
}

/// Returns whether a rule splits connections. The relay's own counters cover all such rules together.
fn splits<T>(rule: &OfRule<T>) -> bool {
    rule.mode == "split"
}

fn compared<T>(rule: &OfRule<T>, effect: &Effect) -> Compared {
    let arms = [effect.treated, effect.untreated];
    Compared {
        observes: rule.mode == "observe",
        ab: rule.ab,
        flows: arms.map(|arm| arm.flows),
        goodputs: arms.map(|arm| arm.goodput_bps),
        gain: effect.gain,
    }
}

/// Describes the packets that pass untreated because a TCP option protects them.
fn guarded(figures: &RuleSnapshot) -> Option<String> {
    let packets = figures.packets_guarded;
    (packets > 0).then(|| {
        format!(
            "{packets} packets passed untreated: protected by a TCP option (TCP-MD5, TCP-AO); {} with such an option now",
            count(figures.flows_guarded as usize, "connection")
        )
    })
}

fn losses(mode: &str, effect: &Effect, suppressed: u64) -> String {
    let Effect { wireless_losses: hop, wired_losses: wired, repairs, .. } = effect;
    let would = if mode == "observe" { "that snoop would have retransmitted" } else { "retransmitted by the gateway" };
    let mut text = format!("{hop} segments lost on the hop, {repairs} {would}; {wired} lost before the hop");
    if suppressed > 0 {
        let _ = write!(text, "; {suppressed} duplicate acknowledgments suppressed");
    }
    text
}

/// Describes the repair of QUIC, and why connections were passed.
fn of_quic(quic: &QuicSnapshot) -> Vec<String> {
    let QuicSnapshot { treated, untreated, unseen, aggregated } = quic;
    let mut lines = vec![format!(
        "{} of {} repaired, {}, {} held",
        treated.repaired,
        count(treated.cases as usize, "loss case"),
        if treated.copies == 1 { "1 copy".to_owned() } else { format!("{} copies", treated.copies) },
        count(treated.held as usize, "acknowledgment")
    )];
    if untreated.cases > 0 {
        lines.push(format!(
            "untreated connections: {} of {} confirmed by the sender",
            untreated.repaired,
            count(untreated.cases as usize, "loss case")
        ));
    }
    let connections = [
        (*unseen, "their beginning was not seen (older than the gateway, migrated, or not QUIC)"),
        (*aggregated, "an offload merges their datagrams"),
    ];
    for (connections, why) in connections.into_iter().filter(|(connections, _)| *connections > 0) {
        lines.push(format!("{} passed: {why}", count(connections as usize, "connection")));
    }
    for (_, why, times) in treated.passed.by_reason().into_iter().filter(|(_, _, times)| *times > 0) {
        lines.push(format!("passed {}, for some time or for good: {why}", count(times as usize, "time")));
    }
    lines
}

fn round_trips(effect: &Effect) -> String {
    let told = |trips: RoundTrips| {
        trips.mean_seconds.map_or("unknown".to_owned(), |seconds| format!("{} ms", digits(1e3 * seconds)))
    };
    format!(
        "mean round trip: over the hop {} (including queueing), wired side {} (including the sender's pauses)",
        told(effect.rtt_wireless),
        told(effect.rtt_wired)
    )
}

fn relay(relay: &RelaySnapshot) -> String {
    let side = |name: &str, side: &RelaySide| {
        format!(
            "{name} {}, {} retransmitted{}",
            bytes(side.bytes as f64),
            count(side.retransmissions as usize, "segment"),
            side.mean_rtt_seconds.map_or(String::new(), |seconds| format!(", round trip {} ms", digits(1e3 * seconds)))
        )
    };
    let mut text = format!(
        "split: {} now, {} so far; {}; {}",
        count(relay.open as usize, "connection"),
        relay.total,
        side("over the hop", &relay.wireless),
        side("wired side", &relay.wired)
    );
    for (times, what) in [
        (relay.refused, "could not be opened on the other side"),
        (relay.aborted, "ended by a reset or a timeout"),
        (relay.passed, "passed unsplit (limit reached, or an option that only the server can answer)"),
    ] {
        if times > 0 {
            let _ = write!(text, "; {times} {what}");
        }
    }
    text
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;

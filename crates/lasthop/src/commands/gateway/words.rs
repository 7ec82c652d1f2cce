//! Answers of a gateway, in sentences with units for people; programs read the JSON.

use std::fmt::Write;

use lasthop_scenario::one_line;
use lasthop_study::promise::{Beside, Promise};
use serde_json::Value;

use crate::commands::answers::{at, bytes, counted, digits, gain, number, rate, rate_since, span, word};
use crate::output::count;

/// Describes state and counters. `before` is an earlier answer, for the rates since then.
pub fn status(answer: &Value, before: Option<&Value>) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "lasthop {}, up for {}; {}",
        word(answer, "/version"),
        span(number(answer, "/uptime_seconds")),
        worker(answer)
    ));
    if let Some(rules) = rules_in_place(answer) {
        line(rules);
    }
    for one in answer.pointer("/untreated").and_then(Value::as_array).into_iter().flatten() {
        line(format!(
            "NOT TREATED: {} over {}, for {}: {}",
            word(one, "/treatment"),
            word(one, "/family"),
            span(number(one, "/seconds")),
            one_line(word(one, "/problem"))
        ));
    }
    line(format!(
        "{} of at most {}; {} cached of at most {}",
        counted(answer, "/flows", "connection"),
        number(answer, "/limits/flows"),
        bytes(number(answer, "/cached_bytes")),
        bytes(number(answer, "/limits/cache_bytes"))
    ));
    for (way, key, own) in [
        ("towards the hop", "towards_wireless", "injected_wireless"),
        ("from the hop", "from_wireless", "injected_wired"),
    ] {
        let of = |key: &str| format!("/packets/{key}");
        let (packets, carried) = (of(key), of(&format!("{key}_bytes")));
        let rate = rate_since(answer, before, &carried).map_or(String::new(), |bits| format!(", {} now", rate(bits)));
        line(format!(
            "{way}: {}, {}{rate}; {} sent by the gateway itself",
            counted(answer, &packets, "packet"),
            bytes(number(answer, &carried)),
            number(answer, &of(own))
        ));
    }
    for (pointer, what) in TROUBLES {
        if let times @ 1.. = number(answer, pointer) as u64 {
            line(format!("{times} {what}"));
        }
    }
    for rule in rules(answer) {
        line(format!(
            "{}: {} on {}; {} now, {} since the worker started",
            word(rule, "/name"),
            word(rule, "/mode"),
            word(rule, "/interface"),
            counted(rule, "/flows_active", "connection"),
            number(rule, "/flows_seen")
        ));
        if splits(rule) {
            if number(rule, "/ab") > 0.0 {
                line(format!("  {}", gain(rule)));
            }
            continue;
        }
        for detail in [losses(rule), round_trips(rule), gain(rule)].into_iter().chain(guarded(rule)) {
            line(format!("  {detail}"));
        }
    }
    if let Some(relay) = relay(answer) {
        line(relay);
    }
    text
}

/// Describes the gain of the treatment, one line per rule, beside the promise.
pub fn report(answer: &Value, promise: Option<&Promise>) -> String {
    let mut text = String::new();
    for rule in rules(answer) {
        let is_compared = !splits(rule) || number(rule, "/ab") > 0.0;
        if is_compared {
            let _ = writeln!(text, "{}: {}", word(rule, "/name"), gain(rule));
        }
        if let Some(promise) = promise {
            let _ = writeln!(text, "  {}", Beside::of_rule(rule, promise).words());
        }
        if !splits(rule) {
            let _ = writeln!(text, "  {}\n  {}", losses(rule), round_trips(rule));
        }
    }
    if let Some(relay) = relay(answer) {
        let _ = writeln!(text, "{relay}");
    }
    text
}

/// Counters that are zero in a healthy gateway, and their consequences.
const TROUBLES: [(&str, &str); 9] = [
    ("/packets/overflows", "times the queue had no room: packets passed untreated (on a bridge they were lost)"),
    ("/packets/injection_failures", "packets of the gateway's own could not be sent"),
    ("/packets/verdict_failures", "decisions were not taken by the kernel"),
    ("/packets/truncated", "packets came in part only, and passed untreated"),
    ("/packets/strangers", "packets came from interfaces that no rule names, and passed untreated"),
    ("/damaged", "segments had a wrong checksum, and passed untreated"),
    ("/out_of_window", "segments would be refused by their receivers, and taught the gateway nothing"),
    ("/unread", "packets are no readable TCP segments, and passed untreated"),
    ("/unmatched", "segments are in no rule, and passed untreated"),
];

fn worker(answer: &Value) -> String {
    let restarts = match number(answer, "/worker/restarts") as u64 {
        0 => "never replaced".to_owned(),
        times => format!("replaced {}", count(times as usize, "time")),
    };
    match answer.pointer("/worker/pid").and_then(Value::as_u64) {
        Some(pid) => format!("worker {pid}, {restarts}"),
        None => format!("NO WORKER: packets pass untreated ({restarts})"),
    }
}

fn rules_in_place(answer: &Value) -> Option<String> {
    let firewall = answer.get("firewall").filter(|firewall| firewall.is_object())?;
    let restored = match number(firewall, "/restored") as u64 {
        0 => String::new(),
        times => format!(", put back {}", count(times as usize, "time")),
    };
    Some(match firewall.pointer("/problem").and_then(Value::as_str) {
        Some(problem) => format!("netfilter rules NOT IN PLACE{restored}: {}", one_line(problem)),
        None if firewall.pointer("/in_place") == Some(&Value::Bool(false)) => {
            format!("netfilter rules NOT IN PLACE{restored}")
        }
        None => format!("netfilter rules in place{restored}"),
    })
}

fn rules(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.pointer("/rules").and_then(Value::as_array).into_iter().flatten()
}

/// Returns whether a rule splits connections. The relay's own counters cover all such rules together.
fn splits(rule: &Value) -> bool {
    word(rule, "/mode") == "split"
}

/// Describes the packets that pass untreated because a TCP option protects them.
fn guarded(rule: &Value) -> Option<String> {
    let packets = number(rule, "/packets_guarded");
    (packets > 0.0).then(|| {
        format!(
            "{packets} packets passed untreated: a TCP option protects them (TCP-MD5, TCP-AO); {} with such an option now",
            counted(rule, "/flows_guarded", "connection")
        )
    })
}

fn losses(rule: &Value) -> String {
    let [hop, wired, suppressed] =
        ["/wireless_losses", "/wired_losses", "/dup_acks_suppressed"].map(|key| number(rule, key));
    let by = ["/repairs_hole", "/repairs_duplicate", "/repairs_timer"].map(|key| number(rule, key));
    let repairs = at(rule, "/repairs").unwrap_or(by.iter().sum());
    let would = if word(rule, "/mode") == "observe" { "snoop would have sent" } else { "sent" };
    let mut text = format!("{hop} segments lost on the hop, {repairs} {would} again from here; {wired} lost before it");
    if suppressed > 0.0 {
        let _ = write!(text, "; {suppressed} duplicate acknowledgments kept from senders");
    }
    text
}

fn round_trips(rule: &Value) -> String {
    let mean = |side: &str| at(rule, &format!("/rtt_{side}/mean_seconds"));
    let told =
        |seconds: Option<f64>| seconds.map_or("unknown".to_owned(), |seconds| format!("{} ms", digits(1e3 * seconds)));
    format!(
        "mean time to an answer: over the hop {} (queue included), wired side {} (the sender's own pauses included)",
        told(mean("wireless")),
        told(mean("wired"))
    )
}

fn relay(answer: &Value) -> Option<String> {
    let relay = answer.get("split").filter(|relay| relay.is_object())?;
    let side = |name: &str| {
        let rtt = at(relay, &format!("/{name}/mean_rtt_seconds"));
        format!(
            "{} {}, {} sent again{}",
            if name == "wired" { "wired side" } else { "over the hop" },
            bytes(number(relay, &format!("/{name}/bytes"))),
            counted(relay, &format!("/{name}/retransmissions"), "segment"),
            rtt.map_or(String::new(), |seconds| format!(", round trip {} ms", digits(1e3 * seconds)))
        )
    };
    let mut text = format!(
        "split: {} now, {} so far; {}; {}",
        counted(relay, "/open", "connection"),
        number(relay, "/total"),
        side("wireless"),
        side("wired")
    );
    for (key, what) in [
        ("/refused", "could not be opened on the far side"),
        ("/aborted", "ended by a reset or a timeout"),
        ("/passed", "passed unsplit (no room for them, or an option that only the called end can answer)"),
    ] {
        if let times @ 1.. = number(relay, key) as u64 {
            let _ = write!(text, "; {times} {what}");
        }
    }
    Some(text)
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;

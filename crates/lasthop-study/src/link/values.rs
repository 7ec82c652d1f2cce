//! Properties of a link: values with their origin, and a description.

use lasthop_fit::scenario::{Link, Told};
use lasthop_fit::statement::Verdict;

use super::{Fitted, Given, MeasuredLink};

/// Start of the origin of an assumed value.
pub(super) const ASSUMED: &str = "assumed";

/// Returns a link of which only losses are known.
pub(super) fn assumed() -> Link {
    let told = |value: &str, flag: &str| Told { value: value.to_owned(), origin: format!("{ASSUMED}; {flag} sets it") };
    Link {
        half_duplex: None,
        rate: told("10 Mbps", "--rate"),
        rate_up: None,
        delay: told("10 ms", "--delay"),
        queue: told("100 packets", "--queue"),
        queue_up: None,
        wire_delay: told("20 ms", "--wire-delay"),
        keys: Vec::new(),
    }
}

/// Returns the given values, and the measured ones for the rest.
pub(super) fn link_of(given: &Given, measured: Link) -> Link {
    fn flag(value: Option<String>, flag: &str) -> Option<Told> {
        value.map(|value| Told { value, origin: flag.to_owned() })
    }
    Link {
        half_duplex: measured.half_duplex,
        // A given rate takes precedence over a rate measured over time.
        keys: measured.keys.into_iter().filter(|key| given.rate.is_none() || !of_rate(&key.key)).collect(),
        // Given values apply to both directions.
        rate_up: if given.rate.is_some() { None } else { measured.rate_up },
        queue_up: if given.queue.is_some() { None } else { measured.queue_up },
        rate: flag(given.rate.map(|it| it.to_string()), "--rate").unwrap_or(measured.rate),
        delay: flag(given.delay.map(|it| it.to_string()), "--delay").unwrap_or(measured.delay),
        queue: flag(given.queue.map(|it| it.to_string()), "--queue").unwrap_or(measured.queue),
        wire_delay: flag(given.wire_delay.map(|it| it.to_string()), "--wire-delay").unwrap_or(measured.wire_delay),
    }
}

/// Returns whether a key of the link describes the behaviour of its rate.
fn of_rate(key: &str) -> bool {
    ["rate_variation", "policer", "shaper", "aggregation"].iter().any(|name| key.starts_with(name))
}

impl MeasuredLink {
    /// Describes the link in one line: rate, delay and queue, if known, and losses.
    pub fn words(&self) -> String {
        let Link { half_duplex, rate, rate_up, delay, queue, .. } = &self.link;
        let more = |way: &str| if self.at_least.contains(&way) { " or more" } else { "" };
        let up = rate_up.as_ref().map_or(String::new(), |up| format!(" down, {}{} up", up.value, more("up")));
        let rate = format!("{}{}", rate.value, more("down"));
        let loss = |fitted: &Fitted| {
            let share = fitted.report.lost as f64 / fitted.report.packets.max(1) as f64;
            let model = fitted.report.chosen().family.name();
            let fits = match fitted.statement.loss.verdict {
                Verdict::Fits => "",
                Verdict::DoesNotFit => ", which does not fit well",
                Verdict::Unknown if fitted.report.kept.is_empty() => "",
                Verdict::Unknown => ", one of several models that the measurement allows",
            };
            match fitted.report.lost {
                0 => "none".to_owned(),
                _ => format!("{:.2} % ({model}{fits})", 100.0 * share),
            }
        };
        let losses = match &self.up {
            Some(up) => format!("{} down, {} up", loss(&self.down), loss(up)),
            None => loss(&self.down),
        };
        let medium = if half_duplex.is_some() { "half-duplex, " } else { "" };
        let lacks = |what: &str| self.lacking.contains(&what);
        let mut said = Vec::new();
        said.extend((!lacks("rate")).then(|| format!("{medium}{rate}{up}")));
        said.extend((!lacks("delay")).then(|| format!("delay {}", delay.value)));
        if !queue.origin.starts_with(ASSUMED) {
            said.push(format!("queue {}", queue.value));
        } else if self.lacking.is_empty() {
            said.push(format!("queue {} ({ASSUMED})", queue.value));
        }
        said.push(format!("losses {losses}"));
        let keys: Vec<&str> = self.link.keys.iter().map(|key| key.key.as_str()).collect();
        said.extend((!keys.is_empty()).then(|| keys.join(", ").replace('_', " ")));
        said.join(", ")
    }
}

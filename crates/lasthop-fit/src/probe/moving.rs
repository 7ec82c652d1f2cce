//! Rates that move: the family that a probe recognised as keys of the link, and replay of the measured rates.

use super::ProbeError;
use super::behaviour::{Found, kbps, steps};
use super::form::{Moving, MovingSlots, State, Varying};
use crate::measurement::Alternative;
use crate::scenario::{Key, digits, milliseconds};
use crate::statement::Said;

/// Time in which the rate grows after a boundary of slots, which trains do not show.
const RECOVERY: &str = "350 ms";

/// Checks the values of a rate over time.
pub(super) fn check(moving: &Moving, name: &str) -> Result<(), ProbeError> {
    let wrong = |key: &str, expected: &str| Err(ProbeError::Value(format!("{name}.moving.{key}: expected {expected}")));
    let is_rate = |rate: f64| (1.0..1e12).contains(&rate);
    if !(0.0..1e6).contains(&moving.seconds) {
        return wrong("seconds", "seconds, 0 to 1e6");
    }
    if let Some(slots) = &moving.slots {
        let MovingSlots { period_s, first_s, mean_bps, spread, inner, outage_ms, .. } = slots;
        let [least, most] = outage_ms;
        let is_right = (1.0..1e6).contains(period_s)
            && (0.0..=*period_s).contains(first_s)
            && is_rate(*mean_bps)
            && [spread, inner].into_iter().all(|deviation| (0.0..=3.0).contains(deviation))
            && *least >= 0.0
            && (*least..500.0 * period_s).contains(most);
        if !is_right {
            return wrong(
                "slots",
                "a period of 1 s or more, a rate, deviations from 0 to 3, outages within the period",
            );
        }
    }
    if !moving.states.is_empty() {
        let count = moving.states.len();
        let is_right = |state: &State| {
            (0.0..1e12).contains(&state.rate_bps)
                && (1e-3..1e6).contains(&state.mean_s)
                && state.next.len() == count
                && state.next.iter().all(|next| (0.0..=1.0).contains(next))
                && (state.next.iter().sum::<f64>() - 1.0).abs() < 1e-3
        };
        if !(2..=16).contains(&count) || !moving.states.iter().all(is_right) {
            return wrong("states", "2 to 16 states with a rate, a holding time, and probabilities that add up to 1");
        }
    }
    let is_step = |step: &super::form::Step| (0.0..1e6).contains(&step.at_s) && is_rate(step.rate_bps);
    if !moving.steps.iter().all(is_step) || moving.steps.windows(2).any(|pair| pair[1].at_s <= pair[0].at_s) {
        return wrong("steps", "increasing times with rates");
    }
    if moving.steps.last().is_some_and(|last| last.at_s >= moving.seconds) {
        return wrong("steps", "times before the end of the trace");
    }
    if moving.interval_ms.is_some_and(|interval| !(0.01..1e3).contains(&interval)) {
        return wrong("interval_ms", "milliseconds, 0.01 to 1000");
    }
    Ok(())
}

/// Adds the keys and verdicts that describe the rate of a direction, `down` or `up`.
pub(super) fn describe(found: &mut Found, moving: &Moving, varying: Option<&Varying>, way: &str) {
    let key = format!("rate_variation_{way}");
    let replay = format!(
        "{{ model = \"replay\", file = \"{}\", offset = \"random\", wrap = \"repeat\" }}",
        moving.trace.replace('\\', "\\\\").replace('"', "\\\"")
    );
    let inline = varying.and_then(steps).map(|steps| match steps.strip_suffix(" }") {
        Some(most) => format!("{most}, offset = \"random\" }}"),
        None => steps,
    });
    found.replay = inline.map(|inline| [replay.clone(), inline]);
    let summary = format!("{}; model {}: {}", moving.summary, moving.family, moving.why);
    let family = match moving.family.as_str() {
        "slots" => moving.slots.map(|slots| slots_toml(found, slots, way)),
        "steps" => steps_toml(moving),
        "markov" => markov_toml(moving),
        "constant" => {
            found.rate = Said::fits(summary);
            return;
        }
        "wifi" if varying.is_none() => {
            found.rate = Said::unknown(format!("{summary}; the scenario has a constant rate"));
            return;
        }
        "cell" => {
            if let Some(interval) = moving.interval_ms {
                let value = format!("\"{}\"", milliseconds(interval));
                found.keys.push(Key { key: format!("slots_{way}"), value, origin: format!("lasthop probe, {way}") });
            }
            if varying.is_none() {
                found.rate = Said::unknown(format!("{summary}; the scenario has a constant rate"));
                return;
            }
            None
        }
        _ => None,
    };
    // Reports of paths that are faster than the sender have no rate to replay.
    if found.replay.is_none() {
        found.rate = Said::unknown(summary);
        return;
    }
    let origin = format!("lasthop probe, {way}: {}", moving.family);
    let Some(family) = family else {
        let told = format!("{summary}; the scenario replays the measured rate (rate_variation_{way})");
        found.rate = match moving.family.as_str() {
            "replay" => Said::fits(told),
            _ => Said::unknown(told),
        };
        found.keys.push(Key { key, value: replay, origin });
        return;
    };
    let told = format!("{summary}; modelled by rate_variation_{way}");
    found.rate = match moving.fits {
        Some(true) => Said::fits(told),
        Some(false) => Said::does_not(told),
        None => Said::unknown(told),
    };
    found.keys.push(Key { key: key.clone(), value: family, origin });
    found.alternatives.push(Alternative {
        name: format!("replay of the measured rate {way}, {} trains", moving.trains),
        key: format!("links.hop.{key}"),
        value: replay,
    });
}

fn slots_toml(found: &mut Found, slots: MovingSlots, way: &str) -> String {
    let MovingSlots { period_s, first_s, mean_bps, spread, inner, outage_ms, outage_seen, slots } = slots;
    found.line_rate = Some(mean_bps);
    found
        .assumed
        .push(format!("rates of slots {way}: spread of {slots} slots; recovery of {RECOVERY} after a boundary"));
    let [least, most] = outage_ms.map(milliseconds);
    if !outage_seen {
        found.assumed.push(format!("pause at a boundary {way}: {least} to {most}"));
    }
    // The first boundary is a time, not a duration: it may be zero.
    format!(
        "{{ model = \"slots\", period = \"{} s\", first = \"{} s\", spread = {}, inner = {}, outage = [\"{least}\", \"{most}\"], recovery = \"{RECOVERY}\" }}",
        digits(period_s),
        digits(first_s),
        digits(spread),
        digits(inner)
    )
}

fn steps_toml(moving: &Moving) -> Option<String> {
    let begin = moving.steps.first()?.at_s;
    let step = |step: &super::form::Step| {
        format!("{{ at = \"{} s\", rate = \"{}\" }}", digits(step.at_s - begin), kbps(step.rate_bps))
    };
    let written: Vec<String> = moving.steps.iter().map(step).collect();
    let length = digits(moving.seconds - begin);
    Some(format!(
        "{{ model = \"steps\", steps = [{}], length = \"{length} s\", wrap = \"repeat\", offset = \"random\" }}",
        written.join(", ")
    ))
}

fn markov_toml(moving: &Moving) -> Option<String> {
    if moving.states.is_empty() {
        return None;
    }
    let state = |state: &State| {
        // Rounded probabilities must add up to one.
        let sum: f64 = state.next.iter().sum();
        let next: Vec<String> = state.next.iter().map(|next| format!("{}", next / sum)).collect();
        format!(
            "{{ rate = \"{}\", mean = \"{} s\", next = [{}] }}",
            kbps(state.rate_bps),
            digits(state.mean_s),
            next.join(", ")
        )
    };
    let states: Vec<String> = moving.states.iter().map(state).collect();
    Some(format!("{{ model = \"markov\", states = [{}] }}", states.join(", ")))
}

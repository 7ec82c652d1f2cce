//! Answers on the gateway's control socket ([`lasthop_daemon::control`]): its status, and a report on the effect of
//! treatment.

use std::path::Path;

pub use lasthop_daemon::control::{ControlError, Request};
use serde_json::{Value, json};

use crate::configuration::{Bridge, Rule};
use crate::daemon::passage::Untreated;
use crate::daemon::snapshot::RuleSnapshot;
use crate::daemon::state::State;

/// Name of the daemon in messages.
pub(super) const WHO: &str = "gateway";

/// Sends a request to the gateway whose control socket is `path`.
///
/// # Errors
///
/// Returns an error if no gateway answers, or it returns an error.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    lasthop_daemon::control::ask(path, WHO, request)
}

/// Removes the socket of a gateway that no longer runs.
///
/// # Errors
///
/// Returns an error if a gateway answers on it, or it is not a socket.
pub fn remove_stale(path: &Path) -> Result<(), ControlError> {
    lasthop_daemon::control::remove_stale(path, WHO)
}

/// Returns state and statistics.
pub(super) fn status(state: &State) -> Value {
    let bridge = state.configuration.bridge.as_ref();
    let rules_state = &state.installed;
    state.status(json!({
        "firewall": bridge.is_none().then(|| json!({
            "in_place": rules_state.in_place, "restored": rules_state.restored, "problem": rules_state.problem,
        })),
        "untreated": untreated(&state.snapshot.untreated),
        "suspensions": state.snapshot.suspensions,
        "bridge": bridge.map(|Bridge { wired, wireless }| json!({ "wired": wired, "wireless": wireless })),
        "limits": { "cache_bytes": state.configuration.limits.cache, "flows": state.configuration.limits.flows },
        "flows": state.snapshot.flows,
        "cached_bytes": state.snapshot.cached_bytes,
        "unread": state.snapshot.unread,
        "damaged": state.snapshot.damaged,
        "out_of_window": state.snapshot.out_of_window,
        "unmatched": state.snapshot.unmatched,
        "packets": state.snapshot.packets,
        "rules": rules(state, |snapshot| json!(snapshot)),
        "split": state.snapshot.split,
    }))
}

/// Returns the effect of treatment.
pub(super) fn report(state: &State) -> Value {
    let report = |rule: &RuleSnapshot| {
        json!({
            "treated": rule.treated,
            "untreated": rule.untreated,
            "gain": rule.gain,
            "wireless_losses": rule.wireless_losses,
            "wired_losses": rule.wired_losses,
            "repairs": rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer,
            "rtt_wired": rule.rtt_wired,
            "rtt_wireless": rule.rtt_wireless,
        })
    };
    let tape = state.worker.zip(state.snapshot.tape).map(|(worker, file)| json!({ "process": worker, "file": file }));
    json!({ "rules": rules(state, report), "split": state.snapshot.split, "link": tape })
}

/// Returns the suspended treatments, each with a description of the cause.
fn untreated(all: &[Untreated]) -> Vec<Value> {
    let of = |one: &Untreated| {
        let mut value = json!(one);
        value["problem"] = json!(one.cause.words());
        value
    };
    all.iter().map(of).collect()
}

/// Combines the configuration of each rule with the worker's statistics.
fn rules(state: &State, describe: impl Fn(&RuleSnapshot) -> Value) -> Vec<Value> {
    let rule = |rule: &Rule| {
        let mut value = json!({
            "name": rule.name, "mode": rule.mode.name(), "interface": rule.interface, "ab": rule.ab.get(),
        });
        let found = state.snapshot.rules.iter().find(|snapshot| snapshot.name == rule.name);
        if let (Value::Object(all), Some(Value::Object(more))) = (&mut value, found.map(&describe)) {
            all.extend(more);
        }
        value
    };
    state.configuration.rules.iter().map(rule).collect()
}

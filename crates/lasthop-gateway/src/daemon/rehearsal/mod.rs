//! Rehearsal: the gateway treats real connections between a host behind the hop and one on the wired side, in a copy of
//! this machine's rules, routes and interfaces in temporary network namespaces. It shows the effect of the machine's
//! chains on the gateway's packets without touching forwarded traffic.
//!
//! | module | contents |
//! |---|---|
//! | `replica` | the copy: interfaces, addresses, routes, settings, rules |
//! | `ends` | the two hosts and their connections |
//! | `drops` | rules that drop packets, from nftables' trace and from counters |

mod drops;
mod ends;
mod replica;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lasthop_sys::namespace;
use rustix::process::Signal;
use serde_json::Value;

use self::drops::{Drop, Trace};
use self::ends::{Ends, Transfer};
use self::replica::{Replica, ReplicaError};
use crate::configuration::{Gateway, Mode, OpenedBy, Rule};
use crate::daemon::check::{Finding, Outcome};
use crate::daemon::control::{self, Request};
use crate::daemon::passage::{Cause, Treatment, Untreated};
use crate::family::Family;
use crate::firewall::Firewall;
use crate::split::Marks;

/// Time for the gateway to start.
const START: Duration = Duration::from_secs(10);
/// Interval of status requests, longer than the worker's interval of reports to the supervisor; and maximum time until
/// the status shows a result.
const SNAPSHOT: Duration = Duration::from_millis(700);
const SNAPSHOTS: Duration = Duration::from_secs(6);
/// Number of connections in a rehearsal: a chain may drop the first one.
const CONNECTIONS: usize = 3;
/// Maximum number of rules to add before the rehearsal gives up.
const MOST_REMEDIES: usize = 6;

/// Rehearses each rule that treats connections, for each IP version that it concerns.
pub(super) fn rehearse(gateway: &Gateway) -> Vec<Finding> {
    let mut rehearsals = Vec::new();
    let mut done: Vec<(&str, &str)> = Vec::new();
    for rule in &gateway.rules {
        let mode = rule.mode.name();
        // Held datagrams continue in the queue, and refused copies do no harm.
        if matches!(rule.mode, Mode::Observe | Mode::Quic) || done.contains(&(mode, &rule.interface)) {
            continue;
        }
        done.push((mode, &rule.interface));
        let families = Family::BOTH.into_iter().filter(|family| concerns(rule, *family));
        rehearsals.extend(families.map(|family| begin(gateway, rule, family)));
    }
    rehearsals.into_iter().filter_map(end).collect()
}

fn concerns(rule: &Rule, family: Family) -> bool {
    rule.addresses.is_empty() || rule.addresses.iter().any(|network| family.has(network))
}

/// Rehearsal in progress, with its subject.
type Rehearsal = (String, JoinHandle<Result<(Outcome, String), ReplicaError>>);

/// Starts a rehearsal in a thread of its own, because it enters another network namespace.
fn begin(gateway: &Gateway, rule: &Rule, family: Family) -> Rehearsal {
    let subject = format!("firewall, {} over {}", rule.mode.name(), family.name());
    let (gateway, rule) = (gateway.clone(), rule.clone());
    (subject, std::thread::spawn(move || Stage::set(&gateway, &rule, family).and_then(|mut stage| stage.rehearse())))
}

/// Waits for the end of a rehearsal. No finding if the IP version is not in use on the hop.
fn end((subject, thread): Rehearsal) -> Option<Finding> {
    match thread.join().unwrap_or_else(|_| Err(ReplicaError::Other("the rehearsal failed".to_owned()))) {
        Ok((outcome, detail)) => Some(Finding::new(subject, outcome, detail)),
        Err(ReplicaError::Unused) => None,
        Err(ReplicaError::Other(reason)) => {
            Some(Finding::new(subject, Outcome::Hint, format!("not rehearsed: {reason}")))
        }
    }
}

/// Replica with its two hosts, and a gateway's configuration.
struct Stage {
    replica: Replica,
    ends: Ends,
    family: Family,
    mode: &'static str,
    mark: u32,
    configuration: String,
}

/// Result of test connections with a gateway.
struct Performance {
    untreated: Vec<Untreated>,
    drops: Vec<Drop>,
    transfers: Vec<Transfer>,
}

impl Stage {
    /// Copies the machine. The calling thread enters the replica.
    fn set(gateway: &Gateway, rule: &Rule, family: Family) -> Result<Self, ReplicaError> {
        let replica = Replica::new(rule, family)?;
        let port = rule.ports.first().map_or(443, |range| range.first);
        let opener_is_wired = rule.opened_by == OpenedBy::Wired;
        let ends = Ends::new(&replica, port, opener_is_wired)?;
        let control = replica.folder().join("gateway.sock");
        let opened_by = if opener_is_wired { "opened_by = \"wired\"\n" } else { "" };
        let ports = if opener_is_wired { format!("ports = {port}\n") } else { String::new() };
        let configuration = format!(
            "control = {control:?}\nlog = \"error\"\nqueue = {}\nmark = {}\n\n[[rule]]\nname = \"rehearsal\"\nmode = \"{}\"\n\
             interface = \"{}\"\n{ports}{opened_by}",
            gateway.queue,
            gateway.mark,
            rule.mode.name(),
            rule.interface,
        );
        Ok(Self { replica, ends, family, mode: rule.mode.name(), mark: gateway.mark, configuration })
    }

    fn rehearse(&mut self) -> Result<(Outcome, String), ReplicaError> {
        if let Err(problem) = self.ends.transfer() {
            let detail = format!(
                "not rehearsed: this machine's rules do not forward a test connection from {} to {} without the gateway either ({problem})",
                self.ends.opener(),
                self.ends.called()
            );
            return Ok((Outcome::Hint, detail));
        }
        let (mut first, mut remedies): (Option<String>, Vec<String>) = (None, Vec::new());
        loop {
            let Performance { untreated, drops, transfers } = self.perform()?;
            let lost = transfers.iter().find_map(|transfer| transfer.as_ref().err());
            if untreated.is_empty() && lost.is_none() {
                break;
            }
            let (problem, remedy) = self.judge(&untreated, &drops, lost);
            first.get_or_insert(problem);
            match remedy.filter(|remedy| !remedies.contains(remedy) && remedies.len() < MOST_REMEDIES) {
                Some(remedy) if self.replica.apply(&remedy) => remedies.push(remedy),
                _ => {
                    let problem = first.unwrap_or_default();
                    let tried = if remedies.is_empty() {
                        String::new()
                    } else {
                        format!(" (insufficient: {})", remedies.join("; "))
                    };
                    return Ok((Outcome::Missing, format!("{problem}{tried}{}", self.replica.left_out())));
                }
            }
        }
        let left_out = self.replica.left_out();
        Ok(match first {
            None => (Outcome::Ok, format!("this machine's rules let the gateway's packets pass{left_out}")),
            Some(problem) => {
                let remedies = remedies.join("; ");
                (Outcome::Missing, format!("{problem}. Remedy, tested in a copy of the rules: {remedies}{left_out}"))
            }
        })
    }

    /// Returns a description of the problem, and the command that adds a rule.
    fn judge(&self, untreated: &[Untreated], drops: &[Drop], lost: Option<&String>) -> (String, Option<String>) {
        let Some(one) = untreated.first() else {
            let lost = lost.map_or("", String::as_str);
            return (
                format!(
                    "a connection between {} and {} fails with the gateway: {lost}",
                    self.ends.opener(),
                    self.ends.called()
                ),
                None,
            );
        };
        let hooks = crate::daemon::suspects::hooks(one.cause);
        let found = drops.iter().find(|drop| hooks.contains(&drop.hook.as_str()));
        let mut problem = format!("{}; connections would pass untreated", one.cause.words());
        let remedy = found.and_then(|drop| {
            problem.push_str(&format!(": {}", drop.words()));
            drop.remedy(self.family, self.mask(one, drop))
        });
        (problem, remedy)
    }

    /// Returns the bits of the mark of packets that a chain is to accept.
    fn mask(&self, one: &Untreated, drop: &Drop) -> u32 {
        let marks = Marks::default();
        match (one.treatment, drop.hook.as_str()) {
            (Treatment::Split, "prerouting" | "input") => marks.deliver,
            (Treatment::Split, _) => drop.mark.map_or(marks.accepted, |mark| match mark {
                mark if mark & marks.opened != 0 => marks.opened,
                _ => marks.accepted,
            }),
            _ => self.mark,
        }
    }

    /// Returns the gateway's status once it shows the result of the connections, or after a timeout.
    fn status(&self, control: &Path) -> Result<Value, ReplicaError> {
        let (begun, mut told) = (Instant::now(), false);
        loop {
            std::thread::sleep(SNAPSHOT);
            let status = control::ask(control, Request::Status);
            let status = status.map_err(|error| ReplicaError::Other(error.to_string()))?;
            if told || begun.elapsed() >= SNAPSHOTS {
                return Ok(status);
            }
            told = self.has_treated(&status) || !self.untreated(&status).is_empty();
        }
    }

    /// Returns whether the gateway has treated anything.
    fn has_treated(&self, status: &Value) -> bool {
        let count = if self.mode == "split" { "/split/total" } else { "/packets/towards_wireless" };
        status.pointer(count).and_then(Value::as_u64).is_some_and(|count| count > 0)
    }

    /// Returns suspensions of the rehearsed treatment. A relay works without repairs below it.
    fn untreated(&self, status: &Value) -> Vec<Untreated> {
        let all = status.get("untreated").cloned().unwrap_or_default();
        let mut all: Vec<Untreated> = serde_json::from_value(all).unwrap_or_default();
        all.retain(|one| one.family == self.family.name() && one.treatment.name() == self.mode);
        all
    }

    fn perform(&mut self) -> Result<Performance, ReplicaError> {
        let file = self.replica.folder().join("gateway.toml");
        std::fs::write(&file, &self.configuration).map_err(ReplicaError::from_io("temporary file"))?;
        let control = self.replica.folder().join("gateway.sock");
        let parsed = Gateway::load(&file).map_err(|error| ReplicaError::Other(error.to_string()))?;
        let firewall = Firewall::choose(&parsed).map_err(|error| ReplicaError::Other(error.to_string()))?;
        if !firewall.covers(self.family) {
            let name = self.family.name();
            return Err(ReplicaError::Other(format!(
                "no program can install rules for {name}; its connections pass untreated"
            )));
        }
        let mut gateway = Running::start(&file)?;
        let begun = Instant::now();
        while control::ask(&control, Request::Status).is_err() {
            if begun.elapsed() > START || gateway.has_ended() {
                return Err(ReplicaError::Other(
                    "the gateway does not start in a copy of this machine's rules".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let trace = Trace::start(&self.replica);
        let transfers: Vec<_> = (0..CONNECTIONS).map(|_| self.ends.transfer()).collect();
        let status = self.status(&control)?;
        let drops = trace.end(&self.replica);
        drop(gateway);
        let mut untreated = self.untreated(&status);
        if untreated.is_empty() && self.mode == "split" && !self.has_treated(&status) {
            let (treatment, family) = (Treatment::Split, self.family.name().to_owned());
            // A refused or undelivered packet would have caused a suspension by now.
            untreated.push(Untreated { treatment, family, cause: Cause::Silent, seconds: 0.0 });
        }
        Ok(Performance { untreated, drops, transfers })
    }
}

/// Gateway in the calling thread's network namespace; dropping it ends the process.
struct Running(Child);

impl Running {
    fn start(file: &std::path::Path) -> Result<Self, ReplicaError> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["gateway", "run"]).arg(file).env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The process ends with this thread.
        let space = replica::own_namespace().map_err(ReplicaError::from_io("network namespace"))?;
        namespace::run_in(&mut command, space.into(), Signal::TERM);
        command.spawn().map(Self).map_err(ReplicaError::from_io("gateway"))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl std::ops::Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

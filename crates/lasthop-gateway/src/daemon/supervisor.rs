//! Process that the operator starts. It installs the rules, restarts the worker when needed, answers on the control
//! socket, and removes the rules at the end.
//!
//! A worker without heartbeats is killed. The kernel then closes the queue, the rules let all packets pass, and the
//! next worker takes over.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use lasthop_daemon::child::{SILENCE, WorkerProgram};
use lasthop_daemon::child::{Worker, let_end};
use lasthop_daemon::supervision::{self, Answers, Daemon, Interfaces, Team};
use lasthop_daemon::system_error::system;

use crate::configuration::Gateway;
use crate::daemon::guard::Guard;
use crate::daemon::order::Order;
use crate::daemon::snapshot::Snapshot;
use crate::daemon::state::{RulesState, State};
use crate::daemon::suspects::Reported;
use crate::daemon::{control, metrics};
use crate::firewall::{Firewall, FirewallError};
use crate::settings;
use crate::split::SplitError;

/// Time for packets that wait in the queue after the rules are removed.
const DRAIN: Duration = Duration::from_millis(100);

/// Reason why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
    /// The rules cannot be installed.
    #[error(transparent)]
    Firewall(#[from] FirewallError),
    /// Connections cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A reason common to all daemons.
    #[error(transparent)]
    Common(#[from] supervision::Error),
}

/// Returns the rules that [`run`] would install, without installing them.
pub fn dry_run(path: &Path) -> Result<String, SupervisorError> {
    let gateway = Gateway::load(path)?;
    settings::split(&gateway).map_or(Ok(()), |split| split.validate())?;
    Ok(Firewall::choose(&gateway)?.describe(&gateway))
}

/// Runs the gateway until SIGTERM or SIGINT. Calls `tell_level` with the log level of each configuration that is
/// applied.
pub fn run(path: &Path, program: WorkerProgram, tell_level: &dyn Fn(&str)) -> Result<(), SupervisorError> {
    supervision::run(path, program, tell_level, |state, text, signals| {
        let firewall = Firewall::choose(&state.lock().configuration)?;
        let guard = Guard::start(firewall, state.clone(), Arc::clone(&signals.wake));
        let guard = guard.map_err(system("cannot start a thread")).map_err(supervision::Error::from)?;
        Ok(Supervisor { file: path.display().to_string(), text, guard, told: true, reported: Reported::default() })
    })
}

struct Supervisor {
    /// Name of the configuration's file, and its current text.
    file: String,
    text: String,
    guard: Guard,
    /// State of the rules as last sent to the worker: true if they are in place.
    told: bool,
    reported: Reported,
}

impl Daemon for Supervisor {
    type Configuration = Gateway;
    /// Text of the configuration file.
    type Plan = String;
    type Order = Order;
    type Snapshot = Snapshot;
    type Own = RulesState;
    type Error = SupervisorError;

    const WHO: &'static str = control::WHO;
    const LOSS: &'static str = "; packets pass untreated";
    const ANSWERS: Answers<State> =
        Answers { metrics: metrics::encode, status: control::status, report: control::report };

    fn load(path: &Path) -> Result<(Gateway, String), SupervisorError> {
        Ok(Gateway::load_with_text(path)?)
    }

    fn interfaces(gateway: &Gateway) -> Interfaces<'_> {
        let Gateway { control, control_group, metrics, log, .. } = gateway;
        Interfaces { control, control_group: control_group.as_ref(), metrics: *metrics, log }
    }

    fn fixed(&self, old: &Gateway, (gateway, _): (&Gateway, &String)) -> Vec<(&'static str, bool)> {
        vec![
            ("queue", gateway.queue != old.queue),
            ("mark", gateway.mark != old.mark),
            ("trial", gateway.trial != old.trial),
            ("limits.link", gateway.limits.link != old.limits.link),
            ("bridge", gateway.bridge != old.bridge),
            // The programs of the bridge's ports select the protocols.
            ("quic", gateway.bridge.is_some() && settings::has_quic(gateway) != settings::has_quic(old)),
            ("split", settings::split(gateway) != settings::split(old)),
        ]
    }

    fn first_order(&mut self, _: &Snapshot) -> Order {
        self.told = true;
        self.order()
    }

    /// Installs the rules once the first worker takes packets.
    fn on_started(&mut self) -> Result<(), SupervisorError> {
        Ok(self.guard.install()?)
    }

    /// Reports suspended treatments, and tells the worker whether the rules for its relay are in place.
    fn on_looked_after(&mut self, team: &mut Team<Self>) {
        let state = team.state().lock();
        let (untreated, in_place) = (state.snapshot.untreated.clone(), state.own.in_place);
        drop(state);
        self.reported.report(&untreated);
        if let Some(worker) = team.keeper().working().filter(|_| self.told != in_place) {
            match worker.channel.send(&Order::Rules { in_place }) {
                Ok(()) => self.told = in_place,
                // Tried again at the next beat.
                Err(error) => tracing::debug!(%error, "cannot send the state of the rules to the worker"),
            }
        }
    }

    /// Configures the worker first, so that it knows the connections that the new rules send to it.
    fn apply(&mut self, gateway: &Gateway, text: String, team: &mut Team<Self>) -> Result<(), SupervisorError> {
        let firewall = Firewall::choose(gateway)?;
        let old_text = std::mem::replace(&mut self.text, text);
        let told = team.tell(&self.order()).map_err(SupervisorError::from);
        if let Err(error) = told.and_then(|()| Ok(self.guard.change(firewall)?)) {
            self.text = old_text;
            team.tell(&self.order())?;
            return Err(error);
        }
        Ok(())
    }

    /// Lets the worker send held packets, removes the rules, lets the worker decide on waiting packets, and ends it.
    fn stop(&mut self, team: &mut Team<Self>) -> Result<(), SupervisorError> {
        // First, so that no later packet overtakes held ones.
        if team.keeper().working().is_some()
            && let Err(error) = team.tell(&Order::Release)
        {
            tracing::warn!(%error, "the worker cannot release held packets; they may be lost");
        }
        let removed = self.guard.remove();
        if let Some(Worker { child, channel, .. }) = team.keeper().take() {
            std::thread::sleep(DRAIN);
            drop(channel);
            let_end(child);
        }
        Ok(removed?)
    }
}

impl Supervisor {
    fn order(&self) -> Order {
        Order::Configure { file: self.file.clone(), text: self.text.clone() }
    }
}

//! Rules that direct packets to the gateway: its own chains in netfilter's tables, installed in one transaction per IP
//! version and removed completely; and the routes that deliver split connections to this machine.
//!
//! A chain `LASTHOP`, reached from the end of `FORWARD`, sends the packets of each rule to the queue with
//! `--queue-bypass`, so that they pass without a reader. `split.rs` contains the rules that direct connections to the
//! relay.

mod chains;
mod forward;
mod matching;
mod native;
mod programs;
mod pulse;
mod routing;
mod split;
pub mod watch;

use std::fmt::Write as _;

use self::chains::{Chain, Listing, Stage};
use self::programs::{LOCK_WAIT, Tables};
use self::routing::Routing;
use crate::configuration::{Bridge, Gateway};
use crate::family::Family;
use crate::settings;
use crate::split::SplitConfig;

pub use self::chains::CHAIN;
pub use self::programs::FirewallError;
pub use self::pulse::{PULSE, Pulse};

/// Configuration from which the rules are generated.
#[derive(Clone, Debug)]
struct Source {
    /// Selection of packets for the queue; `None` for a relay alone.
    forward: Option<Gateway>,
    /// Selection of connections for the relay, if a rule splits.
    split: Option<SplitConfig>,
}

impl Source {
    fn chains(&self, family: Family, pulse: Pulse) -> Vec<Chain> {
        let mut chains =
            self.forward.as_ref().map(|gateway| forward::chains(gateway, family, pulse)).unwrap_or_default();
        if let Some(split) = self.split.as_ref().filter(|split| split.speaks(family)) {
            split::extend_output(split, &mut chains);
            chains.extend(split::chains(split, family, pulse));
            if let Some(gateway) = &self.forward {
                chains.extend(beneath(gateway, split, family, pulse));
            }
        }
        chains
    }

    fn routing(&self, family: Family) -> Option<Routing> {
        self.split.as_ref().filter(|split| split.speaks(family)).map(|split| Routing::new(split, family))
    }

    /// Generates [`Source::text`] for a trial. No table is committed in a trial, so each appears once.
    fn trial(&self, tables: &Tables, pulse: Pulse) -> String {
        if tables.is_native() {
            return self.native(tables.family, pulse);
        }
        let mut chains = self.chains(tables.family, pulse);
        chains.iter_mut().for_each(|chain| chain.stage = Stage::Quiet);
        chains::install(&chains, &Listing::new())
    }

    fn text(&self, tables: &Tables, pulse: Pulse, listing: &Listing) -> String {
        match tables.is_native() {
            true => self.native(tables.family, pulse),
            false => chains::install(&self.chains(tables.family, pulse), listing),
        }
    }

    fn native(&self, family: Family, pulse: Pulse) -> String {
        let mark = self.forward.as_ref().map_or(0, |gateway| gateway.mark);
        // If a rule cannot be translated, the invalid text makes the program fail, and the next program is tried.
        native::install(&self.chains(family, pulse), family, pulse, mark).unwrap_or_else(|| "untranslated\n".to_owned())
    }
}

/// Returns the chains for the relay's own packets over the hops of rules with repair.
fn beneath(gateway: &Gateway, split: &SplitConfig, family: Family, pulse: Pulse) -> Vec<Chain> {
    let mut hops: Vec<&str> = Vec::new();
    for rule in split.rules.iter().filter(|rule| rule.repair.is_on()) {
        if !hops.contains(&rule.interface.as_str()) {
            hops.push(&rule.interface);
        }
    }
    match hops.is_empty() {
        true => Vec::new(),
        false => split::beneath(split, &hops, &matching::queue(gateway.queue, family, pulse), gateway.mark),
    }
}

/// Programs selected for a configuration, and the rules that they install.
#[derive(Clone, Debug)]
pub struct Firewall {
    source: Source,
    tables: Vec<Tables>,
    pulse: Pulse,
    /// Own rules that the programs list after installation, in the order of `tables`.
    expected: Vec<Vec<String>>,
}

/// State of the installed rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// All rules are present, once.
    Whole,
    /// Rules are missing, changed or duplicated.
    Broken,
}

impl Firewall {
    /// Finds the first program that accepts the rules, for each IP version. A bridge needs none.
    pub fn choose(gateway: &Gateway) -> Result<Self, FirewallError> {
        let source = Source { forward: Some(gateway.clone()), split: settings::split(gateway) };
        let mut firewall = Self { source, tables: Vec::new(), pulse: Pulse::Required, expected: Vec::new() };
        if gateway.bridge.is_some() {
            return Ok(firewall);
        }
        for family in Family::BOTH.into_iter().filter(|family| family.concerns(gateway)) {
            match firewall.find(family) {
                Ok(found) => firewall.tables.push(found),
                // IPv6 is included if available; its absence is an error only if the configuration names IPv6
                // addresses.
                Err(problem) if family == Family::V6 && !family.is_named(gateway) => {
                    tracing::warn!(%problem, "cannot install IPv6 rules; IPv6 connections are not treated");
                }
                Err(problem) => return Err(problem),
            }
        }
        Ok(firewall)
    }

    /// Finds the programs for a relay alone.
    pub fn choose_for_relay(config: &SplitConfig) -> Result<Self, FirewallError> {
        let source = Source { forward: None, split: Some(config.clone()) };
        let mut firewall = Self { source, tables: Vec::new(), pulse: Pulse::None, expected: Vec::new() };
        for family in Family::BOTH.into_iter().filter(|family| config.speaks(*family)) {
            let found = firewall.find(family)?;
            firewall.tables.push(found);
        }
        Ok(firewall)
    }

    fn find(&self, family: Family) -> Result<Tables, FirewallError> {
        let mut problem = FirewallError::Missing { family };
        // If iptables manages the machine's firewall, only its own filter table can accept the gateway's packets.
        let by_iptables = family.programs().into_iter().map(|program| Tables { family, program });
        let by_iptables = by_iptables.filter(|tables| !tables.is_native()).any(|tables| tables.has_firewall());
        for program in family.programs() {
            let tables = Tables { family, program };
            if tables.is_native() && by_iptables {
                continue;
            }
            let taken = [Pulse::Required, Pulse::None].into_iter().try_fold((), |(), pulse| {
                match tables.restore(&self.source.trial(&tables, pulse), &["--test"]) {
                    Ok(()) => Err(Ok(())),
                    Err(error) if pulse == Pulse::None => Err(Err(error)),
                    Err(_) => Ok(()),
                }
            });
            match taken.err().unwrap_or(Ok(())).and_then(|()| tables.probe()) {
                Ok(()) => return Ok(tables),
                // Errors of iptables take precedence: a kernel may lack `nft_queue` and have what iptables needs.
                Err(error @ FirewallError::Refused { .. }) => problem = error,
                Err(_) => {}
            }
        }
        Err(problem)
    }

    /// Installs the rules and replaces the existing content of the gateway's chains, in one transaction per IP version.
    /// On failure it removes all rules of the gateway.
    pub fn install(&mut self) -> Result<(), FirewallError> {
        match self.replace() {
            Ok(()) => Ok(()),
            Err(error) => {
                self.remove()?;
                Err(error)
            }
        }
    }

    /// Installs the rules like [`Firewall::install`], but leaves the state as it is on failure.
    pub fn replace(&mut self) -> Result<(), FirewallError> {
        let mut outcome = self.put_in();
        if matches!(outcome, Err(FirewallError::Refused { .. })) && self.pulse == Pulse::Required {
            self.pulse = Pulse::None;
            outcome = self.put_in();
            match &outcome {
                Ok(()) => tracing::warn!(
                    "kernel module xt_recent is missing; packets will wait in the queue if both processes are stopped"
                ),
                // `xt_recent` was not the cause.
                Err(_) => self.pulse = Pulse::Required,
            }
        }
        outcome
    }

    fn put_in(&mut self) -> Result<(), FirewallError> {
        let mut expected = Vec::new();
        for tables in &self.tables {
            // Routes first, so that no packet is marked for a missing route.
            if let Some(routing) = self.source.routing(tables.family) {
                routing.install()?;
            }
            tables.restore(&self.source.text(tables, self.pulse, &tables.list()?), &[])?;
            expected.push(tables.own()?);
        }
        self.expected = expected;
        Ok(())
    }

    /// Returns whether all rules are as [`Firewall::install`] left them.
    pub fn look(&self) -> Result<Standing, FirewallError> {
        for (tables, expected) in self.tables.iter().zip(&self.expected) {
            if tables.own()? != *expected {
                return Ok(Standing::Broken);
            }
        }
        Ok(Standing::Whole)
    }

    /// Removes all rules.
    pub fn remove(&self) -> Result<(), FirewallError> {
        // Try all of them, even if one fails.
        let outcomes: Vec<_> = self.tables.iter().map(|tables| self.remove_from(tables)).collect();
        outcomes.into_iter().collect()
    }

    fn remove_from(&self, tables: &Tables) -> Result<(), FirewallError> {
        let removed = tables.remove();
        if let Some(routing) = self.source.routing(tables.family) {
            routing.remove();
        }
        removed.map(drop)
    }

    /// Removes the rules of programs that `now` does not use.
    pub fn remove_where_not(&self, now: &Self) -> Result<(), FirewallError> {
        let gone = self.tables.iter().filter(|tables| !now.tables.contains(tables));
        gone.map(|tables| self.remove_from(tables)).collect::<Vec<_>>().into_iter().collect()
    }

    /// Returns whether there are rules for packets of this IP version.
    pub fn covers(&self, family: Family) -> bool {
        self.tables.iter().any(|tables| tables.family == family)
    }

    /// Returns the selected programs.
    pub fn programs(&self) -> Vec<&'static str> {
        self.tables.iter().map(|tables| tables.program).collect()
    }

    /// Returns mark and port of the heartbeat datagrams; `None` if no nftables rule requires them.
    pub fn beats(&self) -> Option<(u32, u16)> {
        let native = self.tables.iter().any(Tables::is_native) && self.pulse == Pulse::Required;
        self.source.forward.as_ref().filter(|_| native).map(|gateway| (gateway.mark, native::BEAT_PORT))
    }

    /// Returns whether rules require a heartbeat.
    pub const fn pulse(&self) -> Pulse {
        self.pulse
    }

    /// Returns the commands that [`Firewall::install`] runs on a machine without such rules. A command with input is a
    /// comment, followed by the input.
    pub fn describe(&self, gateway: &Gateway) -> String {
        let mut lines = String::new();
        if let Some(Bridge { wired, wireless }) = &gateway.bridge {
            let _ = writeln!(
                lines,
                "# no rules: BPF programs on the bridge ports intercept TCP between {wired} and {wireless}"
            );
        }
        for tables in &self.tables {
            for command in self.source.routing(tables.family).iter().flat_map(Routing::commands) {
                let _ = writeln!(lines, "{command}");
            }
            let _ = match tables.is_native() {
                true => writeln!(lines, "# {} -f -", tables.program),
                false => writeln!(lines, "# {}-restore -w {LOCK_WAIT} --noflush", tables.program),
            };
            lines.push_str(&self.source.text(tables, self.pulse, &Listing::new()));
        }
        lines
    }
}

/// Source port of trial packets that no socket accepts.
pub const TRIAL_PORT: u16 = split::TRIAL_PORT;

/// Returns the preference of the gateway's routing rule.
pub const fn preference() -> u32 {
    split::PREFERENCE
}

/// Removes the rules of any gateway, installed by any program. Returns the programs that found rules.
pub fn clean() -> Result<Vec<&'static str>, FirewallError> {
    let mut found = Vec::new();
    for family in Family::BOTH {
        for program in family.programs() {
            match (Tables { family, program }).remove() {
                Ok(true) => found.push(program),
                Ok(false) | Err(FirewallError::Run { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // The marks and the routing table of split connections do not depend on the configuration.
        Routing::new(&SplitConfig::new(Vec::new()), family).remove();
    }
    Ok(found)
}

#[cfg(test)]
#[path = "firewall_tests.rs"]
mod tests;

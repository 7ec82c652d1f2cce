//! The scenarios that the page offers.

use std::path::PathBuf;
use std::sync::OnceLock;

use lasthop_proto::scheme::{BaseStation, Congestion, Ends, Family, SCHEMES, Scheme};
use lasthop_scenario::{Scenario, builtin_names};
use lasthop_study::about::about;
use serde_json::{Value, json};

/// Scenario that the page shows first: modern endpoints, on a link where a gateway makes the difference.
const FIRST: &str = "farm-radio";

/// Schemes whose packets are shown first if one of them is selected: they show what a base station can do.
const SHOWN_FIRST: [&str; 2] = ["LL-TCP-AWARE", "SNOOP"];

/// Scenarios by name. They are sealed: values set by the page cannot open files.
#[derive(Clone, Debug)]
pub struct Catalogue {
    entries: Vec<Entry>,
    first: String,
}

/// Scenario of the catalogue. A ready-made one is parsed when it is first needed.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    scenario: OnceLock<Option<Scenario>>,
}

impl Entry {
    fn scenario(&self) -> Option<&Scenario> {
        // Tests parse all of them.
        self.scenario.get_or_init(|| Scenario::builtin(&self.name).ok().map(Scenario::sealed)).as_ref()
    }
}

impl Catalogue {
    /// Creates a catalogue of the scenarios in `files`, followed by the ready-made ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is not a scenario.
    pub fn new(files: &[PathBuf]) -> Result<Self, lasthop_scenario::Error> {
        let mut entries = Vec::new();
        for file in files {
            let scenario = OnceLock::from(Some(Scenario::load(file)?.sealed()));
            entries.push(Entry { name: file.display().to_string(), scenario });
        }
        let first = entries.first().map_or_else(|| FIRST.to_owned(), |entry| entry.name.clone());
        entries.extend(builtin_names().map(|name| Entry { name: name.to_owned(), scenario: OnceLock::new() }));
        Ok(Self { entries, first })
    }

    /// Returns the default scenario.
    pub(crate) fn first(&self) -> &str {
        &self.first
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Scenario> {
        self.entries.iter().find(|entry| entry.name == name)?.scenario()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Returns the choices as JSON: `version`, `scenarios`, `schemes`.
    pub fn to_json(&self) -> Value {
        let scenarios = self.entries.iter().filter_map(|entry| {
            let scenario = entry.scenario()?;
            Some(json!({ "name": entry.name, "title": scenario.title(), "description": scenario.description() }))
        });
        let schemes = SCHEMES.iter().map(|scheme| {
            json!({
                "name": scheme.name, "family": scheme.family.name(), "summary": scheme.summary, "about": about(scheme),
                "place": place(scheme), "brief": brief(scheme),
            })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "scenarios": scenarios.collect::<Vec<_>>(),
            "schemes": schemes.collect::<Vec<_>>(),
        })
    }
}

/// Returns the place at which a scheme between modern endpoints acts: `plain` (Linux without a cure), `sender`,
/// `gateway` or `both-ends`; `None` for the schemes of the studies, whose endpoints are not modern.
fn place(scheme: &Scheme) -> Option<&'static str> {
    match (scheme.base_station, scheme.ends) {
        (BaseStation::TwoEnded(_), _) => Some("both-ends"),
        (BaseStation::GatewaySnoop | BaseStation::GatewaySplit { .. } | BaseStation::QuicSnoop, _) => Some("gateway"),
        (BaseStation::Forward, Ends::Modern(Some(Congestion::Cubic))) => Some("plain"),
        (BaseStation::Forward, Ends::Modern(_)) => Some("sender"),
        _ => None,
    }
}

/// Returns a short description of a scheme between modern endpoints, for display below its name in the chart.
fn brief(scheme: &Scheme) -> Option<&'static str> {
    match (scheme.base_station, scheme.ends) {
        (BaseStation::TwoEnded(_), _) => Some("a device at each end"),
        (BaseStation::GatewaySnoop, _) => Some("gateway repairs losses"),
        (BaseStation::QuicSnoop, _) => Some("gateway repairs QUIC"),
        (BaseStation::GatewaySplit { .. }, _) => Some("gateway splits connection"),
        (BaseStation::Forward, Ends::Modern(Some(Congestion::Cubic))) => Some("Linux by default"),
        (BaseStation::Forward, Ends::Modern(Some(Congestion::Bbr))) => Some("server set to BBR"),
        (BaseStation::Forward, Ends::Modern(Some(Congestion::Bbr3))) => Some("server set to BBRv3"),
        _ => None,
    }
}

/// Returns the schemes that are compared by default: the usual ones for modern endpoints, or else those of the study
/// that the scenario's own scheme belongs to.
pub(crate) fn usual_schemes(scenario: &Scenario) -> Vec<&'static Scheme> {
    let mut usual = scenario.usual_schemes();
    if !usual.iter().any(|scheme| scheme.family == Family::Modern) {
        let layers = |scheme: &Scheme| scheme.family == Family::MultipleLayers;
        usual.retain(|scheme| layers(scheme) == layers(scenario.scheme()));
    }
    usual
}

/// Returns the scheme whose packets are shown by default.
pub(crate) fn usual_shown(schemes: &[&'static Scheme], scenario: &Scenario) -> &'static Scheme {
    let named = |name: &str| schemes.iter().find(|scheme| scheme.name == name).copied();
    let shown = SHOWN_FIRST.into_iter().find_map(named);
    shown.or_else(|| named(scenario.scheme().name)).or(schemes.first().copied()).unwrap_or(scenario.scheme())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_made_scenario_is_a_choice() {
        let catalogue = Catalogue::new(&[]).unwrap();
        let json = catalogue.to_json();
        let named: Vec<&str> =
            json["scenarios"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(named, builtin_names().collect::<Vec<_>>());
        assert_eq!(catalogue.find(FIRST).unwrap().title(), Scenario::builtin(FIRST).unwrap().title());
        assert!(catalogue.find("nothing").is_none());
    }
}

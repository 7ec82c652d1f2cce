//! The scenarios that the page offers.

use std::path::PathBuf;

use lasthop_proto::scheme::{BaseStation, Congestion, Ends, Family, SCHEMES, Scheme};
use lasthop_scenario::{Scenario, builtin_names};
use lasthop_study::about::about;
use serde_json::{Value, json};

/// The scenario that the page shows first: modern endpoints, on a link where a gateway decides.
const FIRST: &str = "farm-radio";

/// The schemes whose packets are shown first where one is among those chosen: they show what a base station can do.
const SHOWN_FIRST: [&str; 2] = ["LL-TCP-AWARE", "SNOOP"];

/// Scenarios by name. They are sealed: what the page sets opens no file.
#[derive(Clone, Debug)]
pub struct Catalogue {
    entries: Vec<(String, Scenario)>,
    first: String,
}

impl Catalogue {
    /// The ready-made scenarios, and before them those in `files`.
    ///
    /// # Errors
    ///
    /// When a file is not a scenario.
    pub fn new(files: &[PathBuf]) -> Result<Self, lasthop_scenario::Error> {
        let mut entries = Vec::new();
        for file in files {
            entries.push((file.display().to_string(), Scenario::load(file)?.sealed()));
        }
        let first = entries.first().map_or_else(|| FIRST.to_owned(), |(name, _)| name.clone());
        for name in builtin_names() {
            entries.push((name.to_owned(), Scenario::builtin(name)?.sealed()));
        }
        Ok(Self { entries, first })
    }

    /// The scenario shown where none is asked for.
    pub(crate) fn first(&self) -> &str {
        &self.first
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Scenario> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, scenario)| scenario)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// What there is to choose from, as JSON: `version`, `scenarios`, `schemes`.
    pub fn to_json(&self) -> Value {
        let scenarios = self.entries.iter().map(|(name, scenario)| {
            json!({ "name": name, "title": scenario.title(), "description": scenario.description() })
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

/// Where a scheme between modern endpoints acts: `plain` (Linux without a cure), `sender`, `gateway` or `both-ends`; `None` for the schemes
/// of the studies, whose endpoints are not modern ones.
fn place(scheme: &Scheme) -> Option<&'static str> {
    match (scheme.base_station, scheme.ends) {
        (BaseStation::TwoEnded(_), _) => Some("both-ends"),
        (BaseStation::GatewaySnoop | BaseStation::GatewaySplit { .. }, _) => Some("gateway"),
        (BaseStation::Forward, Ends::Today(Some(Congestion::Cubic))) => Some("plain"),
        (BaseStation::Forward, Ends::Today(_)) => Some("sender"),
        _ => None,
    }
}

/// A scheme between modern endpoints in a few words, as they stand below its name in the chart.
fn brief(scheme: &Scheme) -> Option<&'static str> {
    match (scheme.base_station, scheme.ends) {
        (BaseStation::TwoEnded(_), _) => Some("a device at each end"),
        (BaseStation::GatewaySnoop, _) => Some("gateway repairs losses"),
        (BaseStation::GatewaySplit { .. }, _) => Some("gateway splits connection"),
        (BaseStation::Forward, Ends::Today(Some(Congestion::Cubic))) => Some("Linux as it comes"),
        (BaseStation::Forward, Ends::Today(Some(Congestion::Bbr))) => Some("server set to BBR"),
        (BaseStation::Forward, Ends::Today(Some(Congestion::Bbr3))) => Some("server set to BBRv3"),
        _ => None,
    }
}

/// The schemes compared where none are asked for: of the usual ones those of the study that the scenario's own scheme is from, or of
/// today.
pub(crate) fn usual_schemes(scenario: &Scenario) -> Vec<&'static Scheme> {
    let mut usual = scenario.usual_schemes();
    if !usual.iter().any(|scheme| scheme.family == Family::Today) {
        let layers = |scheme: &Scheme| scheme.family == Family::MultipleLayers;
        usual.retain(|scheme| layers(scheme) == layers(scenario.scheme()));
    }
    usual
}

/// The scheme whose packets are shown where none is asked for.
pub(crate) fn usual_shown(schemes: &[&'static Scheme], scenario: &Scenario) -> &'static Scheme {
    let named = |name: &str| schemes.iter().find(|scheme| scheme.name == name).copied();
    let shown = SHOWN_FIRST.into_iter().find_map(named);
    shown.or_else(|| named(scenario.scheme().name)).or(schemes.first().copied()).unwrap_or(scenario.scheme())
}

//! Requests: their parameters, parsed and checked, and the resulting scenario.

use lasthop_proto::scheme::{BaseStation, Ends, SCHEMES, Scheme};
use lasthop_proto::tcp::config::TcpConfig;
use lasthop_proto::time::Instant;
use lasthop_scenario::Scenario;
use lasthop_scenario::units::TimeSpan;
use lasthop_study::meaning::{Meaning, meanings};
use lasthop_study::replicate::Task;
use serde::Serialize;

use crate::catalogue::{Catalogue, usual_schemes, usual_shown};
use crate::controls::{Control, Facts};
use crate::refusal::Refusal;

/// Maximum length of a query, in bytes.
pub const LONGEST_QUERY: usize = 8 << 10;
/// Maximum number of keys that a request sets besides its controls.
const MOST_SET: usize = 32;
/// Maximum number of runs of a scheme.
const MOST_RUNS: u32 = 1000;
/// Maximum number of flows: their endpoints are all in memory at the same time.
pub(crate) const MOST_FLOWS: usize = 20_000;

/// State of the page.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the scenario in the catalogue.
    pub name: String,
    /// Scenario with everything that the request sets.
    pub scenario: Scenario,
    /// Schemes that are compared.
    pub schemes: Vec<&'static Scheme>,
    /// Scheme whose packets are shown.
    pub shown: &'static Scheme,
    /// Number of the run that is shown, from 0.
    pub run: u32,
    /// Controls of the page.
    pub controls: Vec<Control>,
    /// Keys that are set directly, as given.
    pub set: Vec<(String, String)>,
}

/// [`Plan`] as the page shows it.
#[derive(Clone, Serialize, Debug)]
pub struct State {
    /// Name of the scenario in the catalogue.
    pub scenario: String,
    /// Title of the scenario.
    pub title: String,
    /// Description of the scenario.
    pub description: Option<String>,
    /// Schemes that are compared.
    pub schemes: Vec<&'static str>,
    /// Scheme whose packets are shown.
    pub scheme: &'static str,
    /// Number of the run that is shown, from 0.
    pub run: u32,
    /// Number of runs of each scheme.
    pub runs: u32,
    /// Root seed.
    pub seed: u64,
    /// Controls of the page.
    pub controls: Vec<Control>,
    /// Keys that are set directly: `KEY=VALUE`.
    pub set: Vec<String>,
    /// Schemes that differ from their names in this scenario.
    pub remarks: Vec<Remark>,
    /// Number of flows in a run.
    pub flows: usize,
    /// Time limit of a run, as text.
    pub limit: String,
}

/// Scheme that differs from its name in this scenario.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Remark {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Compared scheme that is the same run.
    pub same_as: Option<&'static str>,
    /// End-to-end scheme whose recovery or congestion control the sender has instead of this scheme's, because the
    /// scenario sets it.
    pub recovery_of: Option<&'static str>,
    /// Key of the scenario that has this effect.
    pub set_by: Option<String>,
}

impl Plan {
    /// Parses the parameters of a request, a query as in a link.
    ///
    /// # Errors
    ///
    /// Returns an error with the parameter, the given value, and the expected form.
    pub fn read(catalogue: &Catalogue, query: &str) -> Result<Self, Refusal> {
        let words = Words::read(query)?;
        let name = words.scenario.as_deref().unwrap_or(catalogue.first());
        let Some(base) = catalogue.find(name) else {
            let known = catalogue.names().collect::<Vec<_>>().join(", ");
            return Err(Refusal::of("scenario", format!("there is no \"{name}\"; expected one of {known}")));
        };
        let schemes = match &words.schemes {
            Some(names) => read_schemes(names)?,
            None => usual_schemes(base),
        };
        let shown = match &words.scheme {
            Some(name) => find_scheme("scheme", name)?,
            None => usual_shown(&schemes, base),
        };
        let broken = |error: &lasthop_scenario::Error| Refusal::scenario(error, None);
        let facts = Facts::of(base).map_err(|error| broken(&error))?;
        let mut overrides = vec![("scheme".to_owned(), shown.name.to_owned())];
        overrides.extend(facts.overrides(&words.controls)?);
        overrides.extend(words.set.iter().cloned());
        let scenario = base.with_overrides(&overrides).map_err(|error| {
            let key = error.key().unwrap_or_default().to_owned();
            Refusal::scenario(&error, words.control_of(&key, &facts).as_deref())
        })?;
        if scenario.runs() > MOST_RUNS {
            return Err(Refusal::of("runs", format!("cannot be {}; give 1 to {MOST_RUNS}", scenario.runs())));
        }
        let controls = Facts::of(&scenario).map_err(|error| broken(&error))?.controls(&words.controls);
        let plan = Self { name: name.to_owned(), scenario, schemes, shown, run: words.run, controls, set: words.set };
        // It must be a valid network under every scheme.
        for scheme in plan.schemes.iter().chain([&shown]) {
            let network = plan.scenario.network(scheme).map_err(|error| Refusal::scenario(&error, Some("schemes")))?;
            if network.flows.len() > MOST_FLOWS {
                let message = format!("cannot be {}; give at most {MOST_FLOWS} on this page", network.flows.len());
                return Err(Refusal::of("count", message));
            }
        }
        let all = [&plan.schemes[..], &[shown]].concat();
        plan.scenario.check_effects(&all).map_err(|error| Refusal::scenario(&error, Some("set")))?;
        Ok(plan)
    }

    /// Returns the page's view of the plan.
    pub fn state(&self) -> State {
        State {
            scenario: self.name.clone(),
            title: self.scenario.title().to_owned(),
            description: self.scenario.description().map(str::to_owned),
            schemes: self.schemes.iter().map(|scheme| scheme.name).collect(),
            scheme: self.shown.name,
            run: self.run,
            runs: self.scenario.runs(),
            seed: self.scenario.seed(),
            controls: self.controls.clone(),
            set: self.set.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            remarks: self.remarks(),
            flows: self.scenario.network(self.shown).map_or(0, |network| network.flows.len()),
            limit: TimeSpan(self.scenario.limit().since(Instant::ZERO)).to_string(),
        }
    }

    /// Returns the schemes that differ from their names in this scenario.
    fn remarks(&self) -> Vec<Remark> {
        let Ok(tasks) = self.tasks() else { return Vec::new() };
        let remark = |(meaning, task): (Meaning, &Task)| {
            // The end-to-end scheme whose recovery and congestion control it has instead of its own.
            let own = task.network.flows.first().map(|flow| &flow.tcp[0]);
            let instead = own.filter(|own| !is_as_named(meaning.scheme, own));
            let alone = |scheme: &&Scheme| scheme.base_station == BaseStation::Forward;
            let recovery_of =
                SCHEMES.iter().filter(alone).find(|scheme| instead.is_some_and(|tcp| is_as_named(scheme, tcp)));
            let sender_of =
                || if self.scenario.gives("tcp.recovery") { "tcp.recovery" } else { "tcp.preset" }.to_owned();
            Remark {
                scheme: meaning.scheme.name,
                same_as: meaning.same_as.map(|scheme| scheme.name),
                recovery_of: recovery_of.map(|scheme| scheme.name),
                set_by: meaning.fixed_by.or_else(|| recovery_of.map(|_| sender_of())),
            }
        };
        let remarks = self.meanings(&tasks).into_iter().zip(&tasks).map(remark);
        remarks.filter(|remark| remark.same_as.is_some() || remark.set_by.is_some()).collect()
    }

    /// Returns the meaning of each scheme; `tasks` are [`Self::tasks`].
    pub fn meanings(&self, tasks: &[Task]) -> Vec<Meaning> {
        meanings(&self.scenario, &self.schemes, &tasks.iter().map(|task| &task.network).collect::<Vec<_>>())
    }

    /// Returns the scenario as a file, with which `lasthop` computes the page's numbers.
    pub fn scenario_file(&self) -> String {
        let schemes: Vec<&str> = self.schemes.iter().map(|scheme| scheme.name).collect();
        let schemes = schemes.join(",");
        format!("# The page's numbers: lasthop compare FILE --schemes {schemes}\n{}", self.scenario.explain())
    }

    /// Returns the runs of each scheme.
    ///
    /// # Errors
    ///
    /// Returns an error if the scenario is not a valid network under a scheme.
    pub fn tasks(&self) -> Result<Vec<Task>, Refusal> {
        let task = |scheme: &&'static Scheme| {
            Task::new(&self.scenario, scheme, self.scenario.seed(), self.scenario.runs())
                .map(Task::metered)
                .map_err(|error| Refusal::scenario(&error, Some("schemes")))
        };
        self.schemes.iter().map(task).collect()
    }
}

/// Returns whether a sender matches the name of a scheme.
fn is_as_named(scheme: &Scheme, tcp: &TcpConfig) -> bool {
    let congestion = match scheme.ends {
        Ends::Modern(Some(congestion)) => tcp.sender.modern().is_some_and(|modern| congestion.is(modern.congestion)),
        Ends::Modern(None) | Ends::Scenario => true,
    };
    scheme.recovery == tcp.sender.recovery() && congestion
}

/// Parameters of a request.
#[derive(Default)]
struct Words {
    scenario: Option<String>,
    schemes: Option<String>,
    scheme: Option<String>,
    run: u32,
    controls: Vec<(String, String)>,
    set: Vec<(String, String)>,
}

impl Words {
    fn read(query: &str) -> Result<Self, Refusal> {
        if query.len() > LONGEST_QUERY {
            return Err(Refusal::of("link", format!("is longer than {LONGEST_QUERY} bytes")));
        }
        let mut words = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "scenario" => words.scenario = Some(value),
                "schemes" => words.schemes = Some(value),
                "scheme" => words.scheme = Some(value),
                "run" => {
                    words.run = value.parse().ok().filter(|run| *run < MOST_RUNS).ok_or_else(|| {
                        Refusal::of(
                            "run",
                            format!("cannot be \"{value}\"; give the number of a run from 0 to {}", MOST_RUNS - 1),
                        )
                    })?;
                }
                "set" => words.set.push(read_set(&value)?),
                id => {
                    // The last one counts, as for all other parameters.
                    words.controls.retain(|(known, _)| known != id);
                    words.controls.push((id.to_owned(), read_value(id, value)?));
                }
            }
        }
        if words.set.len() > MOST_SET {
            return Err(Refusal::of(
                "set",
                format!("is given {} times; at most {MOST_SET} are taken", words.set.len()),
            ));
        }
        Ok(words)
    }

    /// Returns the control that set `key`.
    fn control_of(&self, key: &str, facts: &Facts) -> Option<String> {
        let within = |set: &str| key == set || key.strip_prefix(set).is_some_and(|rest| rest.starts_with('.'));
        if self.set.iter().any(|(set, _)| within(set)) {
            return Some("set".to_owned());
        }
        let controls = facts.controls(&[]);
        let mut given = controls.iter().filter(|control| self.controls.iter().any(|(id, _)| *id == control.id));
        given.find(|control| control.keys.iter().any(|set| within(set))).map(|control| control.id.clone())
    }
}

/// Parses `KEY=VALUE`.
fn read_set(text: &str) -> Result<(String, String), Refusal> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Refusal::of("set", format!("\"{text}\" is not KEY=VALUE, e.g. tcp.mss=512")));
    };
    Ok((key.trim().to_owned(), read_value("set", value.trim().to_owned())?))
}

/// Checks that a value fits on one line.
fn read_value(id: &str, value: String) -> Result<String, Refusal> {
    match value.chars().any(char::is_control) {
        true => Err(Refusal::of(id, "must be one line without control characters")),
        false => Ok(value),
    }
}

fn read_schemes(names: &str) -> Result<Vec<&'static Scheme>, Refusal> {
    let mut schemes: Vec<&'static Scheme> = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let scheme = find_scheme("schemes", name)?;
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    if schemes.is_empty() { Err(Refusal::of("schemes", "choose at least one")) } else { Ok(schemes) }
}

fn find_scheme(control: &str, name: &str) -> Result<&'static Scheme, Refusal> {
    Scheme::by_name(name).ok_or_else(|| {
        let known: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        Refusal::of(control, format!("there is no scheme \"{name}\"; expected one of {}", known.join(", ")))
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

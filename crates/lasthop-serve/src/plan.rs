//! What a request asks for: its parameters, read and checked, and the scenario that they make.

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

/// Longest query that is read, in bytes.
pub const LONGEST_QUERY: usize = 8 << 10;
/// Most keys that a request sets besides its controls.
const MOST_SET: usize = 32;
/// Most runs of a scheme.
const MOST_RUNS: u32 = 1000;
/// Most flows: their endpoints are in memory all at once.
pub(crate) const MOST_FLOWS: usize = 20_000;

/// A state of the page.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name in the catalogue.
    pub name: String,
    /// The scenario with everything set that the request sets.
    pub scenario: Scenario,
    /// The schemes compared.
    pub schemes: Vec<&'static Scheme>,
    /// The scheme whose packets are shown.
    pub shown: &'static Scheme,
    /// The run that is shown, counted from 0.
    pub run: u32,
    /// What there is to turn.
    pub controls: Vec<Control>,
    /// Keys set besides, as given.
    pub set: Vec<(String, String)>,
}

/// A [`Plan`] as the page shows it.
#[derive(Clone, Serialize, Debug)]
pub struct State {
    /// The scenario's name in the catalogue.
    pub scenario: String,
    /// What it is called.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// The schemes compared.
    pub schemes: Vec<&'static str>,
    /// The scheme whose packets are shown.
    pub scheme: &'static str,
    /// The run that is shown, counted from 0.
    pub run: u32,
    /// Runs of each scheme.
    pub runs: u32,
    /// Root seed.
    pub seed: u64,
    /// What there is to turn.
    pub controls: Vec<Control>,
    /// Keys set besides: `KEY=VALUE`.
    pub set: Vec<String>,
    /// Whatever makes a scheme something else here than its name says.
    pub remarks: Vec<Remark>,
    /// How many flows a run has.
    pub flows: usize,
    /// After which time a run is cut, as text.
    pub limit: String,
}

/// A scheme that is not what its name says under this scenario.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Remark {
    /// The scheme.
    pub scheme: &'static str,
    /// The one compared of which it is the same run.
    pub same_as: Option<&'static str>,
    /// The end-to-end scheme whose recovery or congestion control the scenario gives the sender instead of this one's.
    pub recovery_of: Option<&'static str>,
    /// The key of the scenario that makes it so.
    pub set_by: Option<String>,
}

impl Plan {
    /// Reads the parameters of a request, a query as in a link.
    ///
    /// # Errors
    ///
    /// Names the parameter, what was given, and what would be right.
    pub fn read(catalogue: &Catalogue, query: &str) -> Result<Self, Refusal> {
        let words = Words::read(query)?;
        let name = words.scenario.as_deref().unwrap_or(catalogue.first());
        let Some(base) = catalogue.find(name) else {
            let known = catalogue.names().collect::<Vec<_>>().join(", ");
            return Err(Refusal::of("scenario", format!("there is no \"{name}\"; there are {known}")));
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
        // Under every scheme it must be a network.
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

    /// The page's view of it.
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

    /// Which of the schemes are something else here than their names say.
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

    /// What each scheme comes to; `tasks` are [`Self::tasks`].
    pub fn meanings(&self, tasks: &[Task]) -> Vec<Meaning> {
        meanings(&self.scenario, &self.schemes, &tasks.iter().map(|task| &task.network).collect::<Vec<_>>())
    }

    /// The scenario as a file: `lasthop` makes the page's numbers of it.
    pub fn scenario_file(&self) -> String {
        let schemes: Vec<&str> = self.schemes.iter().map(|scheme| scheme.name).collect();
        let schemes = schemes.join(",");
        format!("# The page's numbers: lasthop compare FILE --schemes {schemes}\n{}", self.scenario.explain())
    }

    /// The runs of each scheme.
    ///
    /// # Errors
    ///
    /// When the scenario is no network under a scheme.
    pub fn tasks(&self) -> Result<Vec<Task>, Refusal> {
        let task = |scheme: &&'static Scheme| {
            Task::new(&self.scenario, scheme, self.scenario.seed(), self.scenario.runs())
                .map(Task::metered)
                .map_err(|error| Refusal::scenario(&error, Some("schemes")))
        };
        self.schemes.iter().map(task).collect()
    }
}

/// Whether a sender is what the name of a scheme says.
fn is_as_named(scheme: &Scheme, tcp: &TcpConfig) -> bool {
    let congestion = match scheme.ends {
        Ends::Today(Some(congestion)) => congestion.is(tcp.congestion),
        Ends::Today(None) | Ends::Scenario => true,
    };
    scheme.recovery == tcp.recovery && congestion
}

/// The parameters of a request.
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
                    // The last one counts, as for all others.
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

    /// The control by which `key` was set.
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

/// `KEY=VALUE`.
fn read_set(text: &str) -> Result<(String, String), Refusal> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Refusal::of("set", format!("\"{text}\" is not KEY=VALUE, such as tcp.mss=512")));
    };
    Ok((key.trim().to_owned(), read_value("set", value.trim().to_owned())?))
}

/// A value that stands on one line.
fn read_value(id: &str, value: String) -> Result<String, Refusal> {
    match value.chars().any(char::is_control) {
        true => Err(Refusal::of(id, "stands on one line, without control characters")),
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
        Refusal::of(control, format!("there is no scheme \"{name}\"; there are {}", known.join(", ")))
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

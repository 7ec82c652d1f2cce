//! Requests of the pages by path, and the parts of their answers, independently of how both are sent.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::answers::{self, Extent};
use crate::atlas;
use crate::catalogue::Catalogue;
use crate::cure::{self, LARGEST_MEASUREMENT, LARGEST_REPORT, LARGEST_SCENARIO};
use crate::plan::Plan;
use crate::refusal::Refusal;

/// Media type of an answer that arrives in lines of JSON.
pub const LINES: &str = "application/x-ndjson; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const SCENARIO: &str = "application/toml; charset=utf-8";

/// Time after which an answer is cut short.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// Time after which advice rests on the runs so far.
const LONGEST_ADVICE: Duration = Duration::from_secs(180);

/// Request of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The choices of scenarios and schemes.
    Catalogue,
    /// First numbers of a comparison.
    First,
    /// All runs of a comparison.
    Compare,
    /// One run, packet by packet.
    Trace,
    /// The scenario as a file.
    Scenario,
    /// Map of the atlas.
    Atlas,
    /// Files that a cure installs.
    Configuration,
    /// Evaluation of a measured link.
    Link,
    /// Advice on a link.
    Advise,
    /// Comparison of a report and a promise.
    Prove,
}

/// Part of an answer: either one that is whole, or lines of JSON ([`LINES`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole answer.
    Whole(Answer),
    /// A line, with its line feed.
    Line(String),
}

/// Answer that is sent as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Status code of HTTP.
    pub status: u16,
    /// Media type of the text.
    pub media_type: &'static str,
    /// Name under which to save the text, if it is a file.
    pub file_name: Option<String>,
    /// Contents.
    pub text: String,
}

impl Request {
    /// All requests.
    pub const ALL: [Self; 10] = [
        Self::Catalogue,
        Self::First,
        Self::Compare,
        Self::Trace,
        Self::Scenario,
        Self::Atlas,
        Self::Configuration,
        Self::Link,
        Self::Advise,
        Self::Prove,
    ];

    /// Returns the path of the request.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Catalogue => "/api/catalogue",
            Self::First => "/api/first",
            Self::Compare => "/api/compare",
            Self::Trace => "/api/trace",
            Self::Scenario => "/api/scenario",
            Self::Atlas => "/api/atlas",
            Self::Configuration => "/api/configuration",
            Self::Link => "/api/link",
            Self::Advise => "/api/advise",
            Self::Prove => "/api/prove",
        }
    }

    /// Returns the request with this path.
    pub fn by_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.path() == path)
    }

    /// Returns the maximum length of the request's body, in bytes; `None` if it has none.
    pub const fn largest_body(self) -> Option<usize> {
        match self {
            Self::Link => Some(LARGEST_MEASUREMENT),
            Self::Advise => Some(LARGEST_SCENARIO),
            Self::Prove => Some(LARGEST_REPORT),
            _ => None,
        }
    }

    /// Returns the time after which the answer is to be cut short.
    pub const fn longest(self) -> Duration {
        match self {
            Self::Advise => LONGEST_ADVICE,
            _ => LONGEST_ANSWER,
        }
    }

    /// Computes the answer on `jobs` threads (0: one per core), until `stop` returns true, and passes it on part by
    /// part. Refusals are answers, too; after the first line they are the last one.
    pub fn answer(
        self,
        catalogue: &Catalogue,
        query: &str,
        body: &[u8],
        jobs: usize,
        stop: &(dyn Fn() -> bool + Sync),
        pass: &mut (dyn FnMut(Part) + Send),
    ) {
        let plan = || Plan::read(catalogue, query);
        let mut begun = false;
        let mut line = |value: Value| {
            begun = true;
            pass(Part::Line(format!("{value}\n")));
        };
        let whole = match self {
            Self::Catalogue => Ok(Some(Answer::json(200, &catalogue.to_json()))),
            Self::First => {
                plan().and_then(|plan| answers::compare(&plan, Extent::First, jobs, stop, line)).map(|()| None)
            }
            Self::Compare => {
                plan().and_then(|plan| answers::compare(&plan, Extent::All, jobs, stop, line)).map(|()| None)
            }
            Self::Trace => plan().and_then(|plan| answers::trace(&plan, stop)).map(|shown| {
                Some(match shown {
                    Some(shown) => Answer::json(200, &shown),
                    None => Answer::text(503, "this run takes too long for a page\n"),
                })
            }),
            Self::Scenario => plan().map(|plan| Some(Answer::scenario(&plan))),
            Self::Atlas => atlas::atlas(query).map(|value| Some(Answer::json(200, &value))),
            Self::Configuration => cure::configuration(query).map(|value| Some(Answer::json(200, &value))),
            Self::Link => cure::link(query, body, stop).map(|value| Some(Answer::json(200, &value))),
            Self::Advise => cure::advise(query, body, jobs, stop, &mut line).map(|()| None),
            Self::Prove => cure::prove(query, body).map(|value| Some(Answer::json(200, &value))),
        };
        match whole {
            Ok(Some(answer)) => pass(Part::Whole(answer)),
            Ok(None) => {}
            Err(refusal) if begun => pass(Part::Line(format!("{}\n", error_of(&refusal)))),
            Err(refusal) => pass(Part::Whole(Answer::json(400, &error_of(&refusal)))),
        }
    }
}

impl Answer {
    /// Creates an answer in JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self { status, media_type: JSON, file_name: None, text },
            Err(_) => Self::failed(),
        }
    }

    /// Creates an answer in plain text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, media_type: TEXT, file_name: None, text: text.into() }
    }

    /// Creates the answer that a computation failed.
    pub fn failed() -> Self {
        Self::text(500, "the computation failed\n")
    }

    /// Creates the answer with the file of a scenario.
    fn scenario(plan: &Plan) -> Self {
        let stem = Path::new(&plan.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let stem: String = stem.unwrap_or_default().chars().map(plain).collect();
        let file_name = Some(format!("{stem}.toml"));
        Self { status: 200, media_type: SCENARIO, file_name, text: plan.scenario_file() }
    }
}

fn error_of(refusal: &Refusal) -> Value {
    json!({ "error": refusal })
}

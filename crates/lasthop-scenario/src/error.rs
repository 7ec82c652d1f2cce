//! What can be wrong with a scenario, as one message that says where, what was given, and what would be right.

use std::fmt;
use std::io;

use crate::one_line::one_line;

/// What is wrong with a scenario, and where. Displays as one line: `FILE:LINE: KEY: problem`.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    /// The option that set what was set from outside.
    set_by: Option<&'static str>,
    key: Option<String>,
    problem: Problem,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file's name.
    pub file: String,
    /// The part of it.
    pub spot: Spot,
}

/// Which part of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// All of it.
    Whole,
    /// A line, counted from 1.
    Line(usize),
    /// A value that was set from outside (see [`Scenario::with_overrides`](crate::Scenario::with_overrides)).
    Override,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spot {
            Spot::Whole => f.write_str(&self.file),
            Spot::Line(line) => write!(f, "{}:{line}", self.file),
            Spot::Override => write!(f, "{} (set from outside)", self.file),
        }
    }
}

/// The kinds of problem.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The text is not TOML.
    #[error("not valid TOML: {message}{}{}", optional(": `", .line, "`"), optional("; ", .hint, ""))]
    Syntax {
        /// What the parser says.
        message: String,
        /// The line in question.
        line: Option<String>,
        /// The cure, where a frequent mistake is recognised.
        hint: Option<String>,
    },
    /// A key that has no meaning here.
    #[error("unknown key{}", choices(.near, .known, "known here"))]
    UnknownKey {
        /// The known key that looks most like it.
        near: Option<String>,
        /// The keys that have a meaning here.
        known: Vec<String>,
    },
    /// A name that nothing bears.
    #[error("there is no {what} \"{given}\"{}", choices(.near, .known, "there is"))]
    UnknownName {
        /// What was to be named.
        what: &'static str,
        /// The name given.
        given: String,
        /// The existing name that looks most like it.
        near: Option<String>,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A key that must be given is not.
    #[error("missing; give {expected}")]
    Missing {
        /// What to give.
        expected: String,
    },
    /// A value that cannot be understood, or is out of range.
    #[error("cannot be {given}{}; give {expected}", optional(" (", .reason, ")"))]
    Value {
        /// The value given, as TOML.
        given: String,
        /// What would be right.
        expected: String,
        /// Why it is not.
        reason: Option<String>,
    },
    /// Values that do not go together, or a network that cannot be.
    #[error("{0}")]
    Conflict(String),
}

fn optional(before: &str, text: &Option<String>, after: &str) -> String {
    text.as_ref().map(|text| format!("{before}{text}{after}")).unwrap_or_default()
}

/// `; did you mean "x"?`, or what there is to choose from.
fn choices(near: &Option<String>, known: &[String], intro: &str) -> String {
    match (near, known) {
        (Some(near), _) => format!("; did you mean \"{near}\"?"),
        (None, []) => String::new(),
        (None, known) => format!("; {intro}: {}", known.join(", ")),
    }
}

impl Error {
    pub(crate) fn new(place: Place, key: Option<String>, problem: Problem) -> Self {
        Self(Box::new(Inner { place, set_by: None, key, problem }))
    }

    /// Another problem at the same place.
    pub(crate) fn with(mut self, problem: Problem) -> Self {
        self.0.problem = problem;
        self
    }

    /// The file's name, as it was given.
    pub fn file(&self) -> &str {
        &self.0.place.file
    }

    /// Names the option by which a value was set from outside, unless one is named already.
    #[must_use]
    pub fn set_by(mut self, option: &'static str) -> Self {
        self.0.set_by.get_or_insert(option);
        self
    }

    /// Where in the file.
    pub fn spot(&self) -> Spot {
        self.0.place.spot
    }

    /// The dotted path of the key in question, if the problem is one of a key.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { place, set_by, key, problem } = &*self.0;
        let place = match (place.spot, set_by) {
            (Spot::Override, Some(option)) => format!("{} (set by {option})", place.file),
            _ => place.to_string(),
        };
        let key = key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
        // Names of files and keys, and what the file says, may hold anything.
        f.write_str(&one_line(&format!("{place}: {key}{problem}")))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.problem {
            Problem::Read(error) => Some(error),
            _ => None,
        }
    }
}

/// The candidate that `given` is most likely a slip of.
pub fn did_you_mean<'c>(given: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Edit distance is quadratic; nothing that long is a slip.
    const LONGEST: usize = 64;
    if given.len() > LONGEST {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let wanted = plain(given);
    let distance = |candidate: &str| {
        // A slip in the case or the separator only is the nearest of all.
        if plain(candidate) == wanted { 0 } else { strsim::damerau_levenshtein(&plain(candidate), &wanted).max(1) }
    };
    let candidates = candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let (near, distance) =
        candidates.map(|candidate| (candidate, distance(candidate))).min_by_key(|(_, distance)| *distance)?;
    let tolerated = (wanted.chars().count().max(near.chars().count()) / 3).max(1);
    // Of a word of two letters, a changed one leaves no likeness.
    (distance == 0 || (distance <= tolerated && wanted.chars().count().min(near.chars().count()) > 1)).then_some(near)
}

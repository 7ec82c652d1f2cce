//! Errors in a scenario, as messages that state the place, the given value, and the correct form.

use std::fmt;
use std::io;

use crate::one_line::one_line;

/// An error in a scenario, with its place. Displays as one line: `FILE:LINE: KEY: problem`.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    /// Option by which an outside value was set.
    set_by: Option<&'static str>,
    key: Option<String>,
    problem: Problem,
}

/// Origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Part of the file.
    pub spot: Spot,
}

/// Part of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// The whole file.
    Whole,
    /// A line, counted from 1.
    Line(usize),
    /// A value that was set from outside (`lasthop_scenario::Scenario::with_overrides`).
    Override,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spot {
            Spot::Whole => f.write_str(&self.file),
            Spot::Line(line) => write!(f, "{}:{line}", self.file),
            Spot::Override => write!(f, "{} (override)", self.file),
        }
    }
}

/// Kind of a problem.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The text is not TOML.
    #[error("not valid TOML: {message}{}{}", optional(": `", .line, "`"), optional("; ", .hint, ""))]
    Syntax {
        /// Message of the parser.
        message: String,
        /// Line with the error.
        line: Option<String>,
        /// Correction of a frequent mistake.
        hint: Option<String>,
    },
    /// A key is unknown here.
    #[error("unknown key{}", choices(.near, .known, "known here"))]
    UnknownKey {
        /// Known key that is most similar.
        near: Option<String>,
        /// Known keys.
        known: Vec<String>,
    },
    /// A name does not exist.
    #[error("there is no {what} \"{given}\"{}", choices(.near, .known, "expected one of"))]
    UnknownName {
        /// Kind of object that the name should refer to.
        what: &'static str,
        /// The given name.
        given: String,
        /// Existing name that is most similar.
        near: Option<String>,
        /// Existing names.
        known: Vec<String>,
    },
    /// A required key is missing.
    #[error("missing; give {expected}")]
    Missing {
        /// Value to give.
        expected: String,
    },
    /// A value cannot be parsed, or is out of range.
    #[error("cannot be {given}{}; give {expected}", optional(" (", .reason, ")"))]
    Value {
        /// The given value, as TOML.
        given: String,
        /// Correct form.
        expected: String,
        /// Reason.
        reason: Option<String>,
    },
    /// Values contradict each other, or the network is impossible.
    #[error("{0}")]
    Conflict(String),
}

fn optional(before: &str, text: &Option<String>, after: &str) -> String {
    text.as_ref().map(|text| format!("{before}{text}{after}")).unwrap_or_default()
}

/// Returns `; did you mean "x"?`, or the list of choices.
fn choices(near: &Option<String>, known: &[String], intro: &str) -> String {
    match (near, known) {
        (Some(near), _) => format!("; did you mean \"{near}\"?"),
        (None, []) => String::new(),
        (None, known) => format!("; {intro}: {}", known.join(", ")),
    }
}

impl Error {
    /// Creates an error at a place, for a key if it concerns one.
    pub fn new(place: Place, key: Option<String>, problem: Problem) -> Self {
        Self(Box::new(Inner { place, set_by: None, key, problem }))
    }

    /// Returns the error with another problem at the same place.
    pub fn with(mut self, problem: Problem) -> Self {
        self.0.problem = problem;
        self
    }

    /// Returns the file's name, as it was given.
    pub fn file(&self) -> &str {
        &self.0.place.file
    }

    /// Names the option by which a value was set from outside, unless one is already named.
    #[must_use]
    pub fn set_by(mut self, option: &'static str) -> Self {
        self.0.set_by.get_or_insert(option);
        self
    }

    /// Returns the place in the file.
    pub fn spot(&self) -> Spot {
        self.0.place.spot
    }

    /// Returns the dotted path of the key, if the problem concerns one.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the problem.
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
        // Names of files and keys, and contents of the file, may contain any characters.
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

/// Returns the candidate of which `given` is most likely a misspelling.
pub fn did_you_mean<'c>(given: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Edit distance is quadratic, and longer texts are not misspellings.
    const LONGEST: usize = 64;
    if given.len() > LONGEST {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let wanted = plain(given);
    let distance = |candidate: &str| {
        // A difference only in case or separators is the closest.
        if plain(candidate) == wanted { 0 } else { strsim::damerau_levenshtein(&plain(candidate), &wanted).max(1) }
    };
    let candidates = candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let (near, distance) =
        candidates.map(|candidate| (candidate, distance(candidate))).min_by_key(|(_, distance)| *distance)?;
    let tolerated = (wanted.chars().count().max(near.chars().count()) / 3).max(1);
    // A two-letter word has no similarity after a change of one letter.
    (distance == 0 || (distance <= tolerated && wanted.chars().count().min(near.chars().count()) > 1)).then_some(near)
}

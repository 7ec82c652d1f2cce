//! Labs as their files describe them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Value;

/// Lab of the course.
#[derive(Debug)]
pub struct Lab {
    /// Name of its files.
    pub name: String,
    pub number: u32,
    pub title: String,
    pub minutes: u32,
    pub views: BTreeMap<String, View>,
    pub values: BTreeMap<String, Spec>,
    /// Numbers that do not come from the program, each with its source.
    pub given: BTreeMap<String, String>,
    pub questions: Vec<Question>,
    /// Solution of the open question.
    pub discussion: String,
}

/// Link into the page.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct View {
    #[serde(default)]
    pub page: Page,
    /// Parameters of the link.
    pub link: BTreeMap<String, Value>,
    /// Files of the course that the reader measures (only on the page of five steps).
    #[serde(default)]
    pub files: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// Scenarios and sliders.
    #[default]
    Index,
    /// The five steps from a measurement to a cure.
    Cure,
}

/// Description of a value.
#[derive(Clone, Deserialize, Debug)]
#[serde(untagged)]
pub enum Spec {
    /// Expression of other values.
    Calculated(String),
    /// Number that the page shows.
    Shown(Box<Shown>),
}

/// Number that the page shows.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    pub view: String,
    /// Settings that the reader changes in the view.
    #[serde(default)]
    pub with: BTreeMap<String, Value>,
    /// Scheme of a metric, or of the packets shown.
    pub scheme: Option<String>,
    /// Mean of a metric in the table, under `scheme`.
    pub metric: Option<String>,
    /// True for the dashed line: throughput without loss.
    #[serde(default)]
    pub without_loss: bool,
    /// Selection of packets in the packet exchange.
    pub packets: Option<Selection>,
    /// Name of an action in the packet exchange, such as `timeout`.
    pub action: Option<String>,
    /// Number taken from the selected packets or actions.
    #[serde(default)]
    pub take: Take,
    /// Congestion window in KB at this expression of seconds, or its maximum if `"max"`.
    pub window: Option<String>,
    /// Place in the evaluation of the view's files, a JSON pointer.
    pub link: Option<String>,
    /// Place in the advice on the measured link, a JSON pointer.
    pub advice: Option<String>,
}

/// Conditions that select packets; all of them must hold.
#[derive(Clone, Default, Deserialize, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    pub kind: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub fate: Option<String>,
    pub cause: Option<String>,
    /// Stream position in bytes, an expression.
    pub number: Option<String>,
    /// Sent at or after this expression of milliseconds.
    pub after: Option<String>,
    /// Sent before this expression of milliseconds.
    pub before: Option<String>,
}

/// Number taken from selected packets or actions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// Number of them.
    #[default]
    Count,
    /// Time of sending of the first, in milliseconds.
    Sent,
    /// Time of sending of the last, in milliseconds.
    LastSent,
    /// Time of arrival of the first, in milliseconds.
    Arrived,
    /// Time of arrival of the last, in milliseconds.
    LastArrived,
    /// Position of the first in the stream, in bytes.
    Number,
    /// Payload of the first, in bytes.
    Length,
}

#[derive(Debug)]
pub struct Question {
    /// `LAB.NUMBER`
    pub number: String,
    pub kind: Kind,
    pub hint: String,
    /// Text of the solution, with values in braces.
    pub solution: String,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    Number {
        unit: String,
        /// Expression of the right answer.
        answer: String,
        /// Decimals with which the page shows it.
        digits: usize,
        /// Lower and upper bound of right answers.
        right: [f64; 2],
        /// Lower and upper bound of answers that are near.
        near: [f64; 2],
    },
    Choice {
        /// Letter of the right answer.
        answer: String,
        /// Comparisons of values that make it right.
        holds: Vec<String>,
    },
}

/// Reads the labs in `folder`, in order.
pub fn read(folder: &Path) -> Vec<Lab> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort();
    paths.iter().map(|path| one(path)).collect()
}

fn one(path: &Path) -> Lab {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        title: String,
        minutes: u32,
        views: BTreeMap<String, View>,
        #[serde(default)]
        values: BTreeMap<String, Spec>,
        #[serde(default)]
        given: BTreeMap<String, String>,
        questions: Vec<Asked>,
        discussion: String,
    }
    #[derive(Deserialize)]
    struct Asked {
        #[serde(flatten)]
        kind: Kind,
        hint: String,
        solution: String,
    }
    let text = std::fs::read_to_string(path).unwrap();
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let number = name[..2].parse().unwrap_or_else(|_| panic!("{}: expected NN-name.toml", path.display()));
    let question = |(at, asked): (usize, Asked)| Question {
        number: format!("{number}.{}", at + 1),
        kind: asked.kind,
        hint: asked.hint,
        solution: asked.solution,
    };
    Lab {
        name,
        number,
        title: file.title,
        minutes: file.minutes,
        views: file.views,
        values: file.values,
        given: file.given,
        questions: file.questions.into_iter().enumerate().map(question).collect(),
        discussion: file.discussion,
    }
}

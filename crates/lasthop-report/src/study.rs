//! A study's outcome as plain data: what the page, the tables and the CSV file show.

use std::collections::BTreeMap;

use crate::figures::{Colours, Figure};

/// A reproduced study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The name that selects it, as `balakrishnan1997`.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// The publication that the published numbers come from.
    pub citation: String,
    /// Digital object identifier of that publication, if it has one.
    pub doi: Option<String>,
    /// What was studied, and how: a paragraph each.
    pub introduction: Vec<String>,
    /// The program that computed the measured numbers, and its version.
    pub computed_by: String,
    /// The root seed.
    pub seed: u64,
    /// The names of cells for people, by the names that [`CellRow::cell`] has: parts, the most important one first. Cells without an
    /// entry keep their own name.
    pub names: BTreeMap<String, Vec<String>>,
    /// The command that makes all of this again.
    pub command: String,
    /// Published and measured numbers.
    pub tables: Vec<Table>,
    /// What the study concludes, and whether that came out.
    pub claims: Vec<Claim>,
    /// What a reader has to know of the result besides, a paragraph each.
    pub notes: Vec<String>,
    /// Figures.
    pub figures: Vec<NamedFigure>,
}

/// A table of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its number in the paper, as `2`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Its cells; several metrics of one cell are several rows.
    pub rows: Vec<CellRow>,
}

/// One number of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct CellRow {
    /// Which configuration, as `LL-SMART/LAN/32`.
    pub cell: String,
    /// What was measured, as `wireless_goodput`.
    pub metric: String,
    /// Its unit: `Mbps`, `percent`, ...
    pub unit: String,
    /// The published number, if there is one.
    pub published: Option<f64>,
    /// The mean over the runs.
    pub measured: f64,
    /// Half of the 95 % confidence interval; none for a single run.
    pub ci95: Option<f64>,
    /// Runs.
    pub runs: u32,
}

/// A claim of the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its letter or number.
    pub id: String,
    /// What it says.
    pub text: String,
    /// Whether it came out.
    pub holds: Holds,
    /// The numbers that decide it.
    pub comparisons: Vec<Comparison>,
}

/// One comparison of numbers that a claim rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Whether it came out.
    pub holds: Holds,
    /// The numbers, and how they should stand to each other.
    pub text: String,
}

/// Whether a claim came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// It did.
    Yes,
    /// It did not.
    No,
}

/// A figure of a study.
#[derive(Clone, Debug)]
pub struct NamedFigure {
    /// Its name, as `figure-13`: also that of its files.
    pub id: String,
    /// What stands under it.
    pub caption: String,
    /// What it shows, for those who cannot see it.
    pub alt: String,
    /// The figure.
    pub figure: Figure,
}

/// How far a measured number is from the published one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Deviation {
    /// As a fraction of the published number.
    Relative(f64),
    /// In percentage points: for numbers that are percentages.
    Points(f64),
}

impl Deviation {
    /// The number without its unit: a fraction or percentage points.
    pub const fn value(self) -> f64 {
        match self {
            Self::Relative(value) | Self::Points(value) => value,
        }
    }

    /// Whether it is marked: more than [`FAR`] percent of the published value or, where the value is a percentage itself, more than
    /// [`FAR`] percentage points.
    pub fn is_far(self) -> bool {
        self.percent().abs() > FAR
    }

    /// The number in percent, or in percentage points.
    pub fn percent(self) -> f64 {
        match self {
            Self::Relative(value) => 100.0 * value,
            Self::Points(value) => value,
        }
    }
}

impl CellRow {
    /// How far the measured number is from the published one, if there is one.
    pub fn deviation(&self) -> Option<Deviation> {
        let published = self.published?;
        match self.unit.as_str() {
            "percent" | "%" => Some(Deviation::Points(self.measured - published)),
            _ if published == 0.0 => None,
            _ => Some(Deviation::Relative((self.measured - published) / published)),
        }
    }
}

/// How well one metric came out over all cells of a study that have a published number.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricSummary {
    /// The metric.
    pub metric: String,
    /// Cells with a published number.
    pub cells: usize,
    /// Mean of the absolute deviations.
    pub mean: Deviation,
    /// The largest absolute deviation.
    pub worst: Deviation,
    /// The cell that has it.
    pub worst_cell: String,
    /// Cells whose deviation [is marked](Deviation::is_far).
    pub beyond: usize,
}

/// Comparisons that are shown one after the other.
const AT_A_GLANCE: usize = 4;
/// Deviations beyond this are marked: in percent of the published value, and in percentage points of values that are percentages.
pub const FAR: f64 = 10.0;

impl Claim {
    /// Its comparisons in one line, those that did not come out marked.
    pub fn evidence(&self) -> String {
        self.comparisons.iter().map(Comparison::marked).collect::<Vec<_>>().join("; ")
    }

    /// How many comparisons came out, where there are more than can be taken in at a glance.
    pub fn summary(&self) -> Option<String> {
        let held = self.comparisons.iter().filter(|comparison| comparison.holds == Holds::Yes).count();
        match self.comparisons.len() {
            0..=AT_A_GLANCE => None,
            all if held == all => Some(format!("all {all} comparisons hold")),
            all => Some(format!("{held} of {all} comparisons hold")),
        }
    }
}

impl Comparison {
    /// The text, marked if it did not come out.
    pub(crate) fn marked(&self) -> String {
        let mark = if self.holds == Holds::Yes { "" } else { "MISSED: " };
        format!("{mark}{}", self.text)
    }
}

impl Study {
    /// The parts of a cell's name for people; its own name where it has no other.
    pub fn parts_of(&self, cell: &str) -> Vec<String> {
        self.names.get(cell).cloned().unwrap_or_else(|| vec![cell.to_owned()])
    }

    /// A cell's name for people, as it stands in a sentence: `LL (LAN, 8 KB buffers)`.
    pub fn name_of(&self, cell: &str) -> String {
        match self.parts_of(cell).as_slice() {
            [first, rest @ ..] if !rest.is_empty() => format!("{first} ({})", rest.join(", ")),
            parts => parts.concat(),
        }
    }

    /// A text with the names of cells in it replaced by those for people.
    pub fn in_words(&self, text: &str) -> String {
        let word = |word: &str| {
            // Punctuation may follow a name.
            let bare = word.trim_end_matches([',', ':', ';']);
            if self.names.contains_key(bare) { self.name_of(bare) + &word[bare.len()..] } else { word.to_owned() }
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// The names of a table's cells for people: without the parts that all of them have, which its title gives.
    pub fn names_in(&self, table: &Table) -> BTreeMap<String, String> {
        let cells: BTreeMap<String, Vec<String>> =
            table.rows.iter().map(|row| (row.cell.clone(), self.parts_of(&row.cell))).collect();
        let common = |part: &String| cells.len() > 1 && cells.values().all(|parts| parts.contains(part));
        let short = |parts: &[String]| -> String {
            let own: Vec<&str> = parts.iter().filter(|part| !common(part)).map(String::as_str).collect();
            own.join(", ")
        };
        cells.iter().map(|(cell, parts)| (cell.clone(), short(parts))).collect()
    }

    /// The colours of each figure: a series has the same one in all figures.
    pub fn colours(&self) -> Vec<Vec<usize>> {
        Colours::across(&self.figures.iter().map(|named| &named.figure).collect::<Vec<_>>())
    }

    /// How well each metric with published numbers came out, by name of the metric.
    pub fn summaries(&self) -> Vec<MetricSummary> {
        let mut deviations: BTreeMap<&str, Vec<(&str, Deviation)>> = BTreeMap::new();
        for row in self.tables.iter().flat_map(|table| &table.rows) {
            if let Some(deviation) = row.deviation() {
                deviations.entry(&row.metric).or_default().push((&row.cell, deviation));
            }
        }
        deviations.into_iter().filter_map(|(metric, cells)| summary(metric, &cells)).collect()
    }
}

fn summary(metric: &str, cells: &[(&str, Deviation)]) -> Option<MetricSummary> {
    let size = |deviation: Deviation| deviation.value().abs();
    let &(worst_cell, worst) = cells.iter().max_by(|a, b| size(a.1).total_cmp(&size(b.1)))?;
    let mean = cells.iter().map(|cell| size(cell.1)).sum::<f64>() / cells.len() as f64;
    let mean = match worst {
        Deviation::Relative(_) => Deviation::Relative(mean),
        Deviation::Points(_) => Deviation::Points(mean),
    };
    let beyond = cells.iter().filter(|cell| cell.1.is_far()).count();
    let metric = metric.to_owned();
    Some(MetricSummary { metric, cells: cells.len(), mean, worst, worst_cell: worst_cell.to_owned(), beyond })
}

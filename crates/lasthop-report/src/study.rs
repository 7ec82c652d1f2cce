//! A study's results as plain data, which the page, the tables and the CSV file show.

use std::collections::BTreeMap;

use crate::figures::{Colours, Figure};

/// Reproduced study.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name that selects the study, e.g. `balakrishnan1997`.
    pub id: String,
    /// Title of the study.
    pub title: String,
    /// Publication of the published numbers.
    pub citation: String,
    /// Digital object identifier of that publication, if it has one.
    pub doi: Option<String>,
    /// Subject and method, one paragraph each.
    pub introduction: Vec<String>,
    /// Program that computed the measured numbers, with its version.
    pub computed_by: String,
    /// Root seed.
    pub seed: u64,
    /// Display names of cells, by the names in [`CellRow::cell`]: parts, the most important one first. Cells without an
    /// entry keep their own name.
    pub names: BTreeMap<String, Vec<String>>,
    /// Command that repeats the study.
    pub command: String,
    /// Published and measured numbers.
    pub tables: Vec<Table>,
    /// Claims of the study, each with its verdict.
    pub claims: Vec<Claim>,
    /// Further notes on the results, one paragraph each.
    pub notes: Vec<String>,
    /// Figures.
    pub figures: Vec<NamedFigure>,
}

/// Table of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Number in the paper, such as `2`.
    pub id: String,
    /// Title of the table.
    pub title: String,
    /// Cells; several metrics of one cell are several rows.
    pub rows: Vec<CellRow>,
}

/// One number of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct CellRow {
    /// Configuration, such as `LL-SMART/LAN/32`.
    pub cell: String,
    /// Metric, such as `wireless_goodput`.
    pub metric: String,
    /// Unit of the number: `Mbps`, `percent`, ...
    pub unit: String,
    /// Published number, if there is one.
    pub published: Option<f64>,
    /// Mean over the runs.
    pub measured: f64,
    /// Half of the 95 % confidence interval; `None` for a single run.
    pub ci95: Option<f64>,
    /// Number of runs.
    pub runs: u32,
    /// Relation of the published number to the measured one.
    pub relation: Relation,
    /// The same number measured in the lab, if the cell was run there.
    pub lab: Option<Lab>,
}

/// Relation of a published number to the measured one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Relation {
    /// Both describe the same system: the deviation is an error of the simulation.
    #[default]
    Same,
    /// The published number is that of another system, shown for comparison; it has no deviation.
    Beside,
}

/// A number measured with real packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lab {
    /// Mean, or median where the study prints medians.
    pub value: f64,
    /// Half of the 95 % confidence interval; `None` for too few runs.
    pub ci95: Option<f64>,
    /// Number of runs.
    pub runs: u32,
}

/// Claim of the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Letter or number of the claim.
    pub id: String,
    /// Text of the claim.
    pub text: String,
    /// Verdict on the claim.
    pub holds: Holds,
    /// Comparisons that decide the claim.
    pub comparisons: Vec<Comparison>,
}

/// Comparison of numbers that a claim rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Result of the comparison.
    pub holds: Holds,
    /// Numbers, and their expected relation.
    pub text: String,
}

/// Verdict on a claim or comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// The comparison holds.
    Yes,
    /// The comparison does not hold.
    No,
    /// The 95 % interval contains the bound, so that the runs do not decide the comparison.
    Open,
}

/// Number of claims of a study by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct ClaimCounts {
    /// Number of claims that hold.
    pub held: usize,
    /// Number of claims that the runs do not decide.
    pub open: usize,
    /// Number of claims that do not hold.
    pub missed: usize,
}

impl ClaimCounts {
    /// Counts `claims`.
    pub fn of(claims: &[Claim]) -> Self {
        let count = |holds| claims.iter().filter(|claim| claim.holds == holds).count();
        Self { held: count(Holds::Yes), open: count(Holds::Open), missed: count(Holds::No) }
    }
}

/// Figure of a study.
#[derive(Clone, Debug)]
pub struct NamedFigure {
    /// Name of the figure and its files, such as `figure-13`.
    pub id: String,
    /// Caption.
    pub caption: String,
    /// Text alternative for readers who cannot see the figure.
    pub alt: String,
    /// Figure.
    pub figure: Figure,
}

/// Deviation of a measured number from the published one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Deviation {
    /// Fraction of the published number.
    Relative(f64),
    /// Percentage points, for numbers that are percentages.
    Points(f64),
}

impl Deviation {
    /// Returns the number without its unit: a fraction or percentage points.
    pub const fn value(self) -> f64 {
        match self {
            Self::Relative(value) | Self::Points(value) => value,
        }
    }

    /// Returns whether the deviation is marked: more than [`FAR`] percent of the published value or, if the value is a
    /// percentage itself, more than [`FAR`] percentage points.
    pub fn is_far(self) -> bool {
        self.percent().abs() > FAR
    }

    /// Returns the number in percent, or in percentage points.
    pub fn percent(self) -> f64 {
        match self {
            Self::Relative(value) => 100.0 * value,
            Self::Points(value) => value,
        }
    }
}

impl CellRow {
    /// Returns the deviation of the measured number from the published one, if there is one of the same system.
    pub fn deviation(&self) -> Option<Deviation> {
        let published = self.published.filter(|_| self.relation == Relation::Same)?;
        self.off(self.measured, published)
    }

    /// Returns the deviation of the lab's number from the measured one, if the cell was run in the lab.
    pub fn lab_deviation(&self) -> Option<Deviation> {
        self.off(self.lab?.value, self.measured)
    }

    /// Returns the deviation of `value` from `reference`, both in the row's unit.
    fn off(&self, value: f64, reference: f64) -> Option<Deviation> {
        match self.unit.as_str() {
            "percent" | "%" => Some(Deviation::Points(value - reference)),
            _ if reference == 0.0 => None,
            _ => Some(Deviation::Relative((value - reference) / reference)),
        }
    }
}

/// Accuracy of one metric over all cells of a study with a published number.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricSummary {
    /// Name of the metric.
    pub metric: String,
    /// Number of cells with a published number.
    pub cells: usize,
    /// Mean of the absolute deviations.
    pub mean: Deviation,
    /// Largest absolute deviation.
    pub worst: Deviation,
    /// Cell with the largest deviation.
    pub worst_cell: String,
    /// Number of cells whose deviation [is marked](Deviation::is_far).
    pub beyond: usize,
}

/// Maximum number of comparisons that are listed without a summary.
const AT_A_GLANCE: usize = 4;
/// Deviation beyond which cells are marked: in percent of the published value, or in percentage points of values that
/// are percentages.
pub const FAR: f64 = 10.0;

impl Claim {
    /// Returns whether the claim holds; `None` if the runs do not decide it.
    pub const fn verdict(&self) -> Option<bool> {
        match self.holds {
            Holds::Yes => Some(true),
            Holds::No => Some(false),
            Holds::Open => None,
        }
    }

    /// Returns the comparisons in one line, with missed and open ones marked.
    pub fn evidence(&self) -> String {
        self.comparisons.iter().map(Comparison::marked).collect::<Vec<_>>().join("; ")
    }

    /// Returns a summary of the number of comparisons that hold, if there are more than a few.
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
    /// Returns the comparison's text, marked if it does not hold or is open.
    pub(crate) fn marked(&self) -> String {
        let mark = match self.holds {
            Holds::Yes => "",
            Holds::No => "MISSED: ",
            Holds::Open => "OPEN: ",
        };
        format!("{mark}{}", self.text)
    }
}

impl Study {
    /// Returns the parts of a cell's display name, or the cell's own name if it has none.
    pub fn parts_of(&self, cell: &str) -> Vec<String> {
        self.names.get(cell).cloned().unwrap_or_else(|| vec![cell.to_owned()])
    }

    /// Returns a cell's display name, for use in a sentence: `LL (LAN, 8 KB buffers)`.
    pub fn name_of(&self, cell: &str) -> String {
        match self.parts_of(cell).as_slice() {
            [first, rest @ ..] if !rest.is_empty() => format!("{first} ({})", rest.join(", ")),
            parts => parts.concat(),
        }
    }

    /// Replaces the names of cells in a text with their display names.
    pub fn in_words(&self, text: &str) -> String {
        let word = |word: &str| {
            // Punctuation may follow a name.
            let bare = word.trim_end_matches([',', ':', ';']);
            if self.names.contains_key(bare) { self.name_of(bare) + &word[bare.len()..] } else { word.to_owned() }
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns the display names of a table's cells, without the common parts that are in its title.
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

    /// Returns the colours of each figure: a series has the same one in all figures.
    pub fn colours(&self) -> Vec<Vec<usize>> {
        Colours::across(&self.figures.iter().map(|named| &named.figure).collect::<Vec<_>>())
    }

    /// Returns the accuracy of each metric with published numbers, by name of the metric.
    pub fn summaries(&self) -> Vec<MetricSummary> {
        self.summaries_of(CellRow::deviation)
    }

    /// Returns the deviations of the lab's numbers from the measured ones, by name of the metric.
    pub fn lab_summaries(&self) -> Vec<MetricSummary> {
        self.summaries_of(CellRow::lab_deviation)
    }

    fn summaries_of(&self, deviation: impl Fn(&CellRow) -> Option<Deviation>) -> Vec<MetricSummary> {
        let mut deviations: BTreeMap<&str, Vec<(&str, Deviation)>> = BTreeMap::new();
        for row in self.tables.iter().flat_map(|table| &table.rows) {
            if let Some(deviation) = deviation(row) {
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

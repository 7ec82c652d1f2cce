//! Definition of a topic of the discussion, and its table and figure.

use lasthop_proto::scheme::Scheme;
use lasthop_report::figures::{Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale};
use lasthop_report::study::{Claim, NamedFigure, Table};
use lasthop_scenario::Scenario;

use super::NAME;
use crate::study::{Results, StudyError, scheme};

/// A topic.
pub(super) trait Subject: Sync {
    /// Returns the word that selects the topic's table and figure.
    fn id(&self) -> &'static str;

    /// Returns the topic's title, one line.
    fn title(&self) -> &'static str;

    /// Returns the topic's cells, in the order of the table.
    fn points(&self) -> Vec<Point>;

    /// Returns the names of the metrics in the topic's table.
    fn measures(&self) -> &'static [&'static str] {
        &["throughput"]
    }

    /// Returns whether the topic's table shows that metric of a cell; false if the metric has no meaning for that cell.
    fn shows(&self, _point: &Point, _measure: &str) -> bool {
        true
    }

    /// Returns the display form of a part of a cell's name, if it differs from the part itself.
    fn reads(&self, _part: &str) -> Option<String> {
        None
    }

    /// Returns the axes of the topic's figure.
    fn axes(&self) -> Axes;

    /// Returns the topic's claims for which `results` has the cells.
    fn claims(&self, results: &Results) -> Vec<Claim>;

    /// Returns further information for readers, such as its sources.
    fn note(&self) -> Option<&'static str> {
        None
    }
}

/// A cell: a built-in scenario with some of its keys changed, under a scheme.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Name, which begins with the topic's.
    pub name: String,
    /// Built-in scenario.
    pub scenario: &'static str,
    /// Keys and their values.
    pub set: Vec<(&'static str, String)>,
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Series and position in the figure; `None` if the cell is not drawn.
    pub place: Option<(&'static str, f64)>,
    /// Values from a public source, by metric.
    pub published: Vec<(&'static str, f64)>,
}

impl Point {
    /// Creates a cell that a figure shows in the series of that name, at `x` on a numeric axis.
    pub(super) fn drawn(
        name: String,
        scenario: &'static str,
        scheme: &'static str,
        (line, x): (&'static str, f64),
    ) -> Self {
        Self { name, scenario, set: Vec::new(), scheme, place: Some((line, x)), published: Vec::new() }
    }

    /// Returns the cell with a key changed.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.set.push((key, value.into()));
        self
    }

    /// Returns the cell's scenario and scheme.
    pub(super) fn scenario(&self) -> Result<(Scenario, &'static Scheme), StudyError> {
        let scenario = Scenario::builtin(self.scenario)?.with_overrides(&self.set)?;
        Ok((scenario, scheme(NAME, self.scheme)?))
    }
}

/// Horizontal axis of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// A number with this name and unit: a line per series.
    Number(&'static str, Scale),
    /// The schemes, in the order of the cells: a bar per series.
    Schemes,
}

/// Axes of a figure, which shows one metric of the cells, by series and position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    /// Horizontal axis.
    pub along: Along,
    /// Metric to draw.
    pub measure: &'static str,
    /// Name and unit of the metric.
    pub y: &'static str,
}

impl Axes {
    /// Throughput over the mean interval between errors, whose value is a part of the cells' names.
    pub(super) const OVER_INTERVALS: Self = Self {
        along: Along::Number("mean bytes between errors (KB)", Scale::Log),
        measure: "throughput",
        y: "throughput (Mbps)",
    };

    /// Returns the display form of the part of a cell's name with an interval between errors.
    pub(super) fn read_interval(part: &str) -> Option<String> {
        part.strip_suffix("KB").map(|kb| format!("one error per {kb} KB"))
    }
}

/// Returns the parts of a cell's display name, without the topic's word.
pub(super) fn words(subject: &dyn Subject, cell: &str) -> Vec<String> {
    let part = |part: &str| {
        // Names of schemes are unchanged.
        let plain = || if Scheme::by_name(part).is_some() { part.to_owned() } else { part.replace('-', " ") };
        subject.reads(part).unwrap_or_else(plain)
    };
    cell.split('/').skip(1).map(part).collect()
}

/// Returns the table of a topic.
pub(super) fn table(subject: &dyn Subject, results: &Results) -> Table {
    let mut rows = Vec::new();
    for point in subject.points() {
        for metric in subject.measures().iter().filter(|metric| subject.shows(&point, metric)) {
            let Some(summary) = results.summary(&point.name, metric) else { continue };
            let published = point.published.iter().find(|(known, _)| known == metric).map(|(_, value)| *value);
            rows.push(summary.estimate.row(&point.name, (metric, summary.unit), published));
        }
    }
    Table { id: subject.id().to_owned(), title: subject.title().to_owned(), rows }
}

/// Returns the figure of a topic, with series in the order of its cells.
pub(super) fn figure(subject: &dyn Subject, results: &Results) -> NamedFigure {
    let (id, title, axes) = (subject.id(), subject.title(), subject.axes());
    let (figure, over) = match axes.along {
        Along::Number(x, scale) => (lines(subject, results, (x, scale)), x),
        Along::Schemes => (bars(subject, results), "schemes"),
    };
    NamedFigure {
        id: format!("figure-{id}"),
        caption: format!("Figure {id}. {title}."),
        alt: format!("Figure {id}: {title}; {} over {over}. The numbers are in table {id}.", axes.y),
        figure,
    }
}

fn lines(subject: &dyn Subject, results: &Results, (x_label, x_scale): (&str, Scale)) -> Figure {
    let axes = subject.axes();
    let mut series: Vec<LineSeries> = Vec::new();
    for point in subject.points() {
        let (Some((line, x)), Some(bar)) = (point.place, drawn(&point, results, axes.measure)) else { continue };
        let point = LinePoint { x, y: bar.value, ci95: bar.ci95, published: bar.published };
        match series.iter_mut().find(|known| known.name == line) {
            Some(known) => known.points.push(point),
            None => series.push(LineSeries { name: line.to_owned(), points: vec![point] }),
        }
    }
    Figure::Lines(LineChart {
        title: subject.title().to_owned(),
        x_label: x_label.to_owned(),
        y_label: axes.y.to_owned(),
        x_scale,
        series,
    })
}

fn bars(subject: &dyn Subject, results: &Results) -> Figure {
    let (axes, points) = (subject.axes(), subject.points());
    let mut groups: Vec<String> = Vec::new();
    let mut series: Vec<BarSeries> = Vec::new();
    for point in &points {
        if !groups.iter().any(|known| known == point.scheme) {
            groups.push(point.scheme.to_owned());
        }
    }
    for point in &points {
        let Some((name, _)) = point.place else { continue };
        if !series.iter().any(|known| known.name == name) {
            series.push(BarSeries { name: name.to_owned(), bars: vec![None; groups.len()] });
        }
        let group = groups.iter().position(|known| known == point.scheme);
        let bars = series.iter_mut().find(|known| known.name == name);
        if let (Some(group), Some(known)) = (group, bars) {
            known.bars[group] = drawn(point, results, axes.measure);
        }
    }
    Figure::Bars(BarChart { title: subject.title().to_owned(), value_label: axes.y.to_owned(), groups, series })
}

/// Returns the results of a cell.
fn drawn(point: &Point, results: &Results, measure: &str) -> Option<Bar> {
    let estimate = results.summary(&point.name, measure)?.estimate;
    let published = point.published.iter().find(|(known, _)| *known == measure).map(|(_, value)| *value);
    Some(Bar { value: estimate.mean, ci95: estimate.ci95, published })
}

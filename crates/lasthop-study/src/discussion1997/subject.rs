//! What a subject of the discussion says of itself, and how its table and its figure are made of it.

use lasthop_proto::scheme::Scheme;
use lasthop_report::figures::{Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale};
use lasthop_report::study::{CellRow, Claim, NamedFigure, Table};
use lasthop_scenario::Scenario;

use super::NAME;
use crate::study::{Results, StudyError, scheme};

/// One subject.
pub(super) trait Subject: Sync {
    /// The word that selects its table and its figure.
    fn id(&self) -> &'static str;

    /// What it is about, in a line.
    fn title(&self) -> &'static str;

    /// Its cells, in the order of the table.
    fn points(&self) -> Vec<Point>;

    /// What its table shows of each cell: names of measures.
    fn measures(&self) -> &'static [&'static str] {
        &["throughput"]
    }

    /// Whether its table shows that measure of a cell: not where it means nothing there.
    fn shows(&self, _point: &Point, _measure: &str) -> bool {
        true
    }

    /// A part of a cell's name for people, where the part itself does not say it.
    fn reads(&self, _part: &str) -> Option<String> {
        None
    }

    /// What its figure shows.
    fn axes(&self) -> Axes;

    /// What is claimed of it, as far as `results` has the cells.
    fn claims(&self, results: &Results) -> Vec<Claim>;

    /// What a reader has to know of it besides; its sources.
    fn note(&self) -> Option<&'static str> {
        None
    }
}

/// One cell: a ready-made scenario with some of its keys changed, under a scheme.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Its name, which begins with the subject's.
    pub name: String,
    /// The ready-made scenario.
    pub scenario: &'static str,
    /// Keys and their values.
    pub set: Vec<(&'static str, String)>,
    /// The scheme's name.
    pub scheme: &'static str,
    /// Where it stands in the figure: in which series, and at which place. A cell that is not drawn has none.
    pub place: Option<(&'static str, f64)>,
    /// Numbers that a public source gives for it, by measure.
    pub published: Vec<(&'static str, f64)>,
}

impl Point {
    /// A cell that a figure shows in the series of that name, at `x` where numbers lie along it.
    pub(super) fn drawn(
        name: String,
        scenario: &'static str,
        scheme: &'static str,
        (line, x): (&'static str, f64),
    ) -> Self {
        Self { name, scenario, set: Vec::new(), scheme, place: Some((line, x)), published: Vec::new() }
    }

    /// The same with a key changed.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.set.push((key, value.into()));
        self
    }

    /// The scenario, and the scheme that it is run under.
    pub(super) fn scenario(&self) -> Result<(Scenario, &'static Scheme), StudyError> {
        let scenario = Scenario::builtin(self.scenario)?.with_overrides(&self.set)?;
        Ok((scenario, scheme(NAME, self.scheme)?))
    }
}

/// What lies along a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// A number, called so, with its unit: a line of each series.
    Number(&'static str, Scale),
    /// The schemes, in the order of the cells: a bar of each series.
    Schemes,
}

/// What a figure shows: one measure of the cells, by series and place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    /// What lies along it.
    pub along: Along,
    /// The measure that is drawn.
    pub measure: &'static str,
    /// What that is called, with its unit.
    pub y: &'static str,
}

/// A cell's name for people, in parts: what follows the subject's own word.
pub(super) fn words(subject: &dyn Subject, cell: &str) -> Vec<String> {
    let part = |part: &str| {
        // A scheme keeps its name.
        let plain = || if Scheme::by_name(part).is_some() { part.to_owned() } else { part.replace('-', " ") };
        subject.reads(part).unwrap_or_else(plain)
    };
    cell.split('/').skip(1).map(part).collect()
}

/// The table of a subject.
pub(super) fn table(subject: &dyn Subject, results: &Results) -> Table {
    let mut rows = Vec::new();
    for point in subject.points() {
        for metric in subject.measures().iter().filter(|metric| subject.shows(&point, metric)) {
            let Some(summary) = results.summary(&point.name, metric) else { continue };
            rows.push(CellRow {
                cell: point.name.clone(),
                metric: (*metric).to_owned(),
                unit: summary.unit.to_owned(),
                published: point.published.iter().find(|(known, _)| known == metric).map(|(_, value)| *value),
                measured: summary.estimate.mean,
                ci95: summary.estimate.ci95,
                runs: summary.estimate.n,
            });
        }
    }
    Table { id: subject.id().to_owned(), title: subject.title().to_owned(), rows }
}

/// The figure of a subject: its series in the order in which its cells name them.
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

/// What was measured of a cell.
fn drawn(point: &Point, results: &Results, measure: &str) -> Option<Bar> {
    let estimate = results.summary(&point.name, measure)?.estimate;
    let published = point.published.iter().find(|(known, _)| *known == measure).map(|(_, value)| *value);
    Some(Bar { value: estimate.mean, ci95: estimate.ci95, published })
}

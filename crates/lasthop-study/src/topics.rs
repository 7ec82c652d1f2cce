//! Studies that consist of topics, each with a table, a figure and claims.

use std::collections::BTreeMap;

use lasthop_proto::scheme::Scheme;
use lasthop_report::figures::{Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale};
use lasthop_report::study::{CellRow, Claim, NamedFigure, Relation, Table};
use lasthop_scenario::Scenario;

use crate::claims;
use crate::stats::Estimate;
use crate::study::{self, Cell, Contents, Options, Results, Selection, Study, StudyError, scheme};

/// A study of topics.
pub struct Topics {
    /// Name that selects the study.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Publication with the published values.
    pub citation: &'static str,
    /// Digital object identifier of that publication.
    pub doi: Option<&'static str>,
    /// Introduction: paragraphs.
    pub introduction: &'static [&'static str],
    /// Topics, in the order of the page.
    pub(crate) topics: &'static [&'static dyn Topic],
}

impl Study for Topics {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn steady_from(&self) -> Option<u64> {
        self.topics.iter().find_map(|topic| topic.steady_from())
    }

    fn has_durations(&self) -> bool {
        self.topics.iter().any(|topic| topic.has_durations())
    }

    fn lab_cells(&self) -> Vec<String> {
        let points =
            self.topics.iter().flat_map(|topic| topic.points().into_iter().filter(|point| topic.in_lab(point)));
        points.map(|point| point.name).collect()
    }

    fn citation(&self) -> &'static str {
        self.citation
    }

    fn doi(&self) -> Option<&'static str> {
        self.doi
    }

    fn introduction(&self) -> &'static [&'static str] {
        self.introduction
    }

    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError> {
        let named = |topic: &'static dyn Topic| {
            topic.points().into_iter().filter(|point| is_part(selection, &point.name)).map(move |point| {
                let words = words(topic, &point.name);
                (point.name, words)
            })
        };
        Ok(self.selected(selection)?.into_iter().flat_map(named).collect())
    }

    fn cells(&self, selection: &Selection) -> Result<Vec<Cell>, StudyError> {
        let points = self.selected(selection)?.into_iter().flat_map(|topic| topic.points());
        let points = points.filter(|point| is_part(selection, &point.name));
        study::cells(points.collect(), |point| point.name.clone(), |point| point.scenario(self.name))
    }

    fn cell_names(&self) -> Result<Vec<String>, StudyError> {
        Ok(self.topics.iter().flat_map(|topic| topic.points()).map(|point| point.name).collect())
    }

    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError> {
        let topics = self.selected(&options.selection)?;
        // Tables are selected without figures; a figure's numbers are in its table.
        let draws = !matches!(options.selection, Selection::Table(_));
        Ok(Contents {
            tables: topics.iter().map(|topic| table(*topic, results)).collect(),
            claims: topics
                .iter()
                .flat_map(|topic| topic.claims(results).into_iter().chain(order(*topic, results)))
                .collect(),
            notes: topics.iter().flat_map(|topic| topic.note()).map(str::to_owned).collect(),
            figures: topics.iter().filter(|_| draws).map(|topic| figure(*topic, results)).collect(),
        })
    }
}

impl Topics {
    /// Returns the topics whose table or figure is in `selection`. A table may be named with the beginning of its cells'
    /// names, such as `bulk/farm`.
    fn selected(&self, selection: &Selection) -> Result<Vec<&'static dyn Topic>, StudyError> {
        let (what, given) = match selection {
            Selection::All => return Ok(self.topics.to_vec()),
            Selection::Table(table) => ("table", table),
            Selection::Figure(figure) => ("figure", figure),
        };
        let has = |topic: &dyn Topic| {
            let prefix = format!("{given}/");
            what == "table" && topic.points().iter().any(|point| point.name.starts_with(&prefix))
        };
        match self.topics.iter().find(|topic| topic.id() == given || has(**topic)) {
            Some(topic) => Ok(vec![*topic]),
            None => {
                let known = self.topics.iter().map(|topic| topic.id()).collect::<Vec<_>>().join(", ");
                Err(StudyError::Unknown { study: self.name, what, given: given.clone(), known })
            }
        }
    }
}

/// Returns whether a cell is in `selection`, if its topic is.
fn is_part(selection: &Selection, cell: &str) -> bool {
    match selection {
        Selection::Table(given) if given.contains('/') => {
            cell.strip_prefix(given.as_str()).is_some_and(|rest| rest.starts_with('/'))
        }
        _ => true,
    }
}

/// A topic.
pub(crate) trait Topic: Sync {
    /// Returns the word that selects the topic's table and figure.
    fn id(&self) -> &'static str;

    /// Returns the topic's title, one line.
    fn title(&self) -> &'static str;

    /// Returns the topic's cells, in the order of the table.
    fn points(&self) -> Vec<Point>;

    /// Returns the number of seconds after which the steady throughput of each flow is measured, if the topic needs it.
    fn steady_from(&self) -> Option<u64> {
        None
    }

    /// Returns whether the topic needs durations of transfers and overheads of links.
    fn has_durations(&self) -> bool {
        false
    }

    /// Returns whether the lab runs the cell as well.
    fn in_lab(&self, _point: &Point) -> bool {
        false
    }

    /// Returns the names of the metrics in the topic's table.
    fn measures(&self) -> &'static [&'static str] {
        &["throughput"]
    }

    /// Returns whether the topic's table shows that metric of a cell; false if the metric has no meaning for that cell.
    fn shows(&self, _point: &Point, _measure: &str) -> bool {
        true
    }

    /// Returns the estimate of a metric of a cell, with its unit.
    fn estimate(&self, point: &Point, measure: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        results.summary(&point.name, measure).map(|summary| (summary.estimate, summary.unit))
    }

    /// Returns the display form of a part of a cell's name, if it differs from the part itself.
    fn reads(&self, _part: &str) -> Option<String> {
        None
    }

    /// Returns the axes of the topic's figure.
    fn axes(&self) -> Axes;

    /// Returns the topic's claims for which `results` has the cells.
    fn claims(&self, results: &Results) -> Vec<Claim>;

    /// Returns whether the second part of the cells' names is a line of the figure, and the order of lines is a claim.
    fn orders_lines(&self) -> bool {
        false
    }

    /// Returns further information for readers, such as its sources.
    fn note(&self) -> Option<&'static str> {
        None
    }
}

/// Scenario of a cell before its keys are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// A built-in scenario.
    Builtin(&'static str),
    /// A scenario of the study: name and text of its file.
    Text(&'static str, &'static str),
    /// A scenario of the study in parts: its name, and the texts of a link, of its traffic, and of traffic beside that.
    Parts(&'static str, [&'static str; 3]),
}

impl From<&'static str> for Base {
    fn from(name: &'static str) -> Self {
        Self::Builtin(name)
    }
}

/// A cell: a scenario with some of its keys changed, under a scheme.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Name, which begins with the topic's.
    pub name: String,
    /// Scenario.
    pub scenario: Base,
    /// Keys and their values.
    pub set: Vec<(&'static str, String)>,
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Series and position in the figure; `None` if the cell is not drawn.
    pub place: Option<(&'static str, f64)>,
    /// Values from a public source, by metric.
    pub published: Vec<(&'static str, f64)>,
    /// Relation of these values to the cell.
    pub relation: Relation,
}

impl Point {
    /// Creates a cell that a figure shows in the series of that name, at `x` on a numeric axis.
    pub(crate) fn drawn(
        name: String,
        scenario: impl Into<Base>,
        scheme: &'static str,
        (line, x): (&'static str, f64),
    ) -> Self {
        let scenario = scenario.into();
        let (set, published, relation) = (Vec::new(), Vec::new(), Relation::Same);
        Self { name, scenario, set, scheme, place: Some((line, x)), published, relation }
    }

    /// Returns the cell with a value from a public source, if there is one.
    pub(crate) fn published(mut self, measure: &'static str, value: Option<f64>) -> Self {
        self.published.extend(value.map(|value| (measure, value)));
        self
    }

    /// Returns the cell with its published values declared those of another system.
    pub(crate) const fn beside(mut self) -> Self {
        self.relation = Relation::Beside;
        self
    }

    /// Returns the cell with a key changed.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.set.push((key, value.into()));
        self
    }

    /// Returns the scenario and scheme of a cell of `study`.
    fn scenario(&self, study: &'static str) -> Result<(Scenario, &'static Scheme), StudyError> {
        let scenario = match self.scenario {
            Base::Builtin(name) => Scenario::builtin(name)?,
            Base::Text(file, text) => Scenario::parse(file, text)?,
            Base::Parts(name, parts) => Scenario::parse(name, &parts.join("\n"))?,
        };
        let scenario = scenario.with_overrides(&self.set)?;
        Ok((scenario, scheme(study, self.scheme)?))
    }
}

/// Horizontal axis of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Along {
    /// A number with this name and unit: a line per series.
    Number(&'static str, Scale),
    /// The schemes, in the order of the cells: a bar per series.
    Schemes,
    /// The second parts of the cells' names, in the order of the cells: a bar per series.
    Seconds,
}

/// Axes of a figure, which shows one metric of the cells, by series and position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axes {
    /// Horizontal axis.
    pub along: Along,
    /// Metric to draw.
    pub measure: &'static str,
    /// Name and unit of the metric.
    pub y: &'static str,
}

impl Axes {
    /// Throughput over the mean interval between errors, whose value is a part of the cells' names.
    pub(crate) const OVER_INTERVALS: Self = Self {
        along: Along::Number("mean bytes between errors (KB)", Scale::Log),
        measure: "throughput",
        y: "throughput (Mbps)",
    };

    /// Returns the display form of the part of a cell's name with an interval between errors.
    pub(crate) fn read_interval(part: &str) -> Option<String> {
        part.strip_suffix("KB").map(|kb| format!("one error per {kb} KB"))
    }
}

/// Returns the parts of a cell's display name, without the topic's word.
pub(crate) fn words(topic: &dyn Topic, cell: &str) -> Vec<String> {
    let part = |part: &str| {
        // Names of schemes are unchanged.
        let plain = || if Scheme::by_name(part).is_some() { part.to_owned() } else { part.replace('-', " ") };
        topic.reads(part).unwrap_or_else(plain)
    };
    cell.split('/').skip(1).map(part).collect()
}

/// Returns the table of a topic.
pub(crate) fn table(topic: &dyn Topic, results: &Results) -> Table {
    let mut rows = Vec::new();
    for point in topic.points() {
        for metric in topic.measures().iter().filter(|metric| topic.shows(&point, metric)) {
            let Some((estimate, unit)) = topic.estimate(&point, metric, results) else { continue };
            let published = point.published.iter().find(|(known, _)| known == metric).map(|(_, value)| *value);
            let lab = results.lab().and_then(|lab| topic.estimate(&point, metric, lab));
            rows.push(CellRow {
                relation: point.relation,
                lab: lab.map(|(lab, _)| lab.lab()),
                ..estimate.row(&point.name, (metric, unit), published)
            });
        }
    }
    Table { id: topic.id().to_owned(), title: topic.title().to_owned(), rows }
}

/// Least ratio of two published values whose order is a claim: that of the tolerance.
const CLEARLY: f64 = 1.1;

/// Returns the claim that lines are in the published order, wherever two of them differ clearly.
fn order(topic: &dyn Topic, results: &Results) -> Option<Claim> {
    if !topic.orders_lines() {
        return None;
    }
    let points = topic.points();
    let points: Vec<&Point> = points.iter().filter(|point| point.relation == Relation::Same).collect();
    // The rest of a name is what cells of different lines have in common.
    let rest = |point: &Point| point.name.splitn(3, '/').nth(2).map(str::to_owned);
    claims::claim(
        results,
        &format!("order-{}", topic.id()),
        "All lines that the source shows clearly apart are in its order",
        &|c| {
            for (at, a) in points.iter().enumerate() {
                for b in points[at + 1..].iter().filter(|b| rest(b) == rest(a)) {
                    for (measure, published) in &a.published {
                        let Some((_, other)) = b.published.iter().find(|(known, _)| known == measure) else { continue };
                        if published.max(*other) < CLEARLY * published.min(*other) {
                            continue;
                        }
                        let [first, second] = [a, b].map(|point| topic.estimate(point, measure, results));
                        let (first, second) = (first?.0, second?.0);
                        let text =
                            format!("{} {} beside {} {}", a.name, claims::show(&first), b.name, claims::show(&second));
                        let (upper, lower) = if published > other { (&first, &second) } else { (&second, &first) };
                        c.judge_apart(upper, lower, text);
                    }
                }
            }
            Some(())
        },
    )
}

/// Returns the figure of a topic, with series in the order of its cells.
pub(crate) fn figure(topic: &dyn Topic, results: &Results) -> NamedFigure {
    let (id, title, axes) = (topic.id(), topic.title(), topic.axes());
    let (figure, over) = match axes.along {
        Along::Number(x, scale) => (lines(topic, results, (x, scale)), x),
        Along::Schemes => (bars(topic, results, |point| point.scheme.to_owned()), "schemes"),
        Along::Seconds => {
            let group = |point: &Point| {
                let second = point.name.split('/').nth(1).unwrap_or_default();
                topic.reads(second).unwrap_or_else(|| second.to_owned())
            };
            (bars(topic, results, group), "links")
        }
    };
    NamedFigure {
        id: format!("figure-{id}"),
        caption: format!("Figure {id}. {title}."),
        alt: format!("Figure {id}: {title}; {} over {over}. The numbers are in table {id}.", axes.y),
        figure,
    }
}

fn lines(topic: &dyn Topic, results: &Results, (x_label, x_scale): (&str, Scale)) -> Figure {
    let axes = topic.axes();
    let mut series: Vec<LineSeries> = Vec::new();
    for point in topic.points() {
        let (Some((line, x)), Some(bar)) = (point.place, drawn(topic, &point, results)) else { continue };
        let point = LinePoint { x, y: bar.value, ci95: bar.ci95, published: bar.published };
        match series.iter_mut().find(|known| known.name == line) {
            Some(known) => known.points.push(point),
            None => series.push(LineSeries { name: line.to_owned(), points: vec![point] }),
        }
    }
    Figure::Lines(LineChart {
        title: topic.title().to_owned(),
        x_label: x_label.to_owned(),
        y_label: axes.y.to_owned(),
        x_scale,
        series,
    })
}

/// Returns bars in the groups that `group` names.
fn bars(topic: &dyn Topic, results: &Results, group: impl Fn(&Point) -> String) -> Figure {
    let (axes, points) = (topic.axes(), topic.points());
    let mut groups: Vec<String> = Vec::new();
    let mut series: Vec<BarSeries> = Vec::new();
    for point in &points {
        let group = group(point);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for point in &points {
        let Some((name, _)) = point.place else { continue };
        if !series.iter().any(|known| known.name == name) {
            series.push(BarSeries { name: name.to_owned(), bars: vec![None; groups.len()] });
        }
        let group = group(point);
        let at = groups.iter().position(|known| *known == group);
        let bars = series.iter_mut().find(|known| known.name == name);
        if let (Some(at), Some(known)) = (at, bars) {
            known.bars[at] = drawn(topic, point, results);
        }
    }
    Figure::Bars(BarChart { title: topic.title().to_owned(), value_label: axes.y.to_owned(), groups, series })
}

/// Returns the results of a cell.
fn drawn(topic: &dyn Topic, point: &Point, results: &Results) -> Option<Bar> {
    let measure = topic.axes().measure;
    let (estimate, _) = topic.estimate(point, measure, results)?;
    let published = point.published.iter().find(|(known, _)| *known == measure).map(|(_, value)| *value);
    Some(Bar { value: estimate.mean, ci95: estimate.ci95, published })
}

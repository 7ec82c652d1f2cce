//! Lines with error bars, and windows over time as steps.

use serde::Serialize;

use super::Chart;
use super::axis::{Axis, Scale};
use super::data::rounded;
use super::numbers::{Table, estimate, over_time};
use super::plot::{self, HEIGHT, Sample, WIDTH, number};
use super::scene::{Group, Mark, Scene, colour};
use super::sequence::dot_colour;

/// Line chart.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LineChart {
    /// Title of the chart.
    pub title: String,
    /// Label of the x axis, with its unit: `mean interval between errors (KB)`.
    pub x_label: String,
    /// Label of the y axis, with its unit. The axis starts at 0, or below the least value if that is negative.
    pub y_label: String,
    /// Scale of the x axis.
    pub x_scale: Scale,
    /// Lines of the chart.
    pub series: Vec<LineSeries>,
}

/// Line of a [`LineChart`].
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LineSeries {
    /// Name of the line.
    pub name: String,
    /// Points in order of x.
    pub points: Vec<LinePoint>,
}

/// Point of a [`LineSeries`].
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct LinePoint {
    /// Position on the x axis.
    pub x: f64,
    /// Measured number.
    pub y: f64,
    /// Half width of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// Published number.
    pub published: Option<f64>,
}

/// Plot of windows, or other values that change in steps, over time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct WindowPlot {
    /// Title of the plot.
    pub title: String,
    /// Label of the y axis, with its unit: `congestion window (KB)`. The axis starts at 0.
    pub y_label: String,
    /// Lines of the plot.
    pub series: Vec<StepSeries>,
}

/// Line of a [`WindowPlot`].
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct StepSeries {
    /// Name of the line.
    pub name: String,
    /// Time in seconds from which each value holds, in order of time. The last point is the end of the line.
    #[serde(serialize_with = "rounded")]
    pub points: Vec<(f64, f64)>,
}

impl Chart for LineChart {
    fn scene(&self, colours: &[usize]) -> Scene {
        let colour = |number: usize| colours.get(number).map_or_else(|| colour(number), |place| dot_colour(*place));
        let style = |number| (Mark::of_series(number), colour(number));
        let mut legend = legend(self.series.iter().map(|series| &series.name), |number| {
            let (mark, colour) = style(number);
            Sample::LineAndMark(mark, colour)
        });
        let points = || self.series.iter().flat_map(|series| &series.points);
        if points().any(|point| point.published.is_some()) {
            legend.push(("published".to_owned(), Sample::Published));
        }
        let most = |point: &LinePoint| (point.y + point.ci95.unwrap_or(0.0)).max(point.published.unwrap_or(0.0));
        let largest = points().map(most).filter(|y| y.is_finite());
        let x_axis = Axis::around(points().map(|point| point.x), self.x_scale);
        let least = points().map(|point| low_end(point).min(point.published.unwrap_or(0.0))).filter(|y| y.is_finite());
        let y_axis = Axis::round(least.fold(0.0, f64::min), largest.fold(0.0, f64::max), 7);

        let mut scene = Scene::new(WIDTH, HEIGHT);
        plot::head(&mut scene, &self.title, &legend);
        let head = plot::head_height(&legend);
        let frame = plot::axes(&mut scene, head, (&x_axis, &self.x_label), (&y_axis, &self.y_label));
        for (number, series) in self.series.iter().enumerate() {
            let (mark, colour) = style(number);
            let shown: Vec<&LinePoint> =
                series.points.iter().filter(|point| x_axis.holds(point.x) && point.y.is_finite()).collect();
            let at = |point: &LinePoint| (frame.x(&x_axis, point.x), frame.y(&y_axis, point.y));
            scene.path(shown.iter().map(|point| at(point)).collect(), colour, 2.0);
            for point in shown {
                let (x, y) = at(point);
                scene.group(Group::Datum(words(&series.name, point)), |scene| {
                    if let Some(ci) = point.ci95 {
                        let (low, high) = (frame.y(&y_axis, low_end(point)), frame.y(&y_axis, point.y + ci));
                        plot::error_bar(scene, x, low, high, colour);
                    }
                    scene.mark(mark, (x, y), 4.5, colour);
                });
            }
        }
        // Drawn above all lines, which come close to them.
        for (number, series) in self.series.iter().enumerate() {
            for point in series.points.iter().filter(|point| x_axis.holds(point.x)) {
                if let Some(published) = point.published {
                    let at = (frame.x(&x_axis, point.x), frame.y(&y_axis, published));
                    plot::published_sign(&mut scene, at, colour(number));
                }
            }
        }
        scene
    }

    fn table(&self) -> Table {
        let points = || self.series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
        let has_published = points().any(|(_, point)| point.published.is_some());
        let mut headings = vec!["series".to_owned(), self.x_label.clone(), self.y_label.clone()];
        headings.extend(has_published.then(|| "published".to_owned()));
        let rows = points().map(|(series, point)| {
            let mut row = vec![series.name.clone(), number(point.x), estimate(point.y, point.ci95)];
            let there = point.published.map_or(String::new(), |published| format!("{published:.3}"));
            row.extend(has_published.then_some(there));
            row
        });
        (headings, rows.collect())
    }

    fn series_names(&self) -> Vec<&String> {
        self.series.iter().map(|series| &series.name).collect()
    }
}

/// Describes a point: its series, x, and y.
fn words(series: &str, point: &LinePoint) -> String {
    let series = if series.is_empty() { String::new() } else { format!("{series}, ") };
    let y = plot::number_words(point.y, point.ci95, point.published);
    format!("{series}{}: {y}", plot::number(point.x))
}

/// Returns the low end of a point's interval. For a positive mean it is at least 0, since the quantity is then not
/// negative.
fn low_end(point: &LinePoint) -> f64 {
    let low = point.y - point.ci95.unwrap_or(0.0);
    if point.y < 0.0 { low } else { low.max(0.0) }
}

impl Chart for WindowPlot {
    fn scene(&self, colours: &[usize]) -> Scene {
        let colour = |number: usize| dot_colour(colours.get(number).copied().unwrap_or(number));
        let legend = legend(self.series.iter().map(|series| &series.name), |number| Sample::Line(colour(number)));
        let points = || self.series.iter().flat_map(|series| &series.points);
        let end = points().map(|point| point.0).fold(0.0, f64::max);
        let largest = points().map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let x_axis = Axis::tight(0.0, end, 10);
        let y_axis = Axis::round(0.0, largest, 7);

        let mut scene = Scene::new(WIDTH, HEIGHT);
        plot::head(&mut scene, &self.title, &legend);
        let head = plot::head_height(&legend);
        let frame = plot::axes(&mut scene, head, (&x_axis, "time (s)"), (&y_axis, &self.y_label));
        for (number, series) in self.series.iter().enumerate() {
            let mut path: Vec<(f64, f64)> = Vec::new();
            for &(time, value) in &series.points {
                let (x, y) = (frame.x(&x_axis, time), frame.y(&y_axis, value));
                if let Some(&(_, before)) = path.last() {
                    path.push((x, before));
                }
                path.push((x, y));
            }
            scene.path(path, colour(number), 1.5);
        }
        scene
    }

    fn table(&self) -> Table {
        over_time(&self.y_label, self.series.iter().map(|series| (series.name.clone(), &*series.points)))
    }

    fn series_names(&self) -> Vec<&String> {
        self.series.iter().map(|series| &series.name).collect()
    }
}

/// Returns a legend, unless there is a single series without a name.
pub fn legend<'a>(names: impl Iterator<Item = &'a String>, sample: impl Fn(usize) -> Sample) -> Vec<(String, Sample)> {
    let entries: Vec<(String, Sample)> =
        names.enumerate().map(|(number, name)| (name.clone(), sample(number))).collect();
    match entries.as_slice() {
        [(name, _)] if name.is_empty() => Vec::new(),
        _ => entries,
    }
}

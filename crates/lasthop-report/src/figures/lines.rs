//! Lines with error bars, and windows over time as steps.

use serde::Serialize;

use super::axis::{Axis, Scale};
use super::data::rounded;
use super::plot::{self, HEIGHT, Sample, WIDTH};
use super::scene::{Mark, Scene, colour};
use super::sequence::dot_colour;

/// A line chart.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LineChart {
    /// What it shows.
    pub title: String,
    /// What the x axis shows, with its unit: `mean interval between errors (KB)`.
    pub x_label: String,
    /// Label of the y axis, with its unit. The axis starts at 0, or below the least value if that is negative.
    pub y_label: String,
    /// How the x axis is laid out.
    pub x_scale: Scale,
    /// The lines.
    pub series: Vec<LineSeries>,
}

/// A line of a [`LineChart`].
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LineSeries {
    /// Its name.
    pub name: String,
    /// Its points, in order of x.
    pub points: Vec<LinePoint>,
}

/// A point of a [`LineSeries`].
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct LinePoint {
    /// Where.
    pub x: f64,
    /// The number measured there.
    pub y: f64,
    /// Half of its 95 % confidence interval.
    pub ci95: Option<f64>,
    /// The number published.
    pub published: Option<f64>,
}

/// Windows, or anything else that keeps its value until it changes, over time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct WindowPlot {
    /// What it shows.
    pub title: String,
    /// What the y axis shows, with its unit: `congestion window (KB)`. It starts at 0.
    pub y_label: String,
    /// The lines.
    pub series: Vec<StepSeries>,
}

/// A line of a [`WindowPlot`].
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct StepSeries {
    /// Its name.
    pub name: String,
    /// Since when (in seconds) it has had which value, in order of time. Its last point is where the line ends.
    #[serde(serialize_with = "rounded")]
    pub points: Vec<(f64, f64)>,
}

impl LineChart {
    /// Draws it; `colours` are numbers of [`Colours`](super::Colours). Series beyond them have colours by their place.
    pub(super) fn scene(&self, colours: &[usize]) -> Scene {
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
                if let Some(ci) = point.ci95 {
                    let (low, high) = (frame.y(&y_axis, low_end(point)), frame.y(&y_axis, point.y + ci));
                    plot::error_bar(&mut scene, x, low, high, colour);
                }
                scene.mark(mark, (x, y), 4.5, colour);
            }
        }
        // Above all lines, which come close to them.
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
}

/// Low end of a point's interval. The interval of a positive mean ends at 0: the quantity itself is not negative then.
fn low_end(point: &LinePoint) -> f64 {
    let low = point.y - point.ci95.unwrap_or(0.0);
    if point.y < 0.0 { low } else { low.max(0.0) }
}

impl WindowPlot {
    /// Draws it; `colours` are numbers of colours that its lines have, those behind them by their place.
    pub(super) fn scene(&self, colours: &[usize]) -> Scene {
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
}

/// A legend, unless there is a single series without a name.
pub fn legend<'a>(names: impl Iterator<Item = &'a String>, sample: impl Fn(usize) -> Sample) -> Vec<(String, Sample)> {
    let entries: Vec<(String, Sample)> =
        names.enumerate().map(|(number, name)| (name.clone(), sample(number))).collect();
    match entries.as_slice() {
        [(name, _)] if name.is_empty() => Vec::new(),
        _ => entries,
    }
}

//! Packets over time: a dot for each, and a cross for retransmissions.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::HashSet;

use serde::Serialize;

use super::Chart;
use super::axis::Axis;
use super::data::rounded;
use super::numbers::{Table, over_time};
use super::plot::{self, HEIGHT, Sample, WIDTH};
use super::scene::{Colour, Mark, Scene, colour};

/// Sequence plot.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct SequencePlot {
    /// Title of the plot.
    pub title: String,
    /// Label of the y axis, with its unit: `packet number`, `sequence number (KB)`.
    pub y_label: String,
    /// Series of the plot.
    pub series: Vec<SequenceSeries>,
}

/// Packets of one sender.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct SequenceSeries {
    /// Name of the series.
    pub name: String,
    /// Original transmissions: seconds, number.
    #[serde(serialize_with = "rounded")]
    pub sent: Vec<(f64, f64)>,
    /// Retransmissions: seconds, number.
    #[serde(serialize_with = "rounded")]
    pub retransmitted: Vec<(f64, f64)>,
}

const DOT: f64 = 2.0;
const CROSS: f64 = 4.0;

impl Chart for SequencePlot {
    fn scene(&self, colours: &[usize]) -> Scene {
        let place = |number: usize| colours.get(number).copied().unwrap_or(number);
        let dot_colour = |number: usize| dot_colour(place(number));
        let again = self.again_colours(&place);
        let mut legend = Vec::new();
        for (number, series) in self.series.iter().enumerate() {
            if !series.sent.is_empty() || series.retransmitted.is_empty() {
                legend.push((named(&series.name, "sent"), Sample::Mark(Mark::Circle, DOT + 1.0, dot_colour(number))));
            }
            if !series.retransmitted.is_empty() {
                let sample = Sample::Mark(Mark::Cross, CROSS, again[number]);
                legend.push((named(&series.name, "retransmitted"), sample));
            }
        }
        let points = || self.series.iter().flat_map(|series| series.sent.iter().chain(&series.retransmitted));
        let end = points().map(|point| point.0).fold(0.0, f64::max);
        let largest = points().map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let least = points().map(|point| point.1).filter(|y| y.is_finite()).fold(largest, f64::min);
        let x_axis = Axis::tight(0.0, end, 10);
        let y_axis = Axis::round(least.min(largest * 0.1), largest, 8);

        let mut scene = Scene::new(WIDTH, HEIGHT);
        plot::head(&mut scene, &self.title, &legend);
        let head = plot::head_height(&legend);
        let frame = plot::axes(&mut scene, head, (&x_axis, "time (s)"), (&y_axis, &self.y_label));
        let at = |&(time, number): &(f64, f64)| (frame.x(&x_axis, time), frame.y(&y_axis, number));
        for (number, series) in self.series.iter().enumerate() {
            for point in visible(series.sent.iter().map(at)) {
                scene.mark(Mark::Circle, point, DOT, dot_colour(number));
            }
        }
        // Drawn above all dots, since readers look for them.
        for (series, colour) in self.series.iter().zip(again) {
            for point in visible(series.retransmitted.iter().map(at)) {
                scene.mark(Mark::Cross, point, CROSS, colour);
            }
        }
        scene
    }

    fn table(&self) -> Table {
        let series = self.series.iter().flat_map(|series| {
            let part = |what| named(&series.name, what);
            [(part("sent"), &*series.sent), (part("retransmitted"), &*series.retransmitted)]
        });
        over_time(&self.y_label, series)
    }

    fn series_names(&self) -> Vec<&String> {
        self.series.iter().map(|series| &series.name).collect()
    }
}

impl SequencePlot {
    /// Returns the colours of each series' crosses: first those that no dots of this plot have, then those that no
    /// other crosses have.
    fn again_colours(&self, place: &impl Fn(usize) -> usize) -> Vec<Colour> {
        let dotted = self.series.iter().enumerate().filter(|(_, series)| !series.sent.is_empty());
        let dots: Vec<usize> = dotted.map(|(number, _)| palette(place(number))).collect();
        let mut crosses: Vec<usize> = Vec::new();
        let cross = |series: &SequenceSeries| {
            let unused = |number: &usize| !crosses.contains(number);
            let free = CROSSES.into_iter().filter(unused).find(|number| !dots.contains(number));
            let free = free.or_else(|| CROSSES.into_iter().find(unused)).unwrap_or(CROSSES[0]);
            if !series.retransmitted.is_empty() {
                crosses.push(free);
            }
            colour(free)
        };
        self.series.iter().map(cross).collect()
    }
}

/// Order in which crosses take colours: the first three series of dots have the others.
const CROSSES: [usize; 6] = [5, 3, 1, 4, 2, 0];

/// Returns every second one of six colours for the first three series, and then the colours in between.
pub(super) const fn dot_colour(series: usize) -> Colour {
    colour(palette(series))
}

/// Returns the index of [`dot_colour`] among the six colours.
pub(super) const fn palette(series: usize) -> usize {
    (series * 2 + series / 3) % 6
}

pub(super) fn named(name: &str, what: &str) -> String {
    if name.is_empty() { what.to_owned() } else { format!("{name}, {what}") }
}

/// Removes points that another one hides: a transfer has thousands, and each is an element of the SVG.
fn visible(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut taken = HashSet::new();
    points.filter(|(x, y)| taken.insert((x.round() as i32, y.round() as i32))).collect()
}

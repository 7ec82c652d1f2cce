//! Bar charts with one group per scheme and one bar per series. Bars are horizontal because names of schemes are long.

use serde::Serialize;

use super::Chart;
use super::axis::Axis;
use super::font::text_width;
use super::numbers::{Table, estimate};
use super::plot::{self, Frame, Sample, number};
use super::scene::{Align, Colour, Group, Run, Scene, colour};

/// Bar chart.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// Label of the bars' values, with the unit: `throughput (Mbps)`.
    pub value_label: String,
    /// Names of the groups, from the top.
    pub groups: Vec<String>,
    /// Series, each with one bar per group.
    pub series: Vec<BarSeries>,
}

/// One bar of each group.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct BarSeries {
    /// Name of the series, such as `LAN, 8 KB`.
    pub name: String,
    /// Bars, one per group; `None` if there is no number.
    pub bars: Vec<Option<Bar>>,
}

/// Bar of a [`BarChart`].
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Bar {
    /// Measured number.
    pub value: f64,
    /// Half of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// Published number.
    pub published: Option<f64>,
}

const NAME_SIZE: f64 = 13.0;
const LEAST_THICKNESS: f64 = 9.0;
const MOST_THICKNESS: f64 = 24.0;
/// Share of a group's height that its bars fill.
const FILL: f64 = 0.78;

impl Chart for BarChart {
    fn scene(&self, _: &[usize]) -> Scene {
        let legend = self.legend();
        let head = plot::head_height(&legend);
        let bars = self.series.len().max(1) as f64;
        let groups = self.groups.len().max(1) as f64;
        // As high as other figures, unless bars would become too thin or too thick.
        let around = head + plot::foot_height();
        let usual = (f64::from(plot::HEIGHT) - around) * FILL / (groups * bars);
        let thickness = usual.clamp(LEAST_THICKNESS, MOST_THICKNESS);
        let height = (around + groups * bars * thickness / FILL).ceil();

        let mut scene = Scene::new(plot::WIDTH, height as u32);
        plot::head(&mut scene, &self.title, &legend);
        let names = self.groups.iter().map(|name| text_width(name, NAME_SIZE)).fold(0.0, f64::max);
        let frame = Frame {
            left: 22.0 + names + 10.0,
            right: f64::from(plot::WIDTH) - 30.0,
            top: head,
            bottom: height - plot::foot_height(),
        };
        let axis = Axis::round(0.0, self.largest(), 8);
        plot::x_axis_below(&mut scene, &frame, &axis, &self.value_label);
        let slot = (frame.bottom - frame.top) / groups;
        for (group, name) in self.groups.iter().enumerate() {
            let middle = frame.top + slot * (group as f64 + 0.5);
            scene.text((frame.left - 8.0, middle), name, NAME_SIZE, Align::Right, Run::Across);
            self.draw_group(&mut scene, &frame, &axis, group, middle);
        }
        scene.path(vec![(frame.left, frame.top), (frame.left, frame.bottom)], Colour::Ink, 1.0);
        scene
    }

    fn table(&self) -> Table {
        let has_published: Vec<bool> =
            self.series.iter().map(|series| series.bars.iter().flatten().any(|bar| bar.published.is_some())).collect();
        let mut headings = vec!["group".to_owned()];
        for (series, published) in self.series.iter().zip(&has_published) {
            headings.push(if series.name.is_empty() { self.value_label.clone() } else { series.name.clone() });
            headings.extend(published.then(|| "published".to_owned()));
        }
        let row = |(index, group): (usize, &String)| {
            let mut row = vec![group.clone()];
            for (series, published) in self.series.iter().zip(&has_published) {
                let bar = series.bars.get(index).copied().flatten();
                row.push(bar.map_or(String::new(), |bar| estimate(bar.value, bar.ci95)));
                let there = bar.and_then(|bar| bar.published).map_or(String::new(), number);
                row.extend(published.then_some(there));
            }
            row
        };
        (headings, self.groups.iter().enumerate().map(row).collect())
    }
}

impl BarChart {
    fn draw_group(&self, scene: &mut Scene, frame: &Frame, axis: &Axis, group: usize, middle: f64) {
        let slot = (frame.bottom - frame.top) / self.groups.len() as f64;
        let thickness = slot * FILL / self.series.len() as f64;
        let top = middle - thickness * self.series.len() as f64 / 2.0;
        for (number, series) in self.series.iter().enumerate() {
            let Some(bar) = series.bars.get(group).copied().flatten() else { continue };
            let name = if series.name.is_empty() { String::new() } else { format!(", {}", series.name) };
            let words = plot::number_words(bar.value, bar.ci95, bar.published);
            let words = format!("{}{name}: {words}", self.groups[group]);
            scene.group(Group::Datum(words), |scene| {
                draw_bar(scene, (frame, axis), (top + number as f64 * thickness, thickness), bar, colour(number));
            });
        }
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.series.iter().flat_map(|series| series.bars.iter().flatten())
    }

    fn largest(&self) -> f64 {
        self.bars()
            .map(|bar| (bar.value + bar.ci95.unwrap_or(0.0)).max(bar.published.unwrap_or(0.0)))
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max)
    }

    fn legend(&self) -> Vec<(String, Sample)> {
        let mut legend: Vec<(String, Sample)> = Vec::new();
        if self.series.len() > 1 || self.series.iter().any(|series| !series.name.is_empty()) {
            let series = self.series.iter().enumerate();
            legend.extend(series.map(|(number, series)| (series.name.clone(), Sample::Box(colour(number)))));
        }
        if self.bars().any(|bar| bar.published.is_some()) {
            legend.push(("published".to_owned(), Sample::Published));
        }
        legend
    }
}

/// Draws a bar below `upper`.
fn draw_bar(
    scene: &mut Scene,
    (frame, axis): (&Frame, &Axis),
    (upper, thickness): (f64, f64),
    bar: Bar,
    colour: Colour,
) {
    let centre = upper + thickness / 2.0;
    // Leave a gap of a unit between the bars of a group.
    let end = frame.x(axis, bar.value.max(0.0));
    scene.fill((frame.left, upper + 0.5), (end, upper + thickness - 0.5), colour);
    if let Some(ci) = bar.ci95 {
        let (low, high) = (frame.x(axis, (bar.value - ci).max(0.0)), frame.x(axis, bar.value + ci));
        let cap = (thickness * 0.25).min(4.0);
        scene.path(vec![(low, centre), (high, centre)], Colour::Ink, 1.0);
        for x in [low, high] {
            scene.path(vec![(x, centre - cap), (x, centre + cap)], Colour::Ink, 1.0);
        }
    }
    if let Some(published) = bar.published {
        plot::published_sign(scene, (frame.x(axis, published), centre), Colour::Ink);
    }
}

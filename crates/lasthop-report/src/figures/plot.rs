//! Common parts of figures: title, legend, axes, and the area between them.

use super::axis::Axis;
use super::font::text_width;
use super::scene::{Align, Colour, Mark, Point, Run, Scene};

/// Width of a figure in units.
pub const WIDTH: u32 = 900;
/// Height of a figure in units; bar charts with many bars are higher.
pub const HEIGHT: u32 = 540;

const MARGIN: f64 = 22.0;
const TITLE_SIZE: f64 = 17.0;
const TITLE_HEIGHT: f64 = 38.0;
/// Font size of legend and axis titles.
const LABEL_SIZE: f64 = 14.0;
/// Font size of the numbers at the axes.
const TICK_SIZE: f64 = 13.0;
const LEGEND_LINE: f64 = 22.0;
const LEGEND_SAMPLE: f64 = 24.0;
const LEGEND_GAP: f64 = 24.0;
const X_AXIS_HEIGHT: f64 = 64.0;

/// Sample of a series in a legend.
#[derive(Clone, Copy)]
pub enum Sample {
    /// Filled box.
    Box(Colour),
    /// Mark.
    Mark(Mark, f64, Colour),
    /// Line.
    Line(Colour),
    /// Line with a mark.
    LineAndMark(Mark, Colour),
    /// Sign for published numbers.
    Published,
}

/// Area between the axes.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// Returns the x coordinate of a value.
    pub fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + (self.right - self.left) * axis.position(value)
    }

    /// Returns the y coordinate of a value.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * axis.position(value)
    }
}

/// Returns the height of title and legend together.
pub fn head_height(legend: &[(String, Sample)]) -> f64 {
    let lines = legend_lines(legend);
    TITLE_HEIGHT + if lines.is_empty() { 10.0 } else { lines.len() as f64 * LEGEND_LINE + 14.0 }
}

/// Returns the height of the x axis with its numbers and title.
pub const fn foot_height() -> f64 {
    X_AXIS_HEIGHT
}

/// Draws title and legend.
pub fn head(scene: &mut Scene, title: &str, legend: &[(String, Sample)]) {
    scene.text((MARGIN, MARGIN), title, TITLE_SIZE, Align::Left, Run::Across);
    for (number, line) in legend_lines(legend).iter().enumerate() {
        let y = TITLE_HEIGHT + (number as f64 + 0.5) * LEGEND_LINE;
        for &(entry, x) in line {
            let (name, sample) = &legend[entry];
            draw_sample(scene, *sample, (x, y));
            scene.text((x + LEGEND_SAMPLE + 6.0, y), name, LABEL_SIZE, Align::Left, Run::Across);
        }
    }
}

/// Arranges the entries of the legend in lines: index and x coordinate of each.
fn legend_lines(legend: &[(String, Sample)]) -> Vec<Vec<(usize, f64)>> {
    let mut lines: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut x = MARGIN;
    for (entry, (name, _)) in legend.iter().enumerate() {
        let width = LEGEND_SAMPLE + 6.0 + text_width(name, LABEL_SIZE) + LEGEND_GAP;
        if lines.is_empty() || x + width - LEGEND_GAP > f64::from(WIDTH) - MARGIN {
            lines.push(Vec::new());
            x = MARGIN;
        }
        lines.last_mut().expect("a line was just added").push((entry, x));
        x += width;
    }
    lines
}

fn draw_sample(scene: &mut Scene, sample: Sample, (x, y): Point) {
    let middle = (x + LEGEND_SAMPLE / 2.0, y);
    let line = vec![(x, y), (x + LEGEND_SAMPLE, y)];
    match sample {
        Sample::Box(colour) => scene.fill((x + 4.0, y - 6.0), (x + LEGEND_SAMPLE - 2.0, y + 6.0), colour),
        Sample::Mark(mark, size, colour) => scene.mark(mark, middle, size, colour),
        Sample::Line(colour) => scene.path(line, colour, 2.5),
        Sample::LineAndMark(mark, colour) => {
            scene.path(line, colour, 2.0);
            scene.mark(mark, middle, 4.5, colour);
        }
        Sample::Published => published_sign(scene, middle, Colour::Ink),
    }
}

/// Draws the sign for a published number: a hollow diamond, visible on any colour; in ink, or in the colour of its
/// line.
pub fn published_sign(scene: &mut Scene, at: Point, colour: Colour) {
    scene.mark(Mark::Diamond, at, 4.5, colour);
    scene.mark(Mark::Diamond, at, 2.5, Colour::Paper);
}

/// Draws both axes of an x-y plot with their grid, below `head`, and returns the area between them.
pub fn axes(scene: &mut Scene, head: f64, (x_axis, x_title): (&Axis, &str), (y_axis, y_title): (&Axis, &str)) -> Frame {
    let numbers = y_axis.ticks.iter().map(|(_, label)| text_width(label, TICK_SIZE)).fold(0.0, f64::max);
    let frame = Frame {
        left: MARGIN + LABEL_SIZE + 12.0 + numbers,
        right: f64::from(WIDTH) - MARGIN - 6.0,
        top: head,
        bottom: f64::from(HEIGHT) - X_AXIS_HEIGHT,
    };
    for (value, label) in &y_axis.ticks {
        let y = frame.y(y_axis, *value);
        scene.path(vec![(frame.left, y), (frame.right, y)], Colour::Grid, 1.0);
        scene.text((frame.left - 8.0, y), label, TICK_SIZE, Align::Right, Run::Across);
    }
    let middle = (MARGIN, (frame.top + frame.bottom) / 2.0);
    scene.text(middle, y_title, LABEL_SIZE, Align::Centre, Run::Upwards);
    scene.path(vec![(frame.left, frame.top), (frame.left, frame.bottom)], Colour::Ink, 1.0);
    x_axis_below(scene, &frame, x_axis, x_title);
    frame
}

/// Draws an x axis with its grid.
pub fn x_axis_below(scene: &mut Scene, frame: &Frame, axis: &Axis, title: &str) {
    for (value, label) in &axis.ticks {
        let x = frame.x(axis, *value);
        scene.path(vec![(x, frame.top), (x, frame.bottom)], Colour::Grid, 1.0);
        scene.path(vec![(x, frame.bottom), (x, frame.bottom + 5.0)], Colour::Ink, 1.0);
        scene.text((x, frame.bottom + 16.0), label, TICK_SIZE, Align::Centre, Run::Across);
    }
    scene.path(vec![(frame.left, frame.bottom), (frame.right, frame.bottom)], Colour::Ink, 1.0);
    let middle = ((frame.left + frame.right) / 2.0, frame.bottom + 42.0);
    scene.text(middle, title, LABEL_SIZE, Align::Centre, Run::Across);
}

/// Draws a vertical error bar with caps.
pub fn error_bar(scene: &mut Scene, x: f64, low: f64, high: f64, colour: Colour) {
    scene.path(vec![(x, low), (x, high)], colour, 1.5);
    for y in [low, high] {
        scene.path(vec![(x - 4.0, y), (x + 4.0, y)], colour, 1.5);
    }
}

/// Describes a number: `1.39 ± 0.02, published 1.4`.
pub fn number_words(value: f64, ci95: Option<f64>, published: Option<f64>) -> String {
    let around = ci95.map_or(String::new(), |ci| format!(" ± {}", number(ci)));
    let published = published.map_or(String::new(), |published| format!(", published {}", number(published)));
    format!("{}{around}{published}", number(value))
}

/// Formats a number with at most three decimals.
pub fn number(value: f64) -> String {
    super::axis::number(value, 3)
}

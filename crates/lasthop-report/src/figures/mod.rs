//! Figures as SVG and PNG, drawn from plain data: a chart lays out a scene of shapes, which is written in either format.
//!
//! Colours are those of Okabe and Ito, which are distinguishable with colour vision deficiency; series differ by mark
//! as well.

mod axis;
mod bars;
mod data;
mod font;
mod lines;
mod numbers;
mod plot;
mod raster;
mod scene;
mod sequence;
mod svg;
mod thinned;
mod trace_series;

pub use axis::Scale;
pub use bars::{Bar, BarChart, BarSeries};
pub use lines::{LineChart, LinePoint, LineSeries, StepSeries, WindowPlot};
pub use numbers::Numbers;
pub use sequence::{SequencePlot, SequenceSeries};
pub use trace_series::{TransferCollector, TransferSeries, sequence_series, transfer_series, window_series};

use serde::Serialize;

use crate::error::ReportError;
use numbers::Table;
use scene::Scene;
use svg::Root;

/// Numbers of colours by the names of series, so that a name has one colour in several plots.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Colours(Vec<String>);

impl Colours {
    /// Returns the colour of each series of a figure; a new name gets the next colour.
    pub fn of(&mut self, figure: &Figure) -> Vec<usize> {
        let mut number = |name: &String| {
            self.0.iter().position(|known| known == name).unwrap_or_else(|| {
                self.0.push(name.clone());
                self.0.len() - 1
            })
        };
        figure.series_names().into_iter().map(&mut number).collect()
    }

    /// Returns the colours of each figure's series, like [`Colours::of`], for figures on one page: a name has the same
    /// colour in all of them, and names in one figure have different colours as long as there are enough.
    pub fn across(figures: &[&Figure]) -> Vec<Vec<usize>> {
        let names: Vec<Vec<&String>> = figures.iter().map(|figure| figure.series_names()).collect();
        let mut largest_first: Vec<usize> = (0..names.len()).collect();
        largest_first.sort_by_key(|at| std::cmp::Reverse(names[*at].len()));
        let mut colours: Vec<(&String, usize)> = Vec::new();
        for name in largest_first.iter().flat_map(|at| &names[*at]) {
            if colours.iter().any(|(known, _)| known == name) {
                continue;
            }
            let beside = names.iter().filter(|group| group.contains(name)).flatten();
            let taken: Vec<usize> =
                beside.filter_map(|other| colours.iter().find(|(known, _)| known == other).map(|it| it.1)).collect();
            let free = (0..).find(|number| !taken.contains(number)).unwrap_or_default();
            colours.push((name, free));
        }
        let of = |name: &&String| colours.iter().find(|(known, _)| known == name).map_or(0, |it| it.1);
        names.iter().map(|group| group.iter().map(of).collect()).collect()
    }
}

/// Chart of one kind.
trait Chart {
    /// Draws the chart; `colours` are the [`Colours`] of its series that are dots or lines. The index of a series is its
    /// colour number if `colours` has none for it.
    fn scene(&self, colours: &[usize]) -> Scene;

    /// Returns all numbers of the chart.
    fn table(&self) -> Table;

    /// Returns the names of the series, in order, if these are dots or lines.
    fn series_names(&self) -> Vec<&String> {
        Vec::new()
    }
}

/// Figure. As JSON, its `kind` is `bars`, `sequence`, `window` or `lines`, in addition to the fields of the chart, as
/// the pages' script expects it ([`crate::charts`]).
#[derive(Clone, PartialEq, Serialize, Debug)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Figure {
    /// Bars by group and series.
    Bars(BarChart),
    /// Packets over time.
    Sequence(SequencePlot),
    /// Windows over time.
    Window(WindowPlot),
    /// Lines with error bars.
    Lines(LineChart),
}

/// Renders figures of the same size as one SVG document, one below the other.
pub fn render_svg_stack(figures: &[Figure]) -> String {
    let scenes: Vec<Scene> = figures.iter().map(|figure| figure.scene(&[])).collect();
    svg::stack(&scenes)
}

impl Figure {
    /// Renders the figure as an SVG document.
    pub fn render_svg(&self) -> String {
        self.render_svg_in(&[])
    }

    /// Renders the figure as an SVG document, with these [`Colours`] for series that are dots or lines.
    pub fn render_svg_in(&self, colours: &[usize]) -> String {
        svg::render(&self.scene(colours), &Root::Document)
    }

    /// Renders the figure as an `svg` element for a page, with `alt` as its description and these [`Colours`].
    pub fn render_svg_element(&self, alt: &str, colours: &[usize]) -> String {
        svg::render(&self.scene(colours), &Root::Element { alt })
    }

    /// Renders the figure as a PNG image, with two pixels per unit of the SVG.
    ///
    /// # Errors
    ///
    /// Returns an error if the image is too large.
    pub fn render_png(&self) -> Result<Vec<u8>, ReportError> {
        self.render_png_in(&[])
    }

    /// Renders the figure as a PNG image, with these [`Colours`] for series that are dots or lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the image is too large.
    pub fn render_png_in(&self, colours: &[usize]) -> Result<Vec<u8>, ReportError> {
        raster::render(&self.scene(colours))
    }

    /// Returns the names of the figure's series, in order, if these are dots or lines.
    pub fn series_names(&self) -> Vec<&String> {
        self.chart().series_names()
    }

    fn scene(&self, colours: &[usize]) -> Scene {
        self.chart().scene(colours)
    }

    fn chart(&self) -> &dyn Chart {
        match self {
            Self::Bars(chart) => chart,
            Self::Sequence(plot) => plot,
            Self::Window(plot) => plot,
            Self::Lines(chart) => chart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base station has packets of its own but no window; the scheme after it nevertheless has its colour in both
    /// plots.
    #[test]
    fn a_name_has_one_colour_in_all_plots() {
        let packets_of = |name: &str| SequenceSeries {
            name: name.to_owned(),
            sent: vec![(0.0, 1.0), (1.0, 2.0)],
            retransmitted: Vec::new(),
        };
        let steps = |name: &str| StepSeries { name: name.to_owned(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let sequences = ["A", "A, base station", "B"].map(packets_of).to_vec();
        let (title, y_label) = ("plot".to_owned(), "KB".to_owned());
        let packets =
            Figure::Sequence(SequencePlot { title: title.clone(), y_label: y_label.clone(), series: sequences });
        let window = |names: &[&str]| {
            let series = names.iter().map(|name| steps(name)).collect();
            Figure::Window(WindowPlot { title: title.clone(), y_label: y_label.clone(), series })
        };
        let mut colours = Colours::default();
        assert_eq!(colours.of(&packets), [0, 1, 2]);
        let both = window(&["A", "B"]);
        let of_both = colours.of(&both);
        assert_eq!(of_both, [0, 2]);
        // In the images, the dots of B in one have the colour of the line of B in the other.
        let b = svg::rgb(sequence::dot_colour(2));
        assert!(packets.render_svg_in(&[0, 1, 2]).contains(&b));
        assert!(both.render_svg_in(&of_both).contains(&b));
        assert!(!both.render_svg().contains(&b), "by place it had another");
        // By index, dots and lines use the colours in the same order.
        let second = svg::rgb(sequence::dot_colour(1));
        let two = window(&["A", "B"]);
        assert!(two.render_svg().contains(&second));
        // Without colours, plots do not change.
        assert_eq!(packets.render_svg(), packets.render_svg_in(&[]));
    }

    #[test]
    fn a_name_has_one_colour_on_a_page_and_differs_from_those_beside_it() {
        let lines = |names: &[&str]| {
            let series = names.iter().map(|name| LineSeries { name: (*name).to_owned(), points: Vec::new() }).collect();
            let [title, x_label, y_label] = ["lines", "x", "y"].map(str::to_owned);
            Figure::Lines(LineChart { title, x_label, y_label, x_scale: Scale::Log, series })
        };
        let window = |names: &[&str]| {
            let series = names.iter().map(|name| StepSeries { name: (*name).to_owned(), points: Vec::new() }).collect();
            Figure::Window(WindowPlot { title: "window".to_owned(), y_label: "KB".to_owned(), series })
        };
        let figures = [window(&["B", "X"]), window(&["Y", "A"]), lines(&["A", "B", "C", "D", "E"])];
        let colours = Colours::across(&figures.each_ref());
        assert_eq!(colours, [vec![1, 0], vec![1, 0], vec![0, 1, 2, 3, 4]]);
        let palette: Vec<usize> = colours[2].iter().map(|number| sequence::palette(*number)).collect();
        assert_eq!(palette, [0, 2, 4, 1, 3], "five places among six colours");
    }
}

//! Figures as SVG and PNG, drawn from plain data.
//!
//! Colours are those of Okabe and Ito, which colour-blind people can tell apart; series differ by mark as well.

mod axis;
mod bars;
mod data;
mod lines;
mod plot;
mod scene;
mod sequence;
mod thinned;
mod trace_series;

pub use axis::Scale;
pub use bars::{Bar, BarChart, BarSeries};
pub use lines::{LineChart, LinePoint, LineSeries, StepSeries, WindowPlot};
pub use sequence::{SequencePlot, SequenceSeries};
pub use trace_series::{TransferCollector, TransferSeries, sequence_series, transfer_series, window_series};

use serde::Serialize;

use crate::error::ReportError;
use scene::Scene;

/// A figure. As JSON, its `kind` is `bars`, `sequence`, `window` or `lines`, beside the fields of the chart: what the script
/// of the pages draws ([`crate::charts`]).
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

/// Figures of the same size as one SVG document, one below the other.
///
/// # Errors
///
/// When the drawing library refuses one.
pub fn render_svg_stack(figures: &[Figure]) -> Result<String, ReportError> {
    let scenes: Vec<Scene> = figures.iter().map(Figure::scene).collect();
    scene::stack(&scenes)
}

impl Figure {
    /// The figure as an SVG document.
    ///
    /// # Errors
    ///
    /// When the drawing library refuses it.
    pub fn render_svg(&self) -> Result<String, ReportError> {
        self.scene().svg(&scene::DOCUMENT)
    }

    /// The figure as an `svg` element to be set into a page, with `alt` as its description.
    ///
    /// # Errors
    ///
    /// When the drawing library refuses it.
    pub fn render_svg_element(&self, alt: &str) -> Result<String, ReportError> {
        self.scene().svg(&scene::Root::Element { alt })
    }

    /// The figure as a PNG image, two pixels to a unit of the SVG.
    ///
    /// # Errors
    ///
    /// When the drawing library refuses it.
    pub fn render_png(&self) -> Result<Vec<u8>, ReportError> {
        self.scene().png()
    }

    fn scene(&self) -> Scene {
        match self {
            Self::Bars(chart) => chart.scene(),
            Self::Sequence(plot) => plot.scene(),
            Self::Window(plot) => plot.scene(),
            Self::Lines(chart) => chart.scene(),
        }
    }
}

//! Figures of results.

use lasthop_report::figures::{Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale};
use pyo3::prelude::*;

/// Mean, and half of its 95 % interval.
type Estimate = (f64, Option<f64>);

/// Draws a bar per group and series.
#[pyfunction]
pub fn bars_svg(
    title: String,
    value_label: String,
    groups: Vec<String>,
    series: Vec<(String, Vec<Option<Estimate>>)>,
) -> String {
    let bar = |(value, ci95)| Bar { value, ci95, published: None };
    let series = series
        .into_iter()
        .map(|(name, bars)| BarSeries { name, bars: bars.into_iter().map(|one| one.map(bar)).collect() })
        .collect();
    Figure::Bars(BarChart { title, value_label, groups, series }).render_svg()
}

/// Draws a line through the points of each series, in order of x.
#[pyfunction]
pub fn lines_svg(
    title: String,
    x_label: String,
    y_label: String,
    is_log: bool,
    series: Vec<(String, Vec<(f64, Estimate)>)>,
) -> String {
    let x_scale = if is_log { Scale::Log } else { Scale::Linear };
    let point = |(x, (y, ci95))| LinePoint { x, y, ci95, published: None };
    let series = series
        .into_iter()
        .map(|(name, points)| LineSeries { name, points: points.into_iter().map(point).collect() })
        .collect();
    Figure::Lines(LineChart { title, x_label, y_label, x_scale, series }).render_svg()
}

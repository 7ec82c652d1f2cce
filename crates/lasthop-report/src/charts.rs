//! Scripts and styles that draw [figures](crate::figures) on a page: uPlot, and a script around it that takes a figure
//! as JSON.

/// Chart library uPlot (MIT), as a script that defines `uPlot`.
pub const UPLOT_SCRIPT: &str = include_str!("../assets/charts/uPlot.iife.min.js");

/// Style sheet of the chart library.
pub const UPLOT_STYLE: &str = include_str!("../assets/charts/uPlot.min.css");

/// Script that draws figures: an ES module that exports `drawFigure` and needs `uPlot` to be defined.
pub const CHARTS_SCRIPT: &str = include_str!("../assets/charts/charts.js");

/// Style sheet for the output of that script.
pub const CHARTS_STYLE: &str = include_str!("../assets/charts/charts.css");

/// Serializes `value` as JSON for a `script` element: it contains neither an end tag nor the beginning of a comment.
///
/// # Errors
///
/// Returns an error if `value` cannot be serialized as JSON.
pub fn json_for_script(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

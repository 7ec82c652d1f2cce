//! What draws [figures](crate::figures) on a page: uPlot and a script around it that takes a figure as JSON.

/// The chart library, uPlot (MIT), as a script that defines `uPlot`.
pub const UPLOT_SCRIPT: &str = include_str!("../assets/charts/uPlot.iife.min.js");

/// The chart library's style sheet.
pub const UPLOT_STYLE: &str = include_str!("../assets/charts/uPlot.min.css");

/// The script that draws figures: an ES module that exports `drawFigure` and needs `uPlot` to be defined.
pub const CHARTS_SCRIPT: &str = include_str!("../assets/charts/charts.js");

/// The style of what that script makes.
pub const CHARTS_STYLE: &str = include_str!("../assets/charts/charts.css");

/// `value` as JSON that can stand in a `script` element: no end tag, and no beginning of a comment, can occur in it.
///
/// # Errors
///
/// When `value` cannot be JSON.
pub fn json_for_script(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

//! Style of [figures](crate::figures) on a page. For pages whose figures change, also a script that draws them: uPlot, and
//! a script around it that takes a figure as JSON.

/// Style sheet for figures: their colours, light and dark, and the tables of their numbers.
pub const FIGURES_STYLE: &str = include_str!("../assets/charts/figures.css");

/// Chart library uPlot (MIT), as a script that defines `uPlot`.
pub const UPLOT_SCRIPT: &str = include_str!("../assets/charts/uPlot.iife.min.js");

/// Style sheet of the chart library.
pub const UPLOT_STYLE: &str = include_str!("../assets/charts/uPlot.min.css");

/// Script that draws figures: an ES module that exports `drawFigure` and needs `uPlot` to be defined.
pub const CHARTS_SCRIPT: &str = include_str!("../assets/charts/charts.js");

/// Style sheet for the output of that script.
pub const CHARTS_STYLE: &str =
    concat!(include_str!("../assets/charts/figures.css"), include_str!("../assets/charts/charts.css"));

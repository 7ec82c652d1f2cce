//! Files of the pages, embedded in the binary.

use lasthop_report::charts::{CHARTS_SCRIPT, CHARTS_STYLE, UPLOT_SCRIPT, UPLOT_STYLE};

/// File of a page.
pub(crate) struct Asset {
    pub path: &'static str,
    pub media_type: &'static str,
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const fn asset(path: &'static str, media_type: &'static str, text: &'static str) -> Asset {
    Asset { path, media_type, text }
}

const ICON: Asset = asset("/icon.svg", SVG, include_str!("../web/icon.svg"));
const STYLE: Asset = asset("/style.css", CSS, include_str!("../web/style.css"));
const CHARTS_CSS: Asset = asset("/charts.css", CSS, CHARTS_STYLE);
const UPLOT_CSS: Asset = asset("/uplot.css", CSS, UPLOT_STYLE);
const UPLOT: Asset = asset("/uplot.js", SCRIPT, UPLOT_SCRIPT);
const CHARTS: Asset = asset("/charts.js", SCRIPT, CHARTS_SCRIPT);
const SERVER: Asset = asset("/server.js", SCRIPT, include_str!("../web/server.js"));
const TRANSPORT: Asset = asset("/transport.js", SCRIPT, include_str!("../web/transport.js"));
const DOM: Asset = asset("/dom.js", SCRIPT, include_str!("../web/dom.js"));

/// All files of the pages of simulations.
pub(crate) static ASSETS: [Asset; 29] = [
    asset("/", HTML, include_str!("../web/index.html")),
    asset("/diagram.css", CSS, include_str!("../web/diagram.css")),
    ICON,
    STYLE,
    CHARTS_CSS,
    UPLOT_CSS,
    UPLOT,
    CHARTS,
    DOM,
    SERVER,
    TRANSPORT,
    asset("/app.js", SCRIPT, include_str!("../web/app.js")),
    asset("/link.js", SCRIPT, include_str!("../web/link.js")),
    asset("/controls.js", SCRIPT, include_str!("../web/controls.js")),
    asset("/results.js", SCRIPT, include_str!("../web/results.js")),
    asset("/diagram.js", SCRIPT, include_str!("../web/diagram.js")),
    asset("/picture.js", SCRIPT, include_str!("../web/picture.js")),
    asset("/tour.js", SCRIPT, include_str!("../web/tour.js")),
    asset("/picture.css", CSS, include_str!("../web/picture.css")),
    asset("/player.js", SCRIPT, include_str!("../web/player.js")),
    asset("/cure", HTML, include_str!("../web/cure.html")),
    asset("/cure.css", CSS, include_str!("../web/cure.css")),
    asset("/cure.js", SCRIPT, include_str!("../web/cure.js")),
    asset("/cure-files.js", SCRIPT, include_str!("../web/cure-files.js")),
    asset("/cure-state.js", SCRIPT, include_str!("../web/cure-state.js")),
    asset("/cure-views.js", SCRIPT, include_str!("../web/cure-views.js")),
    asset("/atlas", HTML, include_str!("../web/atlas.html")),
    asset("/atlas.css", CSS, include_str!("../web/atlas.css")),
    asset("/atlas.js", SCRIPT, include_str!("../web/atlas.js")),
];

/// All files of the page of running daemons.
pub(crate) static STATUS_ASSETS: [Asset; 14] = [
    asset("/", HTML, include_str!("../web/status.html")),
    asset("/status.css", CSS, include_str!("../web/status.css")),
    asset("/status.js", SCRIPT, include_str!("../web/status.js")),
    asset("/status-views.js", SCRIPT, include_str!("../web/status-views.js")),
    asset("/status-history.js", SCRIPT, include_str!("../web/status-history.js")),
    ICON,
    STYLE,
    CHARTS_CSS,
    UPLOT_CSS,
    UPLOT,
    CHARTS,
    DOM,
    SERVER,
    TRANSPORT,
];

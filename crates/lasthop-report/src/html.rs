//! A study as one page that needs nothing else: no network, and scripts only to draw its figures. Without them it shows pictures.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::charts::{CHARTS_SCRIPT, CHARTS_STYLE, UPLOT_SCRIPT, UPLOT_STYLE, json_for_script};
use crate::error::ReportError;
use crate::figures::Figure;
use crate::markup::escape;
use crate::pivot::{self, Line, Pivot, Published, Runs};
use crate::study::{Claim, Deviation, Holds, NamedFigure, Study, Table};

const TEMPLATE: &str = include_str!("../templates/index.html.j2");
const FIGURES_TEMPLATE: &str = include_str!("../templates/figures.html.j2");
const STYLE: &str = include_str!("../templates/style.css");

/// What is measured of something that is no study: tables of text, and figures.
#[derive(Clone, Debug)]
pub struct FigurePage {
    /// What it is about.
    pub title: String,
    /// A line under it.
    pub subtitle: String,
    /// What to mind.
    pub remarks: Vec<String>,
    /// The tables.
    pub tables: Vec<TextTable>,
    /// The figures.
    pub figures: Vec<NamedFigure>,
    /// A command that goes on from here.
    pub command: String,
}

/// A table of text; the first cell of a row is its name.
#[derive(Clone, Serialize, Debug)]
pub struct TextTable {
    /// Its name on the page: letters, digits and hyphens.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// One a column.
    pub headings: Vec<String>,
    /// The rows, with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct FiguresView<'a> {
    style: &'static str,
    title: &'a str,
    subtitle: &'a str,
    remarks: &'a [String],
    tables: &'a [TextTable],
    figures: Vec<FigureView<'a>>,
    charts: ChartsView,
    command: &'a str,
}

/// A page of tables and figures that needs nothing else.
///
/// # Errors
///
/// When a figure cannot be drawn.
pub fn figure_page(page: &FigurePage) -> Result<String, ReportError> {
    let FigurePage { title, subtitle, remarks, tables, figures, command } = page;
    let view = FiguresView {
        style: STYLE.trim_end(),
        title,
        subtitle,
        remarks,
        tables,
        figures: figure_views(figures)?,
        charts: charts_view(figures)?,
        command,
    };
    let mut environment = environment();
    environment.add_template("figures.html", FIGURES_TEMPLATE)?;
    Ok(environment.get_template("figures.html")?.render(Serde(&view))?)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // The engine's own escaping also replaces slashes, which would hide the names of cells from text search.
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escape(&text) })?)
    });
    environment
}

fn figure_views(figures: &[NamedFigure]) -> Result<Vec<FigureView<'_>>, ReportError> {
    let view = |figure: &'_ NamedFigure| figure.figure.render_svg_element(&figure.alt);
    let view =
        figures.iter().map(|figure| Ok(FigureView { id: &figure.id, caption: &figure.caption, svg: view(figure)? }));
    view.collect()
}

fn charts_view(figures: &[NamedFigure]) -> Result<ChartsView, ReportError> {
    let data = figures.iter().map(|named| FigureData { id: &named.id, alt: &named.alt, figure: &named.figure });
    Ok(ChartsView {
        styles: [UPLOT_STYLE, "\n", CHARTS_STYLE].concat(),
        library: UPLOT_SCRIPT.trim_end(),
        script: CHARTS_SCRIPT.trim_end(),
        figures: json_for_script(&data.collect::<Vec<_>>())?,
    })
}

/// The page that shows `study`.
///
/// # Errors
///
/// When a figure cannot be drawn.
pub fn index_html(study: &Study) -> Result<String, ReportError> {
    let mut environment = environment();
    environment.add_template("index.html", TEMPLATE)?;
    let page = Page::of(study)?;
    Ok(environment.get_template("index.html")?.render(Serde(&page))?)
}

#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    id: &'a str,
    title: &'a str,
    citation: &'a str,
    command: &'a str,
    held: usize,
    summaries: Vec<String>,
    notes: &'a [String],
    claims: Vec<ClaimView<'a>>,
    tables: Vec<TableView<'a>>,
    figures: Vec<FigureView<'a>>,
    charts: Option<ChartsView>,
}

/// What draws the figures.
#[derive(Serialize)]
struct ChartsView {
    styles: String,
    library: &'static str,
    script: &'static str,
    /// A list of [`FigureData`].
    figures: String,
}

#[derive(Serialize)]
struct FigureData<'a> {
    id: &'a str,
    alt: &'a str,
    figure: &'a Figure,
}

#[derive(Serialize)]
struct ClaimView<'a> {
    id: &'a str,
    text: &'a str,
    /// All of it, if it is short; otherwise `summary` and `comparisons` are there.
    evidence: Option<String>,
    summary: Option<String>,
    comparisons: Vec<ComparisonView<'a>>,
    class: &'static str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct ComparisonView<'a> {
    text: &'a str,
    missed: bool,
}

#[derive(Serialize)]
struct TableView<'a> {
    id: &'a str,
    title: String,
    /// Whether a column shows the runs of each line.
    shows_runs: bool,
    metrics: Vec<MetricView>,
    lines: Vec<LineView<'a>>,
}

#[derive(Serialize)]
struct MetricView {
    label: String,
    columns: usize,
    headings: Vec<&'static str>,
}

#[derive(Serialize)]
struct LineView<'a> {
    cell: &'a str,
    runs: u32,
    numbers: Vec<NumberView>,
}

#[derive(Serialize)]
struct NumberView {
    text: String,
    class: &'static str,
}

#[derive(Serialize)]
struct FigureView<'a> {
    id: &'a str,
    caption: &'a str,
    svg: String,
}

impl<'a> Page<'a> {
    fn of(study: &'a Study) -> Result<Self, ReportError> {
        let figures = figure_views(&study.figures)?;
        let charts = if figures.is_empty() { None } else { Some(charts_view(&study.figures)?) };
        Ok(Self {
            style: STYLE.trim_end(),
            id: &study.id,
            title: &study.title,
            citation: &study.citation,
            command: &study.command,
            held: study.claims.iter().filter(|claim| claim.holds == Holds::Yes).count(),
            summaries: study.summaries().iter().map(pivot::summary_text).collect(),
            notes: &study.notes,
            claims: study.claims.iter().map(ClaimView::of).collect(),
            tables: study.tables.iter().map(TableView::of).collect(),
            figures,
            charts,
        })
    }
}

impl<'a> ClaimView<'a> {
    fn of(claim: &'a Claim) -> Self {
        let (class, verdict) = match claim.holds {
            Holds::Yes => ("held", "✓ holds"),
            Holds::No => ("missed", "✗ missed"),
        };
        let summary = claim.summary();
        let evidence = summary.is_none().then(|| claim.evidence());
        let comparisons = claim
            .comparisons
            .iter()
            .map(|comparison| ComparisonView { text: &comparison.text, missed: comparison.holds == Holds::No });
        let comparisons = comparisons.filter(|_| summary.is_some()).collect();
        Self { id: &claim.id, text: &claim.text, evidence, summary, comparisons, class, verdict }
    }
}

impl<'a> TableView<'a> {
    fn of(table: &'a Table) -> Self {
        let pivot = Pivot::of(table);
        let metrics = pivot.metrics.iter().map(|metric| {
            let headings = match metric.published {
                Published::Some => vec!["published", "measured", "deviation"],
                Published::None => vec!["measured"],
            };
            let label = format!("{} ({})", pivot::metric_label(metric.name), pivot::unit_label(metric.unit));
            MetricView { label, columns: headings.len(), headings }
        });
        let metrics = metrics.collect();
        let lines = pivot.lines.iter().map(|line| LineView {
            cell: line.cell,
            runs: line.runs,
            numbers: numbers(&pivot, line),
        });
        let lines = lines.collect();
        let title = pivot::title_text(&table.title, pivot.runs);
        Self { id: &table.id, title, shows_runs: pivot.runs == Runs::Various, metrics, lines }
    }
}

fn numbers(pivot: &Pivot, line: &Line) -> Vec<NumberView> {
    let mut numbers = Vec::new();
    for (metric, row) in pivot.metrics.iter().zip(&line.numbers) {
        let mut push = |text: Option<String>, class| {
            numbers.push(NumberView { text: text.unwrap_or_default(), class });
        };
        let measured = row.map(pivot::measured_text);
        match metric.published {
            Published::Some => {
                let deviation = row.and_then(|row| row.deviation());
                push(row.map(pivot::published_text), "start");
                push(measured, "");
                push(
                    deviation.map(pivot::deviation_text),
                    if deviation.is_some_and(Deviation::is_far) { "far" } else { "" },
                );
            }
            Published::None => push(measured, "start"),
        }
    }
    numbers
}

//! A study as one self-contained page, which needs neither a network nor scripts.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::charts::FIGURES_STYLE;
use crate::error::ReportError;
use crate::figures::{Colours, Numbers};
use crate::markup::escape;
use crate::pivot::{self, Line, Pivot, Published, Runs};
use crate::study::{Claim, Deviation, FAR, Holds, MetricSummary, NamedFigure, Study, Table};

const TEMPLATE: &str = include_str!("../templates/index.html.j2");
const FIGURES_TEMPLATE: &str = include_str!("../templates/figures.html.j2");
/// Template of one figure, which both pages include.
const FIGURE_TEMPLATE: &str = include_str!("../templates/figure.html.j2");
pub(crate) const STYLE: &str = include_str!("../templates/style.css");

/// Page of tables and figures about something that is not a study.
#[derive(Clone, Debug)]
pub struct FigurePage {
    /// Title of the page.
    pub title: String,
    /// Line below the title.
    pub subtitle: String,
    /// Remarks for the reader.
    pub remarks: Vec<String>,
    /// Tables of the page.
    pub tables: Vec<TextTable>,
    /// Figures of the page.
    pub figures: Vec<NamedFigure>,
    /// Command for the next step.
    pub command: String,
}

/// Table of text; the first cell of a row is its name.
#[derive(Clone, Serialize, Debug)]
pub struct TextTable {
    /// Identifier on the page: letters, digits and hyphens.
    pub id: String,
    /// Title of the table.
    pub title: String,
    /// Headings, one per column.
    pub headings: Vec<String>,
    /// Rows, with a cell for each column.
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
    figures_style: &'static str,
    command: &'a str,
}

/// Renders a self-contained page of tables and figures.
///
/// # Errors
///
/// Returns an error if the page cannot be filled in.
pub fn figure_page(page: &FigurePage) -> Result<String, ReportError> {
    let FigurePage { title, subtitle, remarks, tables, figures, command } = page;
    let view = FiguresView {
        style: STYLE.trim_end(),
        title,
        subtitle,
        remarks,
        tables,
        figures: figure_views(figures),
        figures_style: FIGURES_STYLE,
        command,
    };
    let mut environment = environment()?;
    environment.add_template("figures.html", FIGURES_TEMPLATE)?;
    Ok(environment.get_template("figures.html")?.render(Serde(&view))?)
}

pub(crate) fn environment() -> Result<Environment<'static>, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // The engine's own escaping also replaces slashes, which would hide the names of cells from text search.
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escape(&text) })?)
    });
    environment.add_template("figure.html", FIGURE_TEMPLATE)?;
    Ok(environment)
}

/// Returns the colours of each figure of a page: a series has the same colour in all figures.
fn colours(figures: &[NamedFigure]) -> Vec<Vec<usize>> {
    Colours::across(&figures.iter().map(|named| &named.figure).collect::<Vec<_>>())
}

fn figure_views(figures: &[NamedFigure]) -> Vec<FigureView<'_>> {
    let views = figures.iter().zip(colours(figures)).map(|(named, colours)| {
        let Numbers { headings, rows, total } = named.figure.numbers();
        let svg = named.figure.render_svg_element(&named.alt, &colours);
        FigureView { id: &named.id, caption: &named.caption, svg, headings, rows, total }
    });
    views.collect()
}

/// Renders the page of `study`.
///
/// # Errors
///
/// Returns an error if the page cannot be filled in.
pub fn index_html(study: &Study) -> Result<String, ReportError> {
    let mut environment = environment()?;
    environment.add_template("index.html", TEMPLATE)?;
    let page = Page::of(study);
    Ok(environment.get_template("index.html")?.render(Serde(&page))?)
}

#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    id: &'a str,
    title: &'a str,
    citation: &'a str,
    doi: Option<&'a str>,
    introduction: &'a [String],
    computed_by: &'a str,
    seed: u64,
    runs: Option<u32>,
    rule: String,
    command: &'a str,
    held: usize,
    summaries: Vec<String>,
    notes: &'a [String],
    claims: Vec<ClaimView<'a>>,
    tables: Vec<TableView<'a>>,
    figures: Vec<FigureView<'a>>,
    figures_style: &'static str,
}

#[derive(Serialize)]
struct ClaimView<'a> {
    id: &'a str,
    text: &'a str,
    /// Complete evidence, if it is short; otherwise `summary` and `comparisons` are present.
    evidence: Option<String>,
    summary: Option<String>,
    comparisons: Vec<ComparisonView>,
    class: &'static str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct ComparisonView {
    text: String,
    missed: bool,
    /// The runs do not decide it.
    open: bool,
}

#[derive(Serialize)]
struct TableView<'a> {
    id: &'a str,
    heading: String,
    title: String,
    /// True if a column shows the runs of each line.
    shows_runs: bool,
    /// True if the table has so many columns that no other table fits next to it.
    wide: bool,
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
    /// Name in `cells.csv`.
    cell: &'a str,
    /// Display name.
    name: String,
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
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Total number of rows, of which the first ones are present.
    total: usize,
}

impl<'a> Page<'a> {
    fn of(study: &'a Study) -> Self {
        Self {
            style: STYLE.trim_end(),
            id: &study.id,
            title: &study.title,
            citation: &study.citation,
            doi: study.doi.as_deref(),
            introduction: &study.introduction,
            computed_by: &study.computed_by,
            seed: study.seed,
            runs: study.tables.iter().flat_map(|table| &table.rows).map(|row| row.runs).max(),
            rule: rule(),
            command: &study.command,
            held: study.claims.iter().filter(|claim| claim.holds == Holds::Yes).count(),
            summaries: summaries(study),
            notes: &study.notes,
            claims: study.claims.iter().map(|claim| ClaimView::of(study, claim)).collect(),
            tables: study.tables.iter().map(|table| TableView::of(study, table)).collect(),
            figures: figure_views(&study.figures),
            figures_style: FIGURES_STYLE,
        }
    }
}

/// Returns the deviations from published numbers, and of the lab from the simulator, one line per metric.
pub(crate) fn summaries(study: &Study) -> Vec<String> {
    let worst = |one: &MetricSummary| study.parts_of(&one.worst_cell).join(", ");
    let published = study.summaries().into_iter().map(|one| pivot::summary_text(&one, &worst(&one)));
    let lab = study.lab_summaries().into_iter().map(|one| pivot::lab_summary_text(&one, &worst(&one)));
    published.chain(lab).collect()
}

/// Describes in a sentence which deviations are marked.
pub(crate) fn rule() -> String {
    format!(
        "Deviations are relative to the published number or, where that is a percentage, in percentage points (pp); those beyond \
         {FAR} % or {FAR} pp are marked."
    )
}

impl<'a> ClaimView<'a> {
    fn of(study: &Study, claim: &'a Claim) -> Self {
        let (class, verdict) = match claim.holds {
            Holds::Yes => ("held", "✓ holds"),
            Holds::No => ("missed", "✗ missed"),
            Holds::Open => ("open", "? open"),
        };
        let summary = claim.summary();
        let evidence = summary.is_none().then(|| study.in_words(&claim.evidence()));
        let comparisons = claim.comparisons.iter().map(|comparison| ComparisonView {
            text: study.in_words(&comparison.text),
            missed: comparison.holds == Holds::No,
            open: comparison.holds == Holds::Open,
        });
        let comparisons = comparisons.filter(|_| summary.is_some()).collect();
        Self { id: &claim.id, text: &claim.text, evidence, summary, comparisons, class, verdict }
    }
}

/// Returns the heading of a table: `Table 2` by its number in the publication, `Figure 13 as a table`, `Varying delay`.
fn heading(id: &str) -> String {
    if let Some(figure) = id.strip_prefix("figure-") {
        return format!("Figure {figure} as a table");
    }
    let mut letters = id.chars();
    match letters.next() {
        Some(first) if first.is_lowercase() => {
            (first.to_uppercase().collect::<String>() + letters.as_str()).replace('-', " ")
        }
        _ => format!("Table {id}"),
    }
}

/// Maximum number of number columns for a table that does not take the width of the page.
const NARROW: usize = 6;

impl<'a> TableView<'a> {
    fn of(study: &Study, table: &'a Table) -> Self {
        let pivot = Pivot::of(table);
        let names = study.names_in(table);
        let metrics = pivot.metrics.iter().map(|metric| {
            let mut headings = match metric.published {
                Published::Some => vec!["published", "measured", "deviation"],
                Published::Beside => vec!["published", "measured"],
                Published::None => vec!["measured"],
            };
            headings.extend(metric.lab.then_some(["lab", "lab's deviation"]).into_iter().flatten());
            let label = format!("{} ({})", pivot::metric_label(metric.name), pivot::unit_label(metric.unit));
            MetricView { label, columns: headings.len(), headings }
        });
        let metrics: Vec<MetricView> = metrics.collect();
        let wide = metrics.iter().map(|metric| metric.columns).sum::<usize>() > NARROW;
        let lines = pivot.lines.iter().map(|line| LineView {
            cell: line.cell,
            name: names.get(line.cell).cloned().unwrap_or_default(),
            runs: line.runs,
            numbers: numbers(&pivot, line),
        });
        let lines = lines.collect();
        let title = pivot::title_text(&table.title, pivot.runs);
        Self {
            id: &table.id,
            heading: heading(&table.id),
            title,
            shows_runs: pivot.runs == Runs::Various,
            wide,
            metrics,
            lines,
        }
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
            Published::Beside => {
                push(row.map(pivot::published_text), "start");
                push(measured, "");
            }
            Published::None => push(measured, "start"),
        }
        if metric.lab {
            let deviation = row.and_then(|row| row.lab_deviation());
            push(row.map(pivot::lab_text), "");
            push(
                deviation.map(pivot::deviation_text),
                if deviation.is_some_and(Deviation::is_far) { "far" } else { "" },
            );
        }
    }
    numbers
}

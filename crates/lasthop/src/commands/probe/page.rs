//! Page with the figures of a probe.

use std::path::Path;

use lasthop_probe::client::Way;
use lasthop_probe::report::{Analysis, ClassReport, DirectionReport};
use lasthop_report::figures::{
    Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale, StepSeries, WindowPlot,
};
use lasthop_report::html::{FigurePage, TextTable};
use lasthop_report::study::NamedFigure;

use super::summary::{Row, rows, unknown};

/// Run length from which runs share a bar.
const LONGEST: u32 = 12;

/// Creates the page of the results in `folder`.
pub fn page(analysis: &Analysis, folder: &Path) -> FigurePage {
    let report = &analysis.report;
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let cells = |Row(name, [down, up])| vec![String::from(name).trim().to_owned(), down, up];
    let mut tables = vec![TextTable {
        id: "numbers".to_owned(),
        title: "Numbers".to_owned(),
        headings: strings(&["", "down", "up"]),
        rows: rows(report).into_iter().map(cells).collect(),
    }];
    type Pick = fn(&DirectionReport) -> &Vec<ClassReport>;
    let sizes: Pick = |way| &way.sizes;
    let code_points: Pick = |way| &way.code_points;
    for (id, title, pick) in
        [("sizes", "By packet size (bytes)", sizes), ("code-points", "By code point (DSCP)", code_points)]
    {
        tables.push(TextTable {
            id: id.to_owned(),
            title: title.to_owned(),
            headings: strings(&["", "direction", "packets", "lost (%)", "95 % (%)", "queueing (ms)", "arrives as"]),
            rows: [("down", pick(&report.down)), ("up", pick(&report.up))]
                .into_iter()
                .flat_map(|(way, classes)| classes.iter().map(move |class| class_row(way, class)))
                .collect(),
        });
    }
    let mut figures = vec![loss(analysis), runs(analysis)];
    // `--max-rate` may have prevented the queue from filling.
    if Way::BOTH.iter().any(|way| !analysis.delay_by_load(*way).is_empty()) {
        figures.push(delay(analysis));
    }
    FigurePage {
        title: format!("The path to {}", report.server),
        subtitle: format!("Measured by lasthop probe for {:.1} s", report.seconds),
        remarks: unknown(report).into_iter().chain(report.remarks.iter().cloned()).collect(),
        tables,
        figures,
        command: format!("lasthop fit {} --out link.toml", folder.display()),
    }
}

fn class_row(way: &str, class: &ClassReport) -> Vec<String> {
    let loss = &class.loss;
    let share = loss.share.map(|share| format!("{:.2}", 100.0 * share.value));
    let interval = loss.share.and_then(|share| share.interval);
    vec![
        class.class.to_string(),
        way.to_owned(),
        loss.packets.to_string(),
        share.unwrap_or_default(),
        interval.map(|[low, high]| format!("{:.2} to {:.2}", 100.0 * low, 100.0 * high)).unwrap_or_default(),
        class.median_ms.map(|delay| format!("{delay:.2}")).unwrap_or_default(),
        class.arrives_as.map(|dscp| dscp.to_string()).unwrap_or_default(),
    ]
}

fn named(id: &str, caption: &str, alt: &str, figure: Figure) -> NamedFigure {
    NamedFigure { id: id.to_owned(), caption: caption.to_owned(), alt: alt.to_owned(), figure }
}

fn loss(analysis: &Analysis) -> NamedFigure {
    let series = |way: Way| StepSeries { name: way.to_string(), points: analysis.loss_by_second(way) };
    let plot = WindowPlot {
        title: "Loss over time".to_owned(),
        y_label: "loss per second (%)".to_owned(),
        series: Way::BOTH.map(series).into(),
    };
    let caption = "Loss per second of packets sent below the path's rate.";
    named("loss", caption, "Share of lost packets in each second, both directions", Figure::Window(plot))
}

fn runs(analysis: &Analysis) -> NamedFigure {
    let ways = [("down", &analysis.report.down), ("up", &analysis.report.up)];
    let longest = ways.iter().map(|(_, way)| way.runs.longest).max().unwrap_or(0).clamp(1, LONGEST);
    let group = |length: u32| if length == LONGEST { format!("{length} or more") } else { length.to_string() };
    let series = |(name, way): &(&str, &DirectionReport)| BarSeries {
        name: (*name).to_owned(),
        bars: (1..=longest)
            .map(|length| {
                let of = way.runs.lengths.iter().filter(|(run, _)| (**run).min(LONGEST) == length);
                Some(Bar { value: of.map(|(_, count)| *count).sum::<u64>() as f64, ci95: None, published: None })
            })
            .collect(),
    };
    let chart = BarChart {
        title: "Runs of losses".to_owned(),
        value_label: "runs".to_owned(),
        groups: (1..=longest).map(group).collect(),
        series: ways.iter().map(series).collect(),
    };
    let caption = "Frequency of runs of lost packets, by length.";
    named("runs", caption, "Number of runs of lost packets by length, both directions", Figure::Bars(chart))
}

fn delay(analysis: &Analysis) -> NamedFigure {
    let point = |(x, y)| LinePoint { x, y, ci95: None, published: None };
    let series = |way: Way| LineSeries {
        name: way.to_string(),
        points: analysis.delay_by_load(way).into_iter().map(point).collect(),
    };
    let chart = LineChart {
        title: "Delay against load".to_owned(),
        x_label: "sent in the same burst before (KB)".to_owned(),
        y_label: "queueing delay (ms)".to_owned(),
        x_scale: Scale::Linear,
        series: Way::BOTH.map(series).into(),
    };
    let caption =
        "Queueing delay beyond the minimum delay while the queue filled. The curve is flat where the queue is full.";
    named("delay", caption, "Queueing delay against bytes sent before, both directions", Figure::Lines(chart))
}

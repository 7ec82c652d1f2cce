//! Figures of the study: bars of throughput, sequence and window traces of single transfers, throughput over error
//! rates.

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::scheme::{Family, SCHEMES};
use lasthop_report::figures::{
    Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale, SequencePlot, SequenceSeries,
    StepSeries, WindowPlot, sequence_series, window_series,
};
use lasthop_report::study::NamedFigure;
use lasthop_sim::trace::Trace;
use lasthop_sim::{Recording, run};

use super::cells::{ERROR_INTERVALS, FIGURE_13, FIGURES, TESTBEDS};
use crate::replicate::run_seed;
use crate::study::{Results, Selection, StudyError};

/// Draws the figures of `selection`.
pub fn draw(selection: &Selection, results: &Results, seed: u64) -> Result<Vec<NamedFigure>, StudyError> {
    let mut figures = Vec::new();
    for id in FIGURES {
        let wanted = match selection {
            Selection::All => true,
            Selection::Table(_) => false,
            Selection::Figure(figure) => figure == id,
        };
        if wanted {
            figures.push(draw_one(id, results, seed)?);
        }
    }
    Ok(figures)
}

fn draw_one(id: &str, results: &Results, seed: u64) -> Result<NamedFigure, StudyError> {
    let traced = |scheme: &str| -> Result<Trace, StudyError> {
        Ok(run(&super::network(scheme, "LAN", 32)?, run_seed(seed, 0), Recording::On).trace)
    };
    let (caption, figure) = match id {
        "3" => ("Throughput of the link-layer schemes", bars(Family::LinkLayer, results)),
        "6" => ("Throughput of the end-to-end schemes", bars(Family::EndToEnd, results)),
        "9" => ("Throughput of the split-connection schemes", bars(Family::SplitConnection, results)),
        "4" => (
            "Packet sequence traces of LL-TCP-AWARE and LL (LAN, 32 KB, at the source)",
            sequences(&[("LL-TCP-AWARE", &traced("LL-TCP-AWARE")?), ("LL", &traced("LL")?)]),
        ),
        "5" => (
            "Congestion windows of LL-TCP-AWARE and LL (LAN, 32 KB)",
            windows(&[("LL-TCP-AWARE", &traced("LL-TCP-AWARE")?), ("LL", &traced("LL")?)]),
        ),
        "7" => (
            "Packet sequence traces of E2E and E2E-ELN (LAN, 32 KB, at the source)",
            sequences(&[("E2E-ELN", &traced("E2E-ELN")?), ("E2E", &traced("E2E")?)]),
        ),
        "8" => (
            "Congestion windows of E2E and E2E-ELN (LAN, 32 KB)",
            windows(&[("E2E-ELN", &traced("E2E-ELN")?), ("E2E", &traced("E2E")?)]),
        ),
        "10" => ("Packet sequence traces of SPLIT: wired and wireless connection", split_sequences(&traced("SPLIT")?)),
        "11" => ("Congestion windows of SPLIT: wired and wireless connection", split_windows(&traced("SPLIT")?)),
        _ => ("Throughput over error rates (LAN, 32 KB)", error_rates(results)),
    };
    let alt = format!("Figure {id}: {caption}. The numbers behind bars and lines are in the tables of this page.");
    Ok(NamedFigure { id: format!("figure-{id}"), caption: format!("Figure {id}. {caption}."), alt, figure })
}

fn bars(family: Family, results: &Results) -> Figure {
    let schemes: Vec<&str> =
        SCHEMES.iter().filter(|scheme| scheme.family == family).map(|scheme| scheme.name).collect();
    let published = super::cells::published();
    let bar = |scheme: &str, testbed: &str, buffer: u32| {
        let cell = format!("{scheme}/{testbed}/{buffer}");
        let estimate = results.throughput(&cell)?;
        let published = published.get(&(cell, "throughput")).copied();
        Some(Bar { value: estimate.mean, ci95: estimate.ci95, published })
    };
    let series = TESTBEDS.map(|(testbed, buffer)| BarSeries {
        name: format!("{testbed}, {buffer} KB"),
        bars: schemes.iter().map(|scheme| bar(scheme, testbed, buffer)).collect(),
    });
    Figure::Bars(BarChart {
        title: format!("Throughput, {} schemes", family.name()),
        value_label: "throughput (Mbps)".to_owned(),
        groups: schemes.iter().map(|&scheme| scheme.to_owned()).collect(),
        series: series.into(),
    })
}

const FLOW: FlowId = FlowId(0);

/// Returns the capture point of that name; the first one if there is none.
fn point(trace: &Trace, name: &str) -> u16 {
    trace.points.iter().position(|point| point.name == name).unwrap_or(0) as u16
}

fn sequence(trace: &Trace, at: &str, name: &str) -> SequenceSeries {
    sequence_series(trace, point(trace, at), FLOW, Side::Initiator, name)
}

fn window(trace: &Trace, at: &str, name: &str) -> StepSeries {
    window_series(trace, point(trace, at), FLOW, name)
}

fn sequence_plot(title: &str, series: Vec<SequenceSeries>) -> Figure {
    Figure::Sequence(SequencePlot { title: title.to_owned(), y_label: "sequence number (KB)".to_owned(), series })
}

fn window_plot(title: &str, series: Vec<StepSeries>) -> Figure {
    Figure::Window(WindowPlot { title: title.to_owned(), y_label: "congestion window (KB)".to_owned(), series })
}

fn sequences(traces: &[(&str, &Trace)]) -> Figure {
    let series = traces.iter().map(|(name, trace)| sequence(trace, "source", name)).collect();
    sequence_plot("Data packets sent by the source", series)
}

fn windows(traces: &[(&str, &Trace)]) -> Figure {
    let series = traces.iter().map(|(name, trace)| window(trace, "source", name)).collect();
    window_plot("Congestion window of the source", series)
}

fn split_sequences(trace: &Trace) -> Figure {
    let series = vec![sequence(trace, "source", "wired"), sequence(trace, "base:wireless", "wireless")];
    sequence_plot("Data packets sent by source and base station", series)
}

fn split_windows(trace: &Trace) -> Figure {
    let series = vec![window(trace, "source", "wired"), window(trace, "base:wireless", "wireless")];
    window_plot("Congestion windows of source and base station", series)
}

fn error_rates(results: &Results) -> Figure {
    let line = |scheme: &str| {
        let point = |kb: u32| {
            let estimate = results.throughput(&format!("{scheme}/LAN/32/error-interval-{kb}KB"))?;
            Some(LinePoint { x: f64::from(kb), y: estimate.mean, ci95: estimate.ci95, published: None })
        };
        LineSeries { name: scheme.to_owned(), points: ERROR_INTERVALS.into_iter().filter_map(point).collect() }
    };
    Figure::Lines(LineChart {
        title: "Throughput over error rates (LAN, 32 KB)".to_owned(),
        x_label: "mean data between errors (KB)".to_owned(),
        y_label: "throughput (Mbps)".to_owned(),
        x_scale: Scale::Log,
        series: FIGURE_13.iter().map(|scheme| line(scheme)).collect(),
    })
}

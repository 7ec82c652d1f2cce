//! Figures of a measured link: data, and the model for comparison.

use lasthop_fit::{Beside, Clock};
use lasthop_report::figures::{
    Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale, StepSeries, WindowPlot,
};
use lasthop_study::link::{Fitted, MeasuredLink};
use serde_json::{Value, json};

/// Returns figures of losses over time, runs of losses, and the autocorrelation of losses.
pub fn pictures(link: &MeasuredLink) -> Vec<Value> {
    let ways: Vec<(&str, &Fitted)> =
        [Some(("down", &link.down)), link.up.as_ref().map(|up| ("up", up))].into_iter().flatten().collect();
    let mut pictures = vec![picture("Share of packets lost over time.", over_time(&ways))];
    let lossy: Vec<(&str, &Fitted)> = ways.into_iter().filter(|(_, fitted)| fitted.report.lost > 0).collect();
    for (way, fitted) in lossy {
        pictures.push(picture(
            "Frequency of loss runs by length: measured, and for the chosen model over a hundred times the same packets.",
            runs(way, fitted),
        ));
        pictures.push(picture(
            "Correlation of losses at a distance in packets: 0 is none, 1 is complete.",
            together(way, fitted),
        ));
    }
    pictures
}

fn picture(caption: &str, figure: Figure) -> Value {
    json!({ "caption": caption, "figure": figure })
}

fn over_time(ways: &[(&str, &Fitted)]) -> Figure {
    let (title, y_label) = ("Losses over time".to_owned(), "lost (%)".to_owned());
    let percent = |fitted: &Fitted| -> Vec<(f64, f64)> {
        fitted.over_time.iter().map(|(at, share)| (*at, 100.0 * share)).collect()
    };
    if ways.iter().all(|(_, fitted)| fitted.clock == Clock::Known) {
        let series = ways.iter().map(|(way, fitted)| StepSeries { name: (*way).to_owned(), points: percent(fitted) });
        return Figure::Window(WindowPlot { title, y_label, series: series.collect() });
    }
    let series = ways.iter().map(|(way, fitted)| LineSeries {
        name: (*way).to_owned(),
        points: percent(fitted).into_iter().map(point).collect(),
    });
    let (x_label, x_scale) = ("packet".to_owned(), Scale::Linear);
    Figure::Lines(LineChart { title, x_label, y_label, x_scale, series: series.collect() })
}

fn point((x, y): (f64, f64)) -> LinePoint {
    LinePoint { x, y, ci95: None, published: None }
}

fn runs(way: &str, fitted: &Fitted) -> Figure {
    let lengths = &fitted.report.adequacy.run_lengths;
    let series = |name: &str, value: fn(&Beside) -> f64| BarSeries {
        name: name.to_owned(),
        bars: lengths.iter().map(|run| Some(Bar { value: value(run), ci95: None, published: None })).collect(),
    };
    Figure::Bars(BarChart {
        title: format!("Runs of losses, {way}"),
        value_label: "runs".to_owned(),
        groups: lengths.iter().map(|run| run.at.to_string()).collect(),
        series: vec![series("measured", |run| run.seen), series("model", |run| run.model)],
    })
}

fn together(way: &str, fitted: &Fitted) -> Figure {
    let lags = &fitted.report.adequacy.autocorrelation;
    let series = |name: &str, value: fn(&Beside) -> f64| LineSeries {
        name: name.to_owned(),
        points: lags.iter().map(|lag| point((f64::from(lag.at), value(lag)))).collect(),
    };
    Figure::Lines(LineChart {
        title: format!("Autocorrelation of losses, {way}"),
        x_label: "packets later".to_owned(),
        y_label: "autocorrelation".to_owned(),
        x_scale: Scale::Log,
        series: vec![series("measured", |lag| lag.seen), series("model", |lag| lag.model)],
    })
}

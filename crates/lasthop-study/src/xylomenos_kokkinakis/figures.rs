//! Figures of the study: throughput of the four combinations over the frame loss rate.

use lasthop_report::figures::{Figure, LineChart, LinePoint, LineSeries, Scale};
use lasthop_report::study::NamedFigure;

use super::cells::{COMBINATIONS, Cell, FRAME_LOSS, Published, SETTINGS, Setting, Testbed, published, throughput};
use crate::study::{Results, Selection};

/// Draws the figures of `selection`.
pub fn draw(selection: &Selection, results: &Results) -> Vec<NamedFigure> {
    let wanted = |setting: &&Setting| match selection {
        Selection::All => true,
        Selection::Table(_) => false,
        Selection::Figure(figure) => setting.figure == figure,
    };
    let published = published();
    SETTINGS.iter().filter(wanted).map(|setting| draw_one(setting, results, &published)).collect()
}

fn draw_one(setting: &Setting, results: &Results, published: &Published) -> NamedFigure {
    let Setting { table, figure: id, application, error_model, congestion } = *setting;
    let line = |combination: &'static str| {
        let point = |loss: usize| {
            let cell = Cell { testbed: Testbed::Lan, setting: *setting, loss, combination };
            let estimate = throughput(results, &cell)?;
            let x = FRAME_LOSS[loss].parse().ok()?;
            Some(LinePoint {
                x,
                y: estimate.mean,
                ci95: estimate.ci95,
                published: published.get(&(cell.name(), "throughput")).copied(),
            })
        };
        LineSeries { name: combination.to_owned(), points: (0..FRAME_LOSS.len()).filter_map(point).collect() }
    };
    let application = if application == "web-browsing" { "Web browsing" } else { "File transfer" };
    let bursts = if congestion == "none" { "" } else { ", bursts of UDP" };
    let title = format!("{application}, {error_model} errors{bursts}");
    let figure = Figure::Lines(LineChart {
        title: title.clone(),
        x_label: "frame loss rate (%)".to_owned(),
        y_label: "throughput (kbps)".to_owned(),
        x_scale: Scale::Linear,
        series: COMBINATIONS.into_iter().map(line).collect(),
    });
    NamedFigure {
        id: format!("figure-{id}"),
        caption: format!("Figure {id}. Throughput over the frame loss rate: {title} (LAN)."),
        alt: format!("Figure {id}: throughput of the four combinations, {title}. The numbers are in table {table}."),
        figure,
    }
}

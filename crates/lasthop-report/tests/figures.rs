//! Figures are well-formed, have the expected content, and are the same each time.

use crate::sample;
use crate::study;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_report::figures::{
    BarChart, Figure, LineChart, LinePoint, LineSeries, Scale, SequencePlot, WindowPlot, sequence_series, window_series,
};

fn all() -> Vec<Figure> {
    vec![
        study::bar_chart(),
        study::small_bar_chart(),
        study::sequence_plot(),
        study::window_plot(),
        study::line_chart(),
    ]
}

fn empty() -> Vec<Figure> {
    let title = "nothing".to_owned();
    let y_label = "y".to_owned();
    vec![
        Figure::Bars(BarChart { title: title.clone(), value_label: y_label.clone(), groups: vec![], series: vec![] }),
        Figure::Sequence(SequencePlot { title: title.clone(), y_label: y_label.clone(), series: vec![] }),
        Figure::Window(WindowPlot { title: title.clone(), y_label: y_label.clone(), series: vec![] }),
        Figure::Lines(LineChart { title, x_label: "x".to_owned(), y_label, x_scale: Scale::Log, series: vec![] }),
    ]
}

fn svg(figure: &Figure) -> String {
    figure.render_svg()
}

/// Returns the texts of an SVG document with their positions.
fn texts(svg: &str) -> Vec<(String, f64, f64)> {
    let document = roxmltree::Document::parse(svg).expect("well formed");
    let number =
        |node: &roxmltree::Node, name| node.attribute(name).and_then(|value| value.parse().ok()).unwrap_or(0.0);
    let nodes = document.descendants().filter(|node| node.has_tag_name("text"));
    nodes.map(|node| (node.text().unwrap_or("").trim().to_owned(), number(&node, "x"), number(&node, "y"))).collect()
}

#[test]
fn svg_is_well_formed_and_refers_to_nothing() {
    for figure in all().iter().chain(&empty()) {
        let svg = svg(figure);
        let document = roxmltree::Document::parse(&svg).expect("well formed");
        assert_eq!(document.root_element().attribute("width"), Some("900"));
        assert_eq!(svg.matches("http").count(), 1, "only the namespace");
    }
}

#[test]
fn bar_chart_names_every_scheme_without_overlap() {
    let texts = texts(&svg(&study::bar_chart()));
    let names = ["E2E", "E2E-IETF-SACK", "LL-SMART-TCP-AWARE", "SPLIT-SMART", "LAN, 8 KB buffers", "published"];
    for name in names {
        assert!(texts.iter().any(|(text, ..)| text == name), "no {name}");
    }
    assert!(texts.iter().any(|(text, ..)| text == "throughput (Mbps)"));
    // Names of the groups all end at the same x; their lines are far enough apart (13 units).
    let (_, right, _) = texts.iter().find(|(text, ..)| text == "E2E").expect("found above");
    let mut lines: Vec<f64> = texts.iter().filter(|(_, x, _)| x == right).map(|(.., y)| *y).collect();
    lines.sort_by(f64::total_cmp);
    assert_eq!(lines.len(), 12);
    assert!(lines.windows(2).all(|pair| pair[1] - pair[0] >= 16.0), "{lines:?}");
}

#[test]
fn line_chart_numbers_the_values_that_were_varied() {
    let texts = texts(&svg(&study::line_chart()));
    for label in ["16", "32", "64", "128", "256", "mean interval between errors (KB)", "LL-TCP-AWARE"] {
        assert!(texts.iter().any(|(text, ..)| text == label), "no {label}");
    }
}

#[test]
fn line_chart_shows_what_was_published() {
    let chart = |published| LineChart {
        title: "web".to_owned(),
        x_label: "x".to_owned(),
        y_label: "y".to_owned(),
        x_scale: Scale::Linear,
        series: vec![LineSeries {
            name: "Reno/Raw".to_owned(),
            points: vec![LinePoint { x: 1.0, y: 1.0, ci95: None, published }],
        }],
    };
    let texts = |published| texts(&svg(&Figure::Lines(chart(published))));
    let (with, without) = (texts(Some(3.0)), texts(None));
    let has_legend = |texts: &[(String, f64, f64)]| texts.iter().any(|(text, ..)| text == "published");
    assert!(has_legend(&with) && !has_legend(&without));
    // The axis includes it.
    let largest = |texts: &[(String, f64, f64)]| {
        texts.iter().filter_map(|(text, ..)| text.parse::<f64>().ok()).fold(0.0, f64::max)
    };
    assert!(largest(&with) >= 3.0 && largest(&without) < 3.0);
}

/// An autocorrelation is negative if losses avoid each other: all points lie between the ends of the axis, and no two
/// of its labels are equal.
#[test]
fn line_chart_shows_what_is_below_zero() {
    let point = |x: f64, y: f64| LinePoint { x, y, ci95: None, published: None };
    let chart = LineChart {
        title: "Autocorrelation of losses".to_owned(),
        x_label: "packets later".to_owned(),
        y_label: "autocorrelation".to_owned(),
        x_scale: Scale::Log,
        series: vec![LineSeries {
            name: String::new(),
            points: vec![point(1.0, 0.0021), point(2.0, -0.0007), point(4.0, -0.0012), point(8.0, 0.0004)],
        }],
    };
    let drawn = svg(&Figure::Lines(chart));
    let texts = texts(&drawn);
    let labels: Vec<f64> = texts.iter().filter_map(|(text, ..)| text.parse().ok()).filter(|at| *at < 0.1).collect();
    assert!(labels.iter().any(|at| *at <= -0.0012) && labels.iter().any(|at| *at >= 0.0021), "{labels:?}");
    let mut distinct = labels.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    assert_eq!(distinct.len(), labels.len(), "{labels:?}");
    // Marks between the lowest and the highest number.
    let heights: Vec<f64> =
        texts.iter().filter(|(text, ..)| text.parse().is_ok_and(|at: f64| at < 0.1)).map(|it| it.2).collect();
    let (top, bottom) = (heights.iter().copied().fold(f64::MAX, f64::min), heights.iter().copied().fold(0.0, f64::max));
    let document = roxmltree::Document::parse(&drawn).expect("well formed");
    let centres = document.descendants().filter_map(|node| node.attribute("cy")?.parse::<f64>().ok());
    let centres: Vec<f64> = centres.collect();
    assert!(centres.len() >= 4 && centres.iter().all(|y| (top - 8.0..=bottom + 8.0).contains(y)), "{centres:?}");
}

#[test]
fn names_are_escaped() {
    let point = LinePoint { x: 1.0, y: 1.0, ci95: None, published: None };
    let chart = LineChart {
        title: "a < b & \"c\"".to_owned(),
        x_label: "x".to_owned(),
        y_label: "y".to_owned(),
        x_scale: Scale::Linear,
        series: vec![LineSeries { name: "<script>".to_owned(), points: vec![point] }],
    };
    let texts = texts(&svg(&Figure::Lines(chart)));
    assert!(texts.iter().any(|(text, ..)| text == "a < b & \"c\""));
    assert!(texts.iter().any(|(text, ..)| text == "<script>"));
}

#[test]
fn png_is_twice_the_size_and_not_blank() {
    // Compressing pixels takes long in a debug build: two are enough.
    for figure in [study::small_bar_chart(), study::line_chart()] {
        let png = figure.render_png().expect("figures can be drawn");
        let mut reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().expect("a PNG image");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small image")];
        let info = reader.next_frame(&mut pixels).expect("a whole image");
        assert_eq!(info.width, 1800);
        assert!(pixels.iter().any(|byte| *byte < 64), "no ink");
    }
}

#[test]
fn figures_come_out_the_same_each_time() {
    for figure in all() {
        assert_eq!(svg(&figure), svg(&figure.clone()));
    }
    let figure = study::small_bar_chart();
    assert!(figure.render_png().ok() == figure.clone().render_png().ok());
}

#[test]
fn many_points_in_one_place_are_one_mark() {
    let Figure::Sequence(mut plot) = study::sequence_plot() else { unreachable!("it makes one") };
    let before = svg(&Figure::Sequence(plot.clone())).len();
    for series in &mut plot.series {
        series.sent.extend(series.sent.clone());
    }
    assert_eq!(svg(&Figure::Sequence(plot)).len(), before);
}

#[test]
fn series_come_from_a_trace() {
    let trace = sample::trace();
    let sequence = sequence_series(&trace, sample::SOURCE, FlowId(0), Side::Initiator, "bulk");
    assert_eq!(sequence.sent.len(), 6);
    assert_eq!(sequence.sent[0], (0.004, 0.0));
    let resent: Vec<f64> = sequence.retransmitted.iter().map(|(_, number)| *number).collect();
    assert_eq!(resent, [1360.0 / 1024.0, 4.0 * 1360.0 / 1024.0]);

    let window = window_series(&trace, sample::SOURCE, FlowId(0), "bulk");
    let steps =
        [(0.004, 1360.0 / 1024.0), (0.008, 2720.0 / 1024.0), (0.0186, 2720.0 / 1024.0), (1.032, 2720.0 / 1024.0)];
    assert_eq!(window.points, steps);
}

//! A small fictitious study: twelve schemes with plausible numbers.
#![allow(dead_code, reason = "each test uses its own part")]

use lasthop_report::figures::{
    Bar, BarChart, BarSeries, Figure, LineChart, LinePoint, LineSeries, Scale, SequencePlot, SequenceSeries,
    StepSeries, WindowPlot,
};
use lasthop_report::study::{CellRow, Claim, Comparison, Holds, NamedFigure, Relation, Study, Table};

/// Schemes with published throughputs (LAN 8 KB, LAN 32 KB, WAN 32 KB) and goodputs.
const SCHEMES: [(&str, [f64; 3], f64, f64); 12] = [
    ("E2E", [0.55, 0.70, 0.31], 97.5, 97.5),
    ("E2E-NEWRENO", [0.66, 0.89, 0.64], 97.7, 97.3),
    ("E2E-SMART", [1.12, 1.25, 0.0], 97.2, 97.2),
    ("E2E-IETF-SACK", [0.68, 1.12, 0.80], 97.5, 97.5),
    ("E2E-ELN", [0.69, 0.93, 0.64], 97.5, 97.5),
    ("E2E-ELN-RXMT", [0.86, 0.95, 0.72], 97.5, 97.5),
    ("LL", [1.20, 1.20, 0.82], 95.5, 97.9),
    ("LL-TCP-AWARE", [1.29, 1.36, 1.19], 97.6, 100.0),
    ("LL-SMART", [1.29, 1.29, 0.93], 95.5, 98.3),
    ("LL-SMART-TCP-AWARE", [1.37, 1.39, 1.22], 97.7, 100.0),
    ("SPLIT", [0.0, 0.0, 0.0], 97.0, 100.0),
    ("SPLIT-SMART", [0.0, 0.0, 0.0], 97.4, 100.0),
];
const TESTBEDS: [(&str, u32); 3] = [("LAN", 8), ("LAN", 32), ("WAN", 32)];

/// Returns a deterministic number near the published one.
fn measured(scheme: usize, testbed: usize) -> f64 {
    let published = SCHEMES[scheme].1[testbed];
    let published = if published > 0.0 { published } else { 0.6 + 0.05 * scheme as f64 };
    published * (1.0 + 0.09 * ((scheme * 5 + testbed * 3) as f64).sin())
}

fn some(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

fn row(cell: &str, metric: &str, unit: &str, published: Option<f64>, measured: f64, ci95: f64) -> CellRow {
    CellRow {
        cell: cell.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        published,
        measured,
        ci95: Some(ci95),
        runs: 30,
        relation: Relation::Same,
        lab: None,
    }
}

fn table(id: &str, title: &str, schemes: std::ops::Range<usize>) -> Table {
    let mut rows = Vec::new();
    for scheme in schemes {
        let (name, throughput, wireless, wired) = SCHEMES[scheme];
        for (testbed, (place, buffer)) in TESTBEDS.iter().enumerate() {
            let cell = format!("{name}/{place}/{buffer}");
            let published = some(throughput[testbed]);
            rows.push(row(&cell, "throughput", "Mbps", published, measured(scheme, testbed), 0.0123));
            let goodput = |value| published.map(|_| value);
            rows.push(row(&cell, "wireless_goodput", "percent", goodput(wireless), wireless + 0.23, 0.04));
            rows.push(row(&cell, "wired_goodput", "percent", goodput(wired), wired - 1.5 * (scheme % 2) as f64, 0.05));
        }
    }
    Table { id: id.to_owned(), title: title.to_owned(), rows }
}

pub fn bar_chart() -> Figure {
    let series = TESTBEDS.iter().enumerate().map(|(testbed, (place, buffer))| BarSeries {
        name: format!("{place}, {buffer} KB buffers"),
        bars: (0..SCHEMES.len())
            .map(|scheme| {
                let published = some(SCHEMES[scheme].1[testbed]);
                Some(Bar { value: measured(scheme, testbed), ci95: Some(0.02), published })
            })
            .collect(),
    });
    Figure::Bars(BarChart {
        title: "Throughput of twelve schemes at one error per 64 KB".to_owned(),
        value_label: "throughput (Mbps)".to_owned(),
        groups: SCHEMES.iter().map(|scheme| scheme.0.to_owned()).collect(),
        series: series.collect(),
    })
}

pub fn small_bar_chart() -> Figure {
    let series = ["LL-TCP-AWARE", "LL-SMART-TCP-AWARE"].iter().enumerate().map(|(number, name)| BarSeries {
        name: (*name).to_owned(),
        bars: (0..3)
            .map(|burst| Some(Bar { value: 1.25 - 0.2 * (burst * (2 - number)) as f64, ci95: None, published: None }))
            .collect(),
    });
    Figure::Bars(BarChart {
        title: "Throughput under bursts of losses".to_owned(),
        value_label: "throughput (Mbps)".to_owned(),
        groups: ["2 packets", "4 packets", "6 packets"].map(str::to_owned).to_vec(),
        series: series.collect(),
    })
}

pub fn sequence_plot() -> Figure {
    let series = ["E2E", "LL-TCP-AWARE"].iter().enumerate().map(|(number, name)| {
        let rate = 60.0 * (1.0 + number as f64);
        let mut series = SequenceSeries { name: (*name).to_owned(), sent: Vec::new(), retransmitted: Vec::new() };
        let mut time = 0.0;
        for packet in 0..3000 {
            time += if packet % 97 == 0 && number == 0 { 0.7 } else { 1.0 / rate };
            series.sent.push((time, f64::from(packet) * 1.36));
            if packet % 97 == 0 {
                series.retransmitted.push((time + 0.02, f64::from(packet - 6).max(0.0) * 1.36));
            }
        }
        series
    });
    Figure::Sequence(SequencePlot {
        title: "Sequence numbers over time, WAN".to_owned(),
        y_label: "sequence number (KB)".to_owned(),
        series: series.collect(),
    })
}

pub fn window_plot() -> Figure {
    let series = ["E2E", "LL-TCP-AWARE"].iter().enumerate().map(|(number, name)| {
        let mut window: f64 = 1.4;
        let points = (0..800).map(|step| {
            window = if step % 90 == 0 && number == 0 { 1.4 } else { (window + 1.9 / window).min(32.0) };
            (f64::from(step) * 0.1, window)
        });
        StepSeries { name: (*name).to_owned(), points: points.collect() }
    });
    Figure::Window(WindowPlot {
        title: "Congestion window over time, WAN".to_owned(),
        y_label: "congestion window (KB)".to_owned(),
        series: series.collect(),
    })
}

pub fn line_chart() -> Figure {
    let names = ["E2E", "E2E-IETF-SACK", "E2E-SMART", "LL", "LL-TCP-AWARE", "LL-SMART-TCP-AWARE"];
    let series = names.iter().enumerate().map(|(number, name)| LineSeries {
        name: (*name).to_owned(),
        points: [16.0, 32.0, 64.0, 128.0, 256.0]
            .iter()
            .map(|x: &f64| {
                let y = 1.45 - (0.95 - 0.15 * number as f64) * (256.0 / x).log2() / 4.0 - 0.02 * number as f64;
                LinePoint { x: *x, y, ci95: Some(0.03), published: None }
            })
            .collect(),
    });
    Figure::Lines(LineChart {
        title: "Throughput at other error rates, LAN".to_owned(),
        x_label: "mean interval between errors (KB)".to_owned(),
        y_label: "throughput (Mbps)".to_owned(),
        x_scale: Scale::Log,
        series: series.collect(),
    })
}

pub fn study() -> Study {
    let figure = |id: &str, caption: &str, figure| NamedFigure {
        id: id.to_owned(),
        caption: caption.to_owned(),
        alt: format!("{caption}: see the tables for the numbers"),
        figure,
    };
    let claim = |id: &str, text: &str, holds, evidence: &str| Claim {
        id: id.to_owned(),
        text: text.to_owned(),
        holds,
        comparisons: vec![Comparison { holds, text: evidence.to_owned() }],
    };
    Study {
        id: "balakrishnan1997".to_owned(),
        title: "A comparison of mechanisms for improving TCP performance over wireless links".to_owned(),
        citation: "Balakrishnan, Padmanabhan, Seshan & Katz, IEEE/ACM Transactions on Networking 5(6), 1997".to_owned(),
        doi: Some("10.1109/90.650137".to_owned()),
        introduction: vec!["Twelve schemes over a link that loses packets.".to_owned()],
        computed_by: "lasthop 0.1.0".to_owned(),
        seed: 7,
        names: [("LL/LAN/8", ["LL", "LAN", "buffers of 8 KB"]), ("LL/WAN/32", ["LL", "WAN", "buffers of 32 KB"])]
            .map(|(cell, parts)| (cell.to_owned(), parts.map(str::to_owned).to_vec()))
            .into(),
        command: "cargo run --release -- reproduce balakrishnan1997 --out out".to_owned(),
        tables: vec![
            table("2", "Link-layer schemes", 6..10),
            table("3", "End-to-end schemes", 0..6),
            table("4", "Split connections", 10..12),
        ],
        claims: vec![
            claim("a", "LL < LL-SMART < LL-TCP-AWARE in LAN 32 KB and WAN", Holds::Yes, "1.20 ±0.01 < 1.29 ±0.01"),
            claim("b", "E2E below 50 % of the no-error maximum in the LAN", Holds::No, "0.78 ±0.02 of 1.50 Mbps: 52 %"),
        ],
        notes: vec!["Fitted to these tables rather than known: the minimum timeout.".to_owned()],
        figures: vec![
            figure("figure-3", "Throughput of all schemes", bar_chart()),
            figure("figure-4", "A transfer, packet by packet", sequence_plot()),
            figure("figure-5", "Its congestion window", window_plot()),
            figure("figure-13", "Throughput over the error rate", line_chart()),
        ],
    }
}

//! `lasthop plot`

use std::io::{Write, stdout};
use std::path::PathBuf;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::scheme::Scheme;
use lasthop_report::figures::{Figure, SequencePlot, WindowPlot, link_series, sequence_series, window_series};
use lasthop_sim::network::Element;
use lasthop_sim::trace::{Trace, What};
use lasthop_sim::{Recording, run};
use lasthop_study::replicate::run_seed;
use serde_json::json;

use crate::cli::PlotArgs;
use crate::error::Error;
use crate::output::{print_json, write_file};

const FLOW: FlowId = FlowId(0);

pub fn execute(args: &PlotArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let schemes: Vec<&'static Scheme> =
        if args.scheme.is_empty() { vec![scenario.scheme()] } else { args.scheme.clone() };
    let seed = run_seed(args.scenario.seed.unwrap_or(scenario.seed()), args.run);
    let (mut sequences, mut windows) = (Vec::new(), Vec::new());
    for scheme in &schemes {
        let network = scenario.network(scheme)?;
        let trace = run(&network, seed, Recording::On).trace;
        let source = first_sender(&trace);
        sequences.push(sequence_series(&trace, source, FLOW, Side::Initiator, scheme.name));
        windows.push(window_series(&trace, source, FLOW, scheme.name));
        // A split connection has a second sender: the relay, at its end of the link.
        for element in network.elements.iter().filter(|element| matches!(element.element, Element::Split { .. })) {
            let up = u16::from(network.links[element.link.0].ends[0] != element.node);
            let point = element.link.0 as u16 * 2 + up;
            let name = format!("{}, base station", scheme.name);
            sequences.push(sequence_series(&trace, point, FLOW, Side::Initiator, &name));
            windows.push(window_series(&trace, point, FLOW, &name));
        }
        // A link protocol's frames, at the end from which the data comes: the one that the flow's data leaves.
        let link_ends = network.elements.iter().filter(|element| matches!(element.element, Element::Arq(_)));
        let points = link_ends.map(|element| {
            let up = u16::from(network.links[element.link.0].ends[0] != element.node);
            element.link.0 as u16 * 2 + up
        });
        if let Some(point) = points.into_iter().find(|point| sends_data(&trace, *point)) {
            sequences.extend(link_series(&trace, point, FLOW, Side::Initiator, scheme.name));
        }
    }
    let title = scenario.title();
    let figures = [
        (
            "sequence",
            Figure::Sequence(SequencePlot {
                title: title.to_owned(),
                y_label: "sequence number (KB)".to_owned(),
                series: sequences,
            }),
        ),
        (
            "window",
            Figure::Window(WindowPlot {
                title: title.to_owned(),
                y_label: "congestion window (KB)".to_owned(),
                series: windows,
            }),
        ),
    ];
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, figure) in &figures {
        let svg = args.out.join(format!("{name}.svg"));
        let text = figure.render_svg()?;
        write_file(&svg, |file| file.write_all(text.as_bytes()))?;
        let png = args.out.join(format!("{name}.png"));
        let bytes = figure.render_png()?;
        write_file(&png, |file| file.write_all(&bytes))?;
        files.extend([svg, png]);
    }
    if args.json.json {
        return print_json(&json!({ "files": files }));
    }
    let mut out = stdout().lock();
    files.iter().try_for_each(|file| Ok(writeln!(out, "{}", file.display())?))
}

/// Whether the flow's data is sent from this capture point on.
fn sends_data(trace: &Trace, point: u16) -> bool {
    trace.records.iter().any(|record| match &record.what {
        What::Sent(packet) => {
            (record.point, record.flow, packet.from) == (point, FLOW, Side::Initiator) && packet.len > 0
        }
        _ => false,
    })
}

/// The capture point at which data of the flow is seen first: its source.
fn first_sender(trace: &Trace) -> u16 {
    trace.records.iter().find(|record| record.flow == FLOW).map_or(0, |record| record.point)
}

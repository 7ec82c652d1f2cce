//! `lasthop plot`

use std::io::{Write, stdout};
use std::path::PathBuf;

use lasthop_proto::packet::FlowId;
use lasthop_proto::scheme::Scheme;
use lasthop_report::figures::{Figure, SequencePlot, WindowPlot, transfer_series};
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
        let series = transfer_series(&network, &trace, FLOW, scheme.name);
        sequences.extend(series.sequences);
        windows.extend(series.windows);
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

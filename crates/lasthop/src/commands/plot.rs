//! `lasthop plot`

use std::io::{Write, stdout};
use std::path::PathBuf;

use lasthop_proto::packet::FlowId;
use lasthop_proto::scheme::Scheme;
use lasthop_report::ReportError;
use lasthop_report::figures::{Colours, Figure, SequencePlot, TransferCollector, TransferSeries, WindowPlot};
use lasthop_report::rows::{Kind, Rows, Value, write_rows_csv};
use lasthop_sim::network::{App, Network};
use lasthop_sim::{Recording, Simulation};
use lasthop_study::meaning::{Meaning, meanings};
use lasthop_study::replicate::{Progress, run_seed};
use lasthop_study::series::{Series, plots};
use serde_json::{Map, json};

use crate::cli::PlotArgs;
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::{Runs, note};

/// Number of events after which the records so far are evaluated and dropped.
const EVENTS: u32 = 1024;

pub fn execute(args: &PlotArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let schemes: Vec<&'static Scheme> =
        if args.scheme.is_empty() { vec![scenario.scheme()] } else { args.scheme.clone() };
    args.scenario.check_effects(&scenario, &schemes)?;
    let seed = run_seed(args.scenario.seed.unwrap_or(scenario.seed()), args.run);
    let networks: Vec<Network> = schemes.iter().map(|scheme| scenario.network(scheme)).collect::<Result<_, _>>()?;
    let meanings = meanings(&scenario, &schemes, &networks.iter().collect::<Vec<_>>());
    let flow = flow(&networks[0], args.flow.as_deref())?;
    let own = meanings.iter().filter(|meaning| meaning.same_as.is_none()).count();
    let progress = Runs::new("plot", own as u64).within(scenario.limit());
    let (mut sequences, mut windows) = (Vec::new(), Vec::new());
    let mut over_time: Vec<(String, Series)> = Vec::new();
    let mut stopped_at = None;
    for (at, meaning) in meanings.iter().enumerate() {
        if meaning.same_as.is_some() || progress.stopped() {
            continue;
        }
        let name = legend(at, &meanings);
        let followed = follow(&networks[at], seed, flow, &name, &progress)?;
        sequences.extend(followed.series.sequences);
        windows.extend(followed.series.windows);
        stopped_at = stopped_at.or(followed.stopped_at);
        let series = Series::of(&networks[at], seed, args.interval.0, || progress.stopped())?;
        over_time.push((name, series));
    }
    progress.finish();
    let several = networks[0].flows.len() > 1;
    let of = if several { format!(": {}", networks[0].flows[flow.0 as usize].name) } else { String::new() };
    let title = format!("{}{of}", scenario.title());
    let connections =
        if networks[0].flows[flow.0 as usize].app == App::Web { ", one connection after another" } else { "" };
    let sequence =
        SequencePlot { title: title.clone(), y_label: format!("sequence number{connections} (KB)"), series: sequences };
    let window = WindowPlot { title: title.clone(), y_label: "congestion window (KB)".to_owned(), series: windows };
    let figures = [("sequence", Figure::Sequence(sequence)), ("window", Figure::Window(window))];
    let plots = plots(&title, flow, &over_time).map(|(name, plot)| (name, Figure::Window(plot)));
    let mut colours = Colours::default();
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, figure) in figures.iter().chain(&plots) {
        let colours = colours.of(figure);
        let svg = args.out.join(format!("{name}.svg"));
        let text = figure.render_svg_in(&colours);
        write_file(&svg, |file| file.write_all(text.as_bytes()))?;
        let png = args.out.join(format!("{name}.png"));
        let bytes = figure.render_png_in(&colours)?;
        write_file(&png, |file| file.write_all(&bytes))?;
        files.extend([svg, png]);
    }
    let csv = args.out.join("series.csv");
    write_file(&csv, |file| write_rows_csv(&together(&over_time)?, file))?;
    files.push(csv);
    let remarks = meanings.iter().filter_map(|meaning| Some((meaning.scheme.name, meaning.remark()?)));
    let remarks: Vec<(&str, String)> = remarks.collect();
    if args.json.json {
        let remarks: Map<_, _> = remarks.iter().map(|(name, remark)| ((*name).to_owned(), json!(remark))).collect();
        print_json(&json!({ "files": files, "remarks": remarks }))?;
    } else {
        let mut out = stdout().lock();
        files.iter().try_for_each(|file| writeln!(out, "{}", file.display()))?;
        remarks.iter().for_each(|(name, remark)| note(&format!("{name}: {remark}")));
    }
    stopped_at.map_or(Ok(()), |at| Err(Error::StoppedAt { at }))
}

/// Concatenates the rows of all runs, with a column for the scheme.
fn together(runs: &[(String, Series)]) -> Result<Rows, ReportError> {
    let mut columns = vec![("scheme".to_owned(), Kind::Text)];
    columns.extend(runs.first().map(|(_, series)| series.columns()).unwrap_or_default());
    let mut rows = Rows::new(columns);
    for (name, series) in runs {
        for cells in series.cells() {
            rows.push(std::iter::once(Value::Text(name.clone())).chain(cells).collect())?;
        }
    }
    Ok(rows)
}

/// Run that was followed.
struct Followed {
    series: TransferSeries,
    /// Time in seconds at which the run was stopped.
    stopped_at: Option<f64>,
}

/// Follows a run without keeping its records.
fn follow(network: &Network, seed: u64, flow: FlowId, name: &str, progress: &Runs) -> Result<Followed, Error> {
    let mut simulation = Simulation::new(network, seed, Recording::On);
    let head = simulation.trace_head();
    let mut collector = TransferCollector::new(network, flow, name);
    let mut records = Vec::new();
    let mut goes_on = true;
    while goes_on && !progress.stopped() {
        goes_on = simulation.advance(EVENTS);
        simulation.take_records(&mut records);
        records.iter().for_each(|record| collector.see(&head, record));
        progress.run_at(simulation.now());
    }
    if let Some(overflow) = simulation.overflow(network) {
        return Err(overflow.into());
    }
    if !goes_on {
        progress.run_done();
    }
    Ok(Followed { series: collector.finish(), stopped_at: goes_on.then(|| simulation.now().as_secs_f64()) })
}

/// Returns the scheme's name with those of schemes that are the same run.
fn legend(at: usize, meanings: &[Meaning]) -> String {
    const MOST: usize = 2;
    let others = meanings.iter().enumerate().filter(|(other, meaning)| meaning.runs_of == at && *other != at);
    let others: Vec<&str> = others.map(|(_, meaning)| meaning.scheme.name).collect();
    let mut name = meanings[at].scheme.name.to_owned();
    for other in others.iter().take(MOST) {
        name += &format!(" = {other}");
    }
    if others.len() > MOST {
        name += &format!(" and {} more", others.len() - MOST);
    }
    name
}

/// Returns the given flow; otherwise the first, or with web sessions only, the first that carries replies.
fn flow(network: &Network, given: Option<&str>) -> Result<FlowId, Error> {
    let place = match given {
        Some(given) => network.flows.iter().position(|flow| flow.name == given),
        None => {
            let transfer = network.flows.iter().position(|flow| !flow.app.is_endless());
            let replies = network.sessions.first().and_then(|session| session.pairs.first());
            transfer.or(replies.map(|pair| pair[1].0 as usize)).or(Some(0)).filter(|flow| *flow < network.flows.len())
        }
    };
    place.map(|flow| FlowId(flow as u32)).ok_or_else(|| Error::Flow {
        given: given.unwrap_or_default().to_owned(),
        flows: network.flows.iter().map(|flow| flow.name.clone()).collect(),
    })
}

//! Runs the 1997 study with values other than its calibration, and prints the deviation of each cell and the claims
//! that hold.
//!
//! ```sh
//! cargo run --release -p lasthop-study --example calibrate -- --runs 30 lan:tcp.rto_min="2 s" wan:tcp.delayed_ack=off
//! ```
//!
//! A setting is `WHERE:KEY=VALUE` with `lan-8`, `lan-32`, `lan`, `wan` or `all` for WHERE. `--tables` omits cells that
//! only the claims need, `--seed N` sets another seed.

use std::collections::BTreeMap;
use std::error::Error;

use lasthop_report::study::{Holds, Study};
use lasthop_scenario::Scenario;
use lasthop_study::replicate::Silent;
use lasthop_study::reproduce::Plan;
use lasthop_study::study::{Cell, Options, Selection};

const STUDY: &str = "balakrishnan1997";
const TESTBEDS: [&str; 3] = ["LAN/8", "LAN/32", "WAN/32"];

/// A value to change, with its testbeds.
struct Setting {
    testbeds: &'static [&'static str],
    key: String,
    value: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut runs, mut seed, mut selections, mut settings) = (30, 1, vec![Selection::All], Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or_else(|| format!("{argument} takes a number"));
        match argument.as_str() {
            "--runs" => runs = number()?.parse()?,
            "--seed" => seed = number()?.parse()?,
            "--tables" => selections = ["2", "3"].map(|table| Selection::Table(table.to_owned())).to_vec(),
            _ => settings.push(setting(&argument)?),
        }
    }
    let mut rows = BTreeMap::new();
    for selection in selections {
        let study = reproduce(Options { selection, runs, seed, jobs: 0 }, &settings)?;
        collect(&study, &mut rows);
        print_claims(&study);
        print_goodputs(&study);
    }
    print_rows(&rows);
    Ok(())
}

fn setting(argument: &str) -> Result<Setting, String> {
    let wrong = || format!("{argument:?}: give WHERE:KEY=VALUE, as lan:tcp.rto_min=\"2 s\"");
    let (place, setting) = argument.split_once(':').ok_or_else(wrong)?;
    let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
    let testbeds = match place {
        "lan-8" => &TESTBEDS[..1],
        "lan-32" => &TESTBEDS[1..2],
        "lan" => &TESTBEDS[..2],
        "wan" => &TESTBEDS[2..],
        "all" => &TESTBEDS[..],
        _ => return Err(wrong()),
    };
    Ok(Setting { testbeds, key: key.to_owned(), value: value.to_owned() })
}

fn reproduce(options: Options, settings: &[Setting]) -> Result<Study, Box<dyn Error>> {
    let plan = Plan::new(STUDY, &options)?.vary(|cell| varied(cell, settings))?;
    Ok(plan.finish(&plan.run(&Silent)?)?)
}

fn varied(cell: &Cell, settings: &[Setting]) -> Result<Scenario, lasthop_scenario::Error> {
    let here = |setting: &&Setting| setting.testbeds.iter().any(|testbed| cell.name.contains(&format!("/{testbed}")));
    let overrides: Vec<_> = settings.iter().filter(here).map(|setting| (&setting.key, &setting.value)).collect();
    cell.scenario.with_overrides(&overrides)
}

/// Deviations by scheme and testbed.
type Rows = BTreeMap<String, BTreeMap<String, f64>>;

fn collect(study: &Study, rows: &mut Rows) {
    for row in study.tables.iter().flat_map(|table| &table.rows) {
        let published = row.published.filter(|_| row.metric == "throughput");
        if let (Some(published), Some((scheme, testbed))) = (published, row.cell.split_once('/')) {
            let deviation = 100.0 * (row.measured / published - 1.0);
            rows.entry(scheme.to_owned()).or_default().insert(testbed.to_owned(), deviation);
        }
    }
}

fn print_claims(study: &Study) {
    for claim in study.claims.iter().filter(|claim| claim.holds == Holds::No) {
        let missed: Vec<_> = claim.comparisons.iter().filter(|comparison| comparison.holds == Holds::No).collect();
        for comparison in missed {
            println!("({}) missed: {}", claim.id, comparison.text);
        }
    }
    if !study.claims.is_empty() {
        let held = study.claims.iter().filter(|claim| claim.holds == Holds::Yes).count();
        println!("{held} of {} claims hold", study.claims.len());
    }
}

fn print_goodputs(study: &Study) {
    let goodputs = study.tables.iter().flat_map(|table| &table.rows).filter(|row| row.metric.ends_with("_goodput"));
    for row in goodputs {
        if let Some(deviation) = row.deviation().filter(|deviation| deviation.percent().abs() > 1.0) {
            println!("{} {} {:.2} %: {:+.2} points", row.cell, row.metric, row.measured, deviation.value());
        }
    }
}

fn print_rows(rows: &Rows) {
    let all = || rows.values().flatten();
    for (scheme, cells) in rows {
        let each = TESTBEDS.map(|testbed| cells.get(testbed).map_or("      .".to_owned(), |off| format!("{off:+7.1}")));
        println!("{scheme:20}{}", each.concat());
    }
    let mean = |testbed: &str| {
        let off: Vec<f64> = all().filter(|(at, _)| at.starts_with(testbed)).map(|(_, off)| off.abs()).collect();
        off.iter().sum::<f64>() / off.len() as f64
    };
    let beyond = all().filter(|(_, off)| off.abs() > 30.0).count();
    println!("mean {:.1} %, LAN {:.1}, WAN {:.1}; beyond 30 %: {beyond}", mean(""), mean("LAN"), mean("WAN"));
}

//! `lasthop fit`

use std::io::{Write, stdout};

use lasthop_fit::scenario::parameters;
use lasthop_fit::{Detail, Fit, Report, Why};
use lasthop_scenario::Scenario;
use lasthop_study::link::{Fitted, Given, Source, measured, present, tells_of_link};

use crate::cli::{FitArgs, LinkArgs};
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

pub fn execute(args: &FitArgs) -> Result<(), Error> {
    let given = given(&args.link);
    present(&args.down)?;
    if args.out.is_some() && (given.rate.is_none() || given.delay.is_none()) && !tells_of_link(&args.down) {
        return Err(Error::FitOut);
    }
    if let Some(out) = args.out.as_deref().filter(|out| out.exists() && !args.force) {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    let link = measured(&args.down, args.up.as_deref(), &given)?;
    if let Some(out) = &args.out {
        // A file that `compare` would reject is not written.
        Scenario::parse(&out.display().to_string(), &link.scenario()?)?;
        let (text, traces) = link.scenario_beside(out)?;
        if let Some([path, _]) = traces.iter().find(|[path, _]| path.exists() && !args.force) {
            return Err(Error::Exists { path: path.clone() });
        }
        for [path, source] in traces {
            let trace = std::fs::read(&source).map_err(Error::file(&source))?;
            write_file(&path, |file| file.write_all(&trace).map_err(Error::file(&path)))?;
        }
        write_file(out, |file| file.write_all(text.as_bytes()).map_err(Error::file(out)))?;
    }
    let (down, up) = (&link.down, &link.up);
    if args.json.json {
        return print_json(&link.to_json());
    }
    print(down, "down")?;
    if let Some(up) = up {
        writeln!(stdout().lock())?;
        print(up, "up")?;
    }
    if let Some(remark) = &link.remark {
        let other = match link.source {
            Source::Capture => format!("; `lasthop diagnose {} --flow N --loss-trace FILE` selects another", link.name),
            Source::Probe | Source::Trace => String::new(),
        };
        writeln!(stdout().lock(), "\n{}", fold(&format!("{remark}{other}"), width()))?;
    }
    if let Some(out) = &args.out {
        let remark = format!("\nwrote {0}; next: lasthop compare {0}; lasthop advise {0}", out.display());
        writeln!(stdout().lock(), "{}", fold(&remark, width()))?;
    }
    Ok(())
}

/// Returns the properties of a link that the command line states.
pub fn given(args: &LinkArgs) -> Given {
    let LinkArgs { rate, delay, wire_delay, queue, interval, at } = *args;
    Given { rate, delay, wire_delay, queue, interval, at }
}

fn print(fitted: &Fitted, direction: &str) -> Result<(), Error> {
    let Fitted { name, form, report, .. } = fitted;
    let mut out = stdout().lock();
    let width = width();
    writeln!(out, "{}", Style::Heading.out(&fold(&format!("{direction}: {name}"), width)))?;
    writeln!(out, "{}", fold(&report.losses(), width))?;
    for line in report.unsaid(*form) {
        writeln!(out, "{}", fold(line, width))?;
    }
    writeln!(out)?;
    write!(out, "{}", models(report).render(width))?;
    writeln!(out)?;
    for line in report.verdict() {
        writeln!(out, "{}", fold(&line, width))?;
    }
    if report.lost > 0 && report.detail == Detail::Packets {
        writeln!(out, "\n{}", beside(report).render(width).trim_end())?;
    }
    writeln!(out, "\n{}", Style::Heading.out("Properties in the scenario"))?;
    for line in fitted.said() {
        writeln!(out, "{}", fold(&line, width))?;
    }
    Ok(())
}

/// Creates the table of families, best first.
fn models(report: &Report) -> Table {
    let heading = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let mut table = Table::new(vec![heading("model", 18), heading("AIC", 10), heading("chosen", 7)]);
    let is_kept = |fit: &Fit| report.kept.iter().any(|kept| kept.why == Why::AsGood && kept.fit.family == fit.family);
    let mut push = |fit: &Fit, aic: String, standing: &str| {
        table.push(vec![fit.family.name().to_owned(), aic, standing.to_owned()]);
        for parameter in parameters(fit) {
            table.push_note(parameter);
        }
    };
    for (at, fit) in report.fits.iter().enumerate() {
        let standing = if at == 0 {
            "yes"
        } else if is_kept(fit) {
            "kept"
        } else {
            ""
        };
        push(fit, format!("{:.1}", fit.aic), standing);
    }
    // Bounds were not found by likelihood.
    for kept in report.kept.iter().filter(|kept| kept.why != Why::AsGood) {
        push(&kept.fit, "bound".to_owned(), "kept");
    }
    table
}

/// Creates the table that compares trace and model.
fn beside(report: &Report) -> Table {
    let heading = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let mut table = Table::new(vec![heading("", 30), heading("seen", 10), heading("model", 10)]);
    for run in &report.adequacy.run_lengths {
        table.push(vec![format!("runs of {}", run.at), format!("{}", run.seen), format!("{:.1}", run.model)]);
    }
    for lag in &report.adequacy.autocorrelation {
        table.push(vec![
            format!("autocorrelation at {}", lag.at),
            format!("{:.3}", lag.seen),
            format!("{:.3}", lag.model),
        ]);
    }
    table
}

//! `lasthop fit`

use std::io::{Write, stdout};
use std::path::Path;

use lasthop_fit::read::{Form, read};
use lasthop_fit::scenario::{Direction, Link, Told, parameters, scenario, shown};
use lasthop_fit::{Clock, Report, Unit, fit};
use lasthop_scenario::{Scenario, one_line};
use serde_json::{Value, json};

use crate::cli::FitArgs;
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

/// Most bytes of a trace's file.
const LARGEST: u64 = 1 << 30;

/// A trace and what was fitted to it.
struct Fitted {
    name: String,
    form: Form,
    clock: Clock,
    report: Report,
}

pub fn execute(args: &FitArgs) -> Result<(), Error> {
    if let Some(out) = args.out.as_deref().filter(|out| out.exists() && !args.force) {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    let down = fitted(&args.down, args)?;
    let up = args.up.as_deref().map(|path| fitted(path, args)).transpose()?;
    if let Some(out) = &args.out {
        let text = text(args, &down, up.as_ref());
        // What `compare` would refuse is not written.
        Scenario::parse(&out.display().to_string(), &text)?;
        write_file(out, |file| file.write_all(text.as_bytes()).map_err(Error::file(out)))?;
    }
    if args.json.json {
        return print_json(&json!({ "down": value(&down), "up": up.as_ref().map(value) }));
    }
    print(&down, "down")?;
    if let Some(up) = &up {
        writeln!(stdout().lock())?;
        print(up, "up")?;
    }
    if let Some(out) = &args.out {
        let remark = format!("\nwrote {}: lasthop compare {}", out.display(), out.display());
        writeln!(stdout().lock(), "{}", fold(&remark, width()))?;
    }
    Ok(())
}

fn fitted(path: &Path, args: &FitArgs) -> Result<Fitted, Error> {
    let bytes = lasthop_scenario::read_limited(path, LARGEST).map_err(Error::file(path))?;
    let (trace, form) =
        read(&String::from_utf8_lossy(&bytes)).map_err(|error| Error::Trace { path: path.to_path_buf(), error })?;
    let trace = match args.rate {
        Some(rate) => trace.at_rate(rate.0 as f64),
        None => trace,
    };
    let clock = trace.clock();
    let report = fit(&trace)
        .ok_or_else(|| Error::Trace { path: path.to_path_buf(), error: lasthop_fit::read::ReadError::Empty })?;
    Ok(Fitted { name: one_line(&path.display().to_string()), form, clock, report })
}

/// The scenario. Clap has seen to rate and delay.
fn text(args: &FitArgs, down: &Fitted, up: Option<&Fitted>) -> String {
    let given = |value: Option<String>, flag: &str, default: &str| match value {
        Some(value) => Told { value, origin: flag.to_owned() },
        None => Told { value: default.to_owned(), origin: format!("assumed; {flag} sets it") },
    };
    let link = Link {
        rate: given(args.rate.map(|rate| rate.to_string()), "--rate", "10 Mbps"),
        delay: given(args.delay.map(|delay| delay.to_string()), "--delay", "10 ms"),
        queue: given(args.queue.map(|queue| queue.to_string()), "--queue", "100 packets"),
        wire_delay: given(args.wire_delay.map(|delay| delay.to_string()), "--wire-delay", "20 ms"),
    };
    fn direction(fitted: &Fitted) -> Direction<'_> {
        Direction { name: &fitted.name, report: &fitted.report }
    }
    scenario(&link, direction(down), up.map(direction))
}

fn value(fitted: &Fitted) -> Value {
    json!({ "file": fitted.name, "form": fitted.form, "times_known": fitted.clock == Clock::Known, "fit": fitted.report })
}

fn print(fitted: &Fitted, direction: &str) -> Result<(), Error> {
    let Fitted { name, form, clock, report } = fitted;
    let mut out = stdout().lock();
    let width = width();
    let share = report.lost as f64 / report.packets as f64;
    writeln!(out, "{}", Style::Heading.out(&fold(&format!("{direction}: {name}"), width)))?;
    let mut said = format!("{} of {} packets lost ({})", report.lost, report.packets, shown(Unit::Share, share));
    if report.lost > 0 {
        said += &format!(", {:.2} in a row on average, {} at most", report.mean_run, report.longest_run);
    }
    writeln!(out, "{}", fold(&said, width))?;
    if *form == Form::Ping {
        writeln!(out, "{}", fold("Ping counts the losses of both directions together.", width))?;
    }
    if *clock == Clock::Unknown && report.lost > 0 {
        let remark = "The trace has no times, so models whose states pass in time are left out.";
        writeln!(out, "{}", fold(remark, width))?;
    }
    writeln!(out)?;
    write!(out, "{}", models(report).render(width))?;
    writeln!(out)?;
    if !report.alike.is_empty() {
        let names: Vec<&str> = report.alike.iter().map(|family| family.name()).collect();
        let remark = format!(
            "This trace cannot tell {} from {}: packets with pauses between them would.",
            report.chosen().family.name(),
            names.join(", ")
        );
        writeln!(out, "{}", fold(&remark, width))?;
    }
    write!(out, "{}", fold(&verdict(report), width))?;
    if report.lost > 0 {
        writeln!(out, "\n{}", beside(report).render(width).trim_end())?;
    }
    Ok(())
}

/// The families, best first.
fn models(report: &Report) -> Table {
    let heading = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let mut table = Table::new(vec![heading("model", 18), heading("AIC", 10), heading("chosen", 7)]);
    for (at, fit) in report.fits.iter().enumerate() {
        let chosen = if at == 0 { "yes" } else { "" };
        table.push(vec![fit.family.name().to_owned(), format!("{:.1}", fit.aic), chosen.to_owned()]);
        for parameter in parameters(fit) {
            table.push_note(parameter);
        }
    }
    table
}

fn verdict(report: &Report) -> String {
    let departures = &report.adequacy.departures;
    if departures.is_empty() {
        return format!("The model {} does what this link did.\n", report.chosen().family.name());
    }
    let mut text =
        format!("No model fits: {}, the nearest one, departs from the trace in\n", report.chosen().family.name());
    for departure in departures {
        let deviations = departure.deviations.clamp(-1e6, 1e6);
        text += &format!(
            "  {}: {:.4} seen, {:.4} expected ({deviations:+.0} standard deviations)\n",
            departure.what, departure.seen, departure.model
        );
    }
    text + "A scenario can replay the trace itself: errors = { model = \"replay\", file = ... }, as 0 and 1.\n"
}

/// Trace and model beside each other.
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

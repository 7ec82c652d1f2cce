//! `lasthop advise`

mod install;

use std::io::{Write, stdout};
use std::path::Path;

use lasthop_scenario::Scenario;
use lasthop_study::advise::{Advice, Cured, Needs, Plan, Use, times};
use lasthop_study::link::{is_measurement, measured, present};
use lasthop_study::promise::Promise;
use lasthop_study::replicate::run_in_rounds;
use lasthop_study::stats::Estimate;

use self::install::Installation;
use super::fit::given;
use crate::cli::{AdviseArgs, LinkArgs};
use crate::error::Error;
use crate::output::{count, print_json, title};
use crate::progress::{Runs, note};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

/// Numbers of runs without `-n`: the next number is tried while a gain may be due to chance.
const ROUNDS: [u32; 3] = [10, 20, 40];

pub fn execute(args: &AdviseArgs) -> Result<(), Error> {
    let all = Needs::NAMES.map(|(_, needs)| needs);
    let needs = if args.control.is_empty() { &all[..] } else { &args.control };
    let installation = Installation::wanted(args, needs)?;
    let (scenario, remark) = scenario(args)?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let uses = if args.uses.is_empty() { &Use::USUAL[..] } else { &args.uses };
    let rounds = args.runs.as_ref().map_or(&ROUNDS[..], std::slice::from_ref);
    let plan = Plan::at(&scenario, needs, args.place, uses, seed, rounds[0])?;
    let mut reports = vec![Vec::new(); plan.tasks().len()];
    let (mut had, mut left) = (0, rounds.iter());
    let (advice, stopped) = loop {
        let upto = left.next().copied().unwrap_or(had);
        let total = plan.tasks().len() * upto as usize;
        let progress = Runs::new("advise", plan.tasks().len() as u64 * u64::from(upto - had));
        for (reports, more) in
            reports.iter_mut().zip(run_in_rounds(&plan.tasks_of(&(had..upto)), args.jobs, &progress)?)
        {
            reports.extend(more);
        }
        progress.finish();
        had = upto;
        let done = reports.iter().map(Vec::len).sum::<usize>();
        let stopped = (done < total).then_some(Error::Stopped { done, total, what: "runs" });
        match (plan.judge(&reports), stopped) {
            (Some(advice), None) if advice.may_be_chance() && left.len() > 0 => {}
            (Some(advice), stopped) => break (advice, stopped),
            (None, stopped) => return stopped.map_or(Ok(()), Err),
        }
    };
    let promise = Promise::new(scenario.title(), seed, &advice);
    if args.json.json {
        let mut value = advice.to_json(&promise);
        if let (Some(remark), Some(value)) = (remark, value.as_object_mut()) {
            value.insert("remark".to_owned(), remark.into());
        }
        print_json(&value)?;
    } else {
        print(&scenario, seed, &advice)?;
        if let Some(remark) = remark {
            writeln!(stdout().lock(), "\n{}", fold(&remark, width()))?;
        }
    }
    // Results of fewer runs must not be installed.
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    installation.map_or(Ok(()), |it| it.write(&advice, &promise, plan.hop_rates()))
}

/// Opens the scenario, or creates one from a measurement, with a remark on the measurement.
fn scenario(args: &AdviseArgs) -> Result<(Scenario, Option<String>), Error> {
    let path = Path::new(&args.scenario.scenario);
    if path.is_dir() && args.scenario.scenario.to_str().is_none_or(|name| Scenario::builtin_text(name).is_none()) {
        present(path)?;
    }
    if !is_measurement(path) {
        let LinkArgs { rate, delay, wire_delay, queue, interval, at } = &args.link;
        let given = [
            ("rate", rate.is_some()),
            ("delay", delay.is_some()),
            ("wire-delay", wire_delay.is_some()),
            ("queue", queue.is_some()),
            ("interval", interval.is_some()),
            ("at", at.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        return match given.next() {
            Some((flag, _)) => Err(Error::ScenarioHas { flag }),
            None => Ok((args.scenario.open()?, None)),
        };
    }
    let link = measured(path, None, &given(&args.link))?;
    let scenario = Scenario::parse(&link.name, &link.scenario()?)?;
    note(&format!("{}: {}; `lasthop fit` shows details", link.name, link.words()));
    Ok((args.scenario.with_overrides(scenario)?, link.remark))
}

fn print(scenario: &Scenario, seed: u64, advice: &Advice) -> Result<(), Error> {
    let mut out = stdout().lock();
    let width = width();
    let interval = if advice.runs == 1 { "" } else { "; means with 95 % intervals" };
    let runs = format!("{} each from seed {seed}{interval}", count(advice.runs, "run"));
    writeln!(out, "{}\n{}\n", title(scenario), fold(&runs, width))?;
    out.write_all(table(advice).render(width).as_bytes())?;
    let uses = advice.cured.first().map_or(0, |cured| cured.results.len());
    let mean = if uses > 1 { "; gain: geometric mean of these" } else { "" };
    writeln!(out, "\n{}", fold(&format!("In parentheses: ratio to the value without a cure{mean}."), width))?;
    for cured in &advice.cured {
        writeln!(out, "\n{}", Style::Heading.out(&cured.cure.name()))?;
        writeln!(out, "{}", fold(&format!("  {}", cured.cure.does), width))?;
        writeln!(out, "{}", fold(&format!("  {}", cured.happened()), width))?;
        if let Some(trips) = cured.round_trips() {
            writeln!(out, "{}", fold(&format!("  {trips}"), width))?;
        }
    }
    writeln!(out)?;
    for line in advice.words() {
        writeln!(out, "{}", fold(&line, width))?;
    }
    let atlas = advice.atlas_words();
    if !atlas.is_empty() {
        writeln!(out)?;
    }
    for line in atlas {
        writeln!(out, "{}", fold(&line, width))?;
    }
    if !advice.conditions.is_empty() {
        writeln!(out, "\nThis holds for a single user of the link, unless one of these changes the result:")?;
        for condition in &advice.conditions {
            writeln!(out, "{}", fold(&format!("  {condition}"), width))?;
        }
    }
    Ok(())
}

fn table(advice: &Advice) -> Table {
    let heading = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let widest = |of: fn(&Cured) -> usize, least: usize| advice.cured.iter().map(of).fold(least, usize::max);
    let mut columns = vec![
        heading("cure", widest(|cured| cured.cure.name().len(), 12)),
        heading("needs", widest(|cured| cured.cure.needs_words().len(), 21)),
    ];
    let uses = advice.cured.first().map(|cured| cured.results.as_slice()).unwrap_or_default();
    columns.extend(uses.iter().map(|result| heading(&format!("{}, {}", result.usage.name(), result.usage.unit()), 21)));
    columns.extend([heading("gain", 7), heading("harms", 7)]);
    let mut table = Table::new(columns);
    for cured in &advice.cured {
        let mut cells = vec![cured.cure.name(), cured.cure.needs_words().to_owned()];
        cells.extend(
            cured.results.iter().map(|result| format!("{} ({})", with_interval(&result.value), result.times())),
        );
        let harmed: Vec<&str> = cured.harmed().into_iter().map(Use::name).collect();
        cells.push(times(cured.gain));
        cells.push(if harmed.is_empty() { "-".to_owned() } else { harmed.join(", ") });
        table.push(cells);
    }
    table
}

fn with_interval(value: &Estimate) -> String {
    match value.ci95 {
        Some(ci95) => format!("{:.2} ± {ci95:.2}", value.mean),
        None => format!("{:.2}", value.mean),
    }
}

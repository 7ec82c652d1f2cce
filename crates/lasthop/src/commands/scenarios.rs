//! `lasthop scenarios`

use std::io::{Write, stdout};

use lasthop_scenario::{Scenario, builtin_names};
use serde_json::json;

use crate::cli::JsonArgs;
use crate::error::Error;
use crate::output::print_json;
use crate::terminal::{list_entry, width};

pub fn execute(args: &JsonArgs) -> Result<(), Error> {
    let all = builtin_names().map(|name| Ok((name, Scenario::builtin(name)?)));
    let all: Vec<(&str, Scenario)> = all.collect::<Result<_, Error>>()?;
    if args.json {
        let entry = |(name, scenario): &(&str, Scenario)| {
            json!({
                "name": name, "title": scenario.title(), "description": scenario.description(),
                "scheme": scenario.scheme().name, "runs": scenario.runs(),
            })
        };
        return print_json(&json!(all.iter().map(entry).collect::<Vec<_>>()));
    }
    let mut out = stdout().lock();
    for (name, scenario) in &all {
        writeln!(out, "{}", list_entry(&[name], 24, scenario.title(), width()))?;
    }
    Ok(())
}

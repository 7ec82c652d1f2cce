//! `lasthop count`

use std::io::{Write, stdout};

use clap::Args;
use lasthop_proto::scheme::Scheme;
use serde_json::json;

use crate::cli::{JsonArgs, ScenarioArgs, scheme};
use crate::error::Error;
use crate::output::print_json;

#[derive(Args, Debug)]
pub struct CountArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Scheme [default: the scenario's]
    #[arg(long, value_parser = scheme)]
    pub scheme: Option<&'static Scheme>,
    #[command(flatten)]
    pub json: JsonArgs,
}

pub fn execute(args: &CountArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let network = scenario.network(args.scheme.unwrap_or(scenario.scheme()))?;
    let (links, elements) = (network.links.len(), network.elements.len());
    if args.json.json {
        return print_json(&json!({ "links": links, "elements": elements }));
    }
    Ok(writeln!(stdout(), "{links} links, {elements} elements")?)
}

//! `lasthop explain`

use std::io::{Write, stdout};

use serde_json::json;

use crate::cli::ExplainArgs;
use crate::error::Error;
use crate::output::print_json;

pub fn execute(args: &ExplainArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let text = match args.scheme {
        Some(scheme) => scenario.explain_under(scheme)?,
        None => scenario.explain(),
    };
    if args.json.json {
        return print_json(&json!({ "title": scenario.title(), "file": scenario.file(), "scenario": text }));
    }
    Ok(stdout().lock().write_all(text.as_bytes())?)
}

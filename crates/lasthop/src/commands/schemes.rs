//! `lasthop schemes`

use std::io::{Write, stdout};

use lasthop_proto::scheme::SCHEMES;
use serde_json::json;

use crate::cli::JsonArgs;
use crate::error::Error;
use crate::output::print_json;
use crate::terminal::{list_entry, width};

pub fn execute(args: &JsonArgs) -> Result<(), Error> {
    if args.json {
        let scheme = |scheme: &lasthop_proto::scheme::Scheme| json!({ "name": scheme.name, "family": scheme.family.name(), "summary": scheme.summary });
        return print_json(&json!(SCHEMES.iter().map(scheme).collect::<Vec<_>>()));
    }
    let mut out = stdout().lock();
    for scheme in &SCHEMES {
        let heads = [scheme.name, scheme.family.name()];
        writeln!(out, "{}", list_entry(&heads, 20, scheme.summary, width()))?;
    }
    Ok(())
}

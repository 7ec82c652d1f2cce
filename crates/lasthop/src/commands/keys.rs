//! `lasthop keys`

use std::io::{Write, stdout};

use crate::cli::KeysArgs;
use crate::error::Error;

pub fn execute(args: &KeysArgs) -> Result<(), Error> {
    let name = args.table.as_str();
    let table = lasthop_scenario::key_table(name).or_else(|| lasthop_scenario::tunnel::key_table(name));
    #[cfg(live)]
    let table = table.or_else(|| lasthop_gateway::configuration::key_table(name));
    let table = table.ok_or_else(|| Error::Keys { given: name.to_owned() })?;
    Ok(stdout().lock().write_all(table.as_bytes())?)
}

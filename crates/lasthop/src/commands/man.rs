//! `lasthop man`

use std::io::{Write, stdout};

use clap::CommandFactory;

use crate::cli::{Cli, ManArgs};
use crate::error::Error;

/// What stands behind the arguments: configuration, files, examples.
const MORE: [(Option<&str>, &str); 2] =
    [(None, include_str!("man/lasthop.roff")), (Some("gateway"), include_str!("man/gateway.roff"))];

pub fn execute(args: &ManArgs) -> Result<(), Error> {
    let mut command = Cli::command();
    // Names and usage lines of subcommands come in full only then.
    command.build();
    let command = match &args.command {
        None => command,
        Some(name) => {
            let found = command.get_subcommands().find(|command| command.get_name() == name);
            found.cloned().ok_or_else(|| Error::Man { given: name.clone() })?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    let more = MORE.iter().find(|(name, _)| *name == args.command.as_deref());
    page.extend_from_slice(more.map_or(&[], |(_, text)| text.as_bytes()));
    Ok(stdout().lock().write_all(&page)?)
}

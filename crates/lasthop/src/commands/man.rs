//! `lasthop man`

use std::io::{self, Write, stdout};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::error::Error;
use crate::output::write_file;

/// Sections after the arguments: configuration, files, examples. The name of a page identifies its command.
const MORE: [(&str, &str); 3] = [
    ("lasthop", include_str!("man/lasthop.roff")),
    ("lasthop-gateway", include_str!("man/gateway.roff")),
    ("lasthop-tunnel", include_str!("man/tunnel.roff")),
];

pub fn execute(args: &ManArgs) -> Result<(), Error> {
    // `help` is left out: it prints what the pages contain.
    let mut command = Cli::command().disable_help_subcommand(true);
    // This completes the names and usage lines of subcommands.
    command.build();
    if let Some(folder) = &args.out {
        for command in with_pages(&command) {
            let path = folder.join(format!("{}.1", name(command)));
            write_file(&path, |out| write_page(command, out).map_err(Error::file(&path)))?;
        }
        return Ok(());
    }
    let found = args.command.iter().try_fold(&command, |command, name| command.find_subcommand(name));
    let command = found.ok_or_else(|| Error::Man { given: args.command.join(" ") })?;
    let mut page = Vec::new();
    write_page(command, &mut page)?;
    Ok(stdout().lock().write_all(&page)?)
}

/// Returns the page's name, such as `lasthop-gateway-status`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn write_page(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("lasthop ", env!("CARGO_PKG_VERSION"))).manual("lasthop");
    man.render(out)?;
    let more = MORE.iter().find(|(whose, _)| *whose == name(command));
    more.map_or(Ok(()), |(_, text)| out.write_all(text.as_bytes()))
}

/// Returns a command and all visible ones below it.
fn with_pages(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    std::iter::once(command).chain(below.flat_map(with_pages)).collect()
}

//! `lasthop completions`

use std::io::{Write, stdout};

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::Error;

pub fn execute(args: &CompletionsArgs) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lasthop", &mut script);
    Ok(stdout().lock().write_all(&script)?)
}

//! The command `lasthop`: the effects of a lossy last hop on TCP, and their cures.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod error;
mod output;
mod progress;
mod table;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::progress::note_error;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: lasthop_sys::memory::HugePages = lasthop_sys::memory::HugePages;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // A missing subcommand is not an error: print help.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = help.print();
            return ExitCode::from(2);
        }
        Err(error) if error.use_stderr() => {
            let message = usage_error(&error.to_string());
            note_error(message.trim_start_matches("error: "));
            return ExitCode::from(2);
        }
        // Help and version.
        Err(text) => text.exit(),
    };
    #[cfg(target_os = "linux")]
    if cli.command.simulates() {
        lasthop_sys::memory::use_huge_pages();
    }
    let outcome = match cli.command {
        Command::Schemes(args) => commands::schemes::execute(&args),
        Command::Scenarios(args) => commands::scenarios::execute(&args),
        Command::Run(args) => commands::run::execute(&args),
        Command::Compare(args) => commands::compare::execute(&args),
        Command::Sweep(args) => commands::sweep::execute(&args),
        Command::Trace(args) => commands::trace::execute(&args),
        #[cfg(live)]
        Command::Lab(args) => commands::lab::execute(&args),
        Command::Plot(args) => commands::plot::execute(&args),
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::execute(&args),
        Command::Explain(args) => commands::explain::execute(&args),
        Command::Diagnose(args) => commands::diagnose::execute(&args),
        #[cfg(live)]
        Command::Probe(args) => commands::probe::execute(&args),
        Command::Fit(args) => commands::fit::execute(&args),
        Command::Conform(args) => commands::conform::execute(&args),
        Command::Convert(args) => commands::convert::execute(&args),
        Command::Advise(args) => commands::advise::execute(&args),
        #[cfg(live)]
        Command::Gateway(args) => commands::gateway::execute(&args),
        #[cfg(live)]
        Command::Tunnel(args) => commands::tunnel::execute(&args),
        #[cfg(live)]
        Command::Status(args) => commands::status::execute(&args),
        Command::Keys(args) => commands::keys::execute(&args),
        Command::Man(args) => commands::man::execute(&args),
        Command::Completions(args) => commands::completions::execute(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it (`lasthop trace ... | head`).
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        #[cfg(live)]
        Err(error::Error::Status(status)) => ExitCode::from(status),
        Err(error) => {
            note_error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Extracts the error and its remedy from clap's message, without the usage paragraphs.
fn usage_error(message: &str) -> String {
    let paragraphs = message.split("\n\n").map(|text| text.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    let said: Vec<_> = paragraphs
        .filter(|text| !text.is_empty() && !text.starts_with("Usage: ") && !text.starts_with("For more information"))
        .collect();
    said.join("; ") + "; see --help"
}

//! The command: what a lossy last hop does to TCP, and what cures it.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod error;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Schemes(args) => commands::schemes::execute(&args),
        Command::Run(args) => commands::run::execute(&args),
        Command::Compare(args) => commands::compare::execute(&args),
        Command::Sweep(args) => commands::sweep::execute(&args),
        Command::Trace(args) => commands::trace::execute(&args),
        Command::Plot(args) => commands::plot::execute(&args),
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        Command::Explain(args) => commands::explain::execute(&args),
        Command::Completions(args) => commands::completions::execute(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough (`lasthop trace ... | head`).
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            progress::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

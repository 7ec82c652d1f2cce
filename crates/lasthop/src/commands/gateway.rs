//! `lasthop gateway`

pub mod words;

use std::fs::File;
use std::io::{Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use lasthop_daemon::logs;
use lasthop_gateway::configuration::Gateway;
use lasthop_gateway::daemon::check;
use lasthop_gateway::daemon::control::{self, LinkFile, Report, Request};
use lasthop_gateway::daemon::supervisor;
use lasthop_gateway::daemon::tape;
use lasthop_gateway::engine::recording::reader::Recording;
use lasthop_gateway::engine::recording::replay::{self, Comparison};
use lasthop_gateway::{daemon::worker, firewall};
use lasthop_scenario::Scenario;
use lasthop_study::link::{Access, Files, Given, NamedFile, measured_from};
use lasthop_study::promise::put_into;
use serde_json::json;

use crate::cli::{
    GatewayArgs, GatewayAskArgs, GatewayCheckArgs, GatewayCleanArgs, GatewayCommand, GatewayReplayArgs,
    GatewayReportArgs, GatewayRunArgs, GatewaySocketArgs, GatewayStatusArgs, RecordArgs,
};
use crate::commands::answers;
use crate::commands::daemon::{end_worker, print_findings, record_to, verdict, worker_program};
use crate::error::Error;
use crate::output::{count, print_json, write_file};
use crate::progress::note;
use crate::terminal::{fold, width};

/// Name of the recorder in messages.
const WHO: &str = "the gateway";

pub fn execute(args: &GatewayArgs) -> Result<(), Error> {
    match (&args.command, &args.run) {
        (Some(GatewayCommand::Run(args)), _) | (None, Some(args)) => run(args),
        (Some(GatewayCommand::Check(args)), _) => check(args),
        (Some(GatewayCommand::Status(args)), _) => status(args),
        (Some(GatewayCommand::Report(args)), _) => report(args),
        (Some(GatewayCommand::Reload(args)), _) => Ok(control::ask(&socket(args)?, Request::Reload).map(drop)?),
        (Some(GatewayCommand::Clean(args)), _) => clean(args),
        (Some(GatewayCommand::Replay(args)), _) => replay(args),
        (Some(GatewayCommand::Worker(args)), _) => {
            logs::start();
            // Standard input is the supervisor's end of a pair of sockets.
            let channel = stdin().as_fd().try_clone_to_owned()?;
            end_worker(worker::run(channel, record_to(args, WHO))?);
            Ok(())
        }
        (None, None) => unreachable!("clap asks for one of the two"),
    }
}

fn run(args: &GatewayRunArgs) -> Result<(), Error> {
    if args.dry_run {
        let text = supervisor::dry_run(&args.file)?;
        return Ok(stdout().lock().write_all(text.as_bytes())?);
    }
    let level = logs::start();
    let record = RecordArgs { record: args.record.clone(), record_limit: args.record_limit };
    Ok(supervisor::run(&args.file, worker_program("gateway", &record, WHO)?, &|name| level.set(name))?)
}

fn replay(args: &GatewayReplayArgs) -> Result<(), Error> {
    let file = File::open(&args.file).map_err(Error::file(&args.file))?;
    let recording = Recording::new(&args.file.display().to_string(), file)?;
    let comparison = if args.element { replay::replay_element(recording)? } else { replay::replay(recording)? };
    if args.json.json {
        print_json(&serde_json::to_value(&comparison).map_err(std::io::Error::from)?)?;
    } else {
        let Comparison { engines, packets, dropped, replaced, timeouts, sent, .. } = comparison;
        let [engines, packets, timeouts] =
            [(engines, "engine"), (packets, "packet"), (timeouts, "timeout")].map(|(n, what)| count(n as usize, what));
        let mut out = stdout().lock();
        writeln!(out, "{engines}: {packets} ({dropped} dropped, {replaced} replaced), {timeouts}, {sent} generated")?;
    }
    let calls = comparison.packets + comparison.timeouts;
    verdict(&args.file, comparison.differences, calls)
}

fn check(args: &GatewayCheckArgs) -> Result<(), Error> {
    print_findings(&args.file, &check::check(&Gateway::load(&args.file)?), &args.json)
}

fn report(args: &GatewayReportArgs) -> Result<(), Error> {
    if let Some(out) = &args.link {
        return link(args, out);
    }
    // Reading it first reports errors before the gateway is asked.
    let promise = args.promise.as_deref().map(answers::promise).transpose()?;
    let mut answer = control::ask(&socket(&args.ask.socket)?, Request::Report)?;
    if args.ask.json.json {
        if let Some(promise) = &promise {
            put_into(&mut answer, promise);
        }
        return print_json(&answer);
    }
    Ok(stdout()
        .lock()
        .write_all(fold(&words::report(&answers::read(&answer)?, promise.as_ref()), width()).as_bytes())?)
}

/// Writes the scenario of the hop that a gateway has observed.
fn link(args: &GatewayReportArgs, out: &Path) -> Result<(), Error> {
    if out.exists() && !args.force {
        return Err(Error::There { flag: "link", path: out.to_path_buf() });
    }
    let answer = control::ask(&socket(&args.ask.socket)?, Request::Report)?;
    let answer: Report = answers::read(&answer)?;
    let LinkFile { process, file } = answer.link.ok_or(Error::NoTape)?;
    let path = format!("/proc/{process}/fd/{file}");
    let tape = std::fs::read(&path).map_err(|error| Error::Tape { path: path.into(), error })?;
    let capture = tape::capture(&tape);
    let name = "the gateway's hop";
    let given = Given { rate: args.rate, ..Given::default() };
    let seen = [NamedFile { name: name.to_owned(), bytes: &capture }];
    let access = Access { files: Files::Memory(&seen), ..Access::DISK };
    let link = measured_from(&access, Path::new(name), None, &given)?;
    let text = link.scenario()?;
    Scenario::parse(&out.display().to_string(), &text)?;
    write_file(out, |file| file.write_all(text.as_bytes()).map_err(Error::file(out)))?;
    if args.ask.json.json {
        return print_json(
            &json!({ "link": link.words(), "remark": link.remark, "file": out.display().to_string(), "fit": link.down.report }),
        );
    }
    let shown = out.display();
    if let Some(remark) = &link.remark {
        note(&format!("{name}: {remark}"));
    }
    let said = format!("{}\nwrote {shown}; next: lasthop compare {shown}; lasthop advise {shown}\n", link.words());
    Ok(stdout().lock().write_all(fold(&said, width()).as_bytes())?)
}

fn status(args: &GatewayStatusArgs) -> Result<(), Error> {
    let GatewayAskArgs { socket: named, json } = &args.ask;
    let path = socket(named)?;
    let ask = || Ok(control::ask(&path, Request::Status)?);
    answers::status(json, args.watch, ask, words::status)
}

/// Returns the control socket, from the configuration file if one is given.
fn socket(args: &GatewaySocketArgs) -> Result<PathBuf, Error> {
    match &args.config {
        Some(file) => Ok(Gateway::load(file)?.control),
        None => Ok(args.control.clone()),
    }
}

fn clean(args: &GatewayCleanArgs) -> Result<(), Error> {
    let control = match &args.file {
        Some(file) => Gateway::load(file)?.control,
        None => socket(&args.socket)?,
    };
    // This comes first: it fails if a gateway is running, whose rules must stay.
    control::remove_stale(&control)?;
    let mut out = stdout().lock();
    for program in firewall::clean()? {
        writeln!(out, "removed the rules that {program} lists")?;
    }
    Ok(())
}

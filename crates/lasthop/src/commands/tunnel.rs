//! `lasthop tunnel`

pub mod secrets;
pub mod words;

use std::fs::File;
use std::io::{Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;

use lasthop_daemon::logs;
use lasthop_scenario::tunnel::Tunnel;
use lasthop_study::promise::put_into;
use lasthop_tunnel::{PresharedKey, PrivateKey};
use lasthop_tunneld::check;
use lasthop_tunneld::daemon::control::{self, Request};
use lasthop_tunneld::daemon::supervisor;
use lasthop_tunneld::daemon::worker;
use lasthop_tunneld::recording;
use lasthop_tunneld::recording::reader::Recording;
use lasthop_tunneld::recording::replay::Comparison;
use serde_json::json;

use crate::cli::{
    TunnelArgs, TunnelCheckArgs, TunnelCleanArgs, TunnelCommand, TunnelKeygenArgs, TunnelPubkeyArgs, TunnelReplayArgs,
    TunnelReportArgs, TunnelRunArgs, TunnelSocketArgs, TunnelStatusArgs,
};
use crate::commands::answers;
use crate::commands::daemon::{end_worker, print_findings, record_to, verdict, worker_program};
use crate::error::Error;
use crate::output::{count, print_json};
use crate::terminal::{fold, width};

/// Name of the recorder in messages.
const WHO: &str = "the tunnel";

/// Maximum number of bytes that are read from standard input for a key, which has 44.
const MOST_KEY: u64 = 4_096;

pub fn execute(args: &TunnelArgs) -> Result<(), Error> {
    match &args.command {
        TunnelCommand::Keygen(args) => keygen(args),
        TunnelCommand::Pubkey(args) => pubkey(args),
        TunnelCommand::Check(args) => check(args),
        TunnelCommand::Run(args) => run(args),
        TunnelCommand::Status(args) => status(args),
        TunnelCommand::Report(args) => report(args),
        TunnelCommand::Reload(args) => Ok(control::ask(&socket(args)?, Request::Reload).map(drop)?),
        TunnelCommand::Clean(args) => clean(args),
        TunnelCommand::Replay(args) => replay(args),
        TunnelCommand::Worker(args) => {
            logs::start();
            // Standard input is the supervisor's end of a pair of sockets.
            end_worker(worker::run(stdin().as_fd().try_clone_to_owned()?, record_to(args, WHO))?);
            Ok(())
        }
    }
}

fn keygen(args: &TunnelKeygenArgs) -> Result<(), Error> {
    let mut entropy = secrets::entropy()?;
    let (secret, public) = if args.preshared {
        (PresharedKey::generate(&mut entropy).to_base64(), None)
    } else {
        let key = PrivateKey::generate(&mut entropy);
        (key.to_base64(), Some(key.public().to_string()))
    };
    let kind = if args.preshared { "preshared_key" } else { "private_key" };
    if let Some(file) = &args.file {
        secrets::write(file, &secret)?;
    }
    if args.json.json {
        let mut answer = serde_json::Map::new();
        match &args.file {
            Some(file) => answer.insert(format!("{kind}_file"), json!(file.display().to_string())),
            None => answer.insert(kind.to_owned(), json!(secret)),
        };
        answer.extend(public.map(|public| ("public_key".to_owned(), json!(public))));
        return print_json(&answer);
    }
    let mut out = stdout().lock();
    match (&args.file, public) {
        // As `wg genkey` and `wg genpsk` do.
        (None, _) => writeln!(out, "{secret}")?,
        (Some(_), Some(public)) => writeln!(out, "{public}")?,
        // A preshared key has no public half.
        (Some(_), None) => {}
    }
    Ok(())
}

fn pubkey(args: &TunnelPubkeyArgs) -> Result<(), Error> {
    let key = match &args.file {
        Some(file) => {
            let text = lasthop_tunneld::secrets::read(file).map_err(Error::PrivateKey)?;
            PrivateKey::from_base64(&text).map_err(|error| format!("{}: {error}", file.display()))
        }
        None => {
            let mut text = String::new();
            stdin().lock().take(MOST_KEY).read_to_string(&mut text)?;
            PrivateKey::from_base64(&text).map_err(|error| format!("standard input: {error}"))
        }
    };
    let public = key.map_err(Error::PrivateKey)?.public().to_string();
    if args.json.json {
        return print_json(&json!({ "public_key": public }));
    }
    Ok(writeln!(stdout().lock(), "{public}")?)
}

fn check(args: &TunnelCheckArgs) -> Result<(), Error> {
    print_findings(&args.file, &check::check(&Tunnel::load(&args.file)?), &args.json)
}

fn run(args: &TunnelRunArgs) -> Result<(), Error> {
    if args.dry_run {
        let text = supervisor::dry_run(&args.file)?;
        return Ok(stdout().lock().write_all(text.as_bytes())?);
    }
    let level = logs::start();
    Ok(supervisor::run(&args.file, worker_program("tunnel", &args.record, WHO)?, &|name| level.set(name))?)
}

fn replay(args: &TunnelReplayArgs) -> Result<(), Error> {
    let file = File::open(&args.file).map_err(Error::file(&args.file))?;
    let comparison = recording::replay::replay(Recording::new(&args.file.display().to_string(), file)?)?;
    if args.json.json {
        print_json(&serde_json::to_value(&comparison).map_err(std::io::Error::from)?)?;
    } else {
        let Comparison { workers, links, packets, frames, timeouts, sent, handed_on, .. } = comparison;
        let words =
            [(workers, "worker"), (links, "link"), (packets, "packet"), (frames, "frame"), (timeouts, "timeout")];
        let [workers, links, packets, frames, timeouts] = words.map(|(n, what)| count(n as usize, what));
        let mut out = stdout().lock();
        writeln!(
            out,
            "{workers}, {links}: {packets} to send, {frames} received, {timeouts}; {sent} frames sent, {handed_on} delivered"
        )?;
    }
    let calls = comparison.calls();
    verdict(&args.file, comparison.differences, calls)
}

fn status(args: &TunnelStatusArgs) -> Result<(), Error> {
    let path = socket(&args.socket)?;
    let ask = || Ok(control::ask(&path, Request::Status)?);
    answers::status(&args.json, args.watch, ask, words::status)
}

fn report(args: &TunnelReportArgs) -> Result<(), Error> {
    // Reading it first reports errors before the tunnel is asked.
    let promise = args.promise.as_deref().map(answers::promise).transpose()?;
    let mut answer = control::ask(&socket(&args.socket)?, Request::Report)?;
    if args.json.json {
        if let Some(promise) = &promise {
            put_into(&mut answer, promise);
        }
        return print_json(&answer);
    }
    Ok(stdout()
        .lock()
        .write_all(fold(&words::report(&answers::read(&answer)?, promise.as_ref()), width()).as_bytes())?)
}

/// Returns the control socket, from the configuration file if one is given.
fn socket(args: &TunnelSocketArgs) -> Result<PathBuf, Error> {
    match &args.config {
        Some(file) => Ok(Tunnel::load(file)?.control),
        None => Ok(args.control.clone()),
    }
}

fn clean(args: &TunnelCleanArgs) -> Result<(), Error> {
    let path = match &args.file {
        Some(file) => Tunnel::load(file)?.control,
        None => socket(&args.socket)?,
    };
    if control::remove_stale(&path)? {
        writeln!(stdout().lock(), "removed {}", path.display())?;
    }
    Ok(())
}

//! `lasthop tunnel`

mod check;
mod secrets;

use std::io::{Write, stdout};

use lasthop_scenario::one_line;
use lasthop_scenario::tunnel::Tunnel;
use lasthop_tunnel::{PresharedKey, PrivateKey};
use serde_json::json;

use crate::cli::{TunnelArgs, TunnelCheckArgs, TunnelCommand, TunnelKeygenArgs};
use crate::error::Error;
use crate::output::print_json;
use crate::terminal::{fold, width};

pub fn execute(args: &TunnelArgs) -> Result<(), Error> {
    match &args.command {
        TunnelCommand::Keygen(args) => keygen(args),
        TunnelCommand::Check(args) => check(args),
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
        return print_json(&answer.into());
    }
    let mut out = stdout().lock();
    match (&args.file, public) {
        // As `wg genkey` and `wg genpsk` do.
        (None, _) => writeln!(out, "{secret}")?,
        (Some(_), Some(public)) => writeln!(out, "{public}")?,
        // What is shared has no public half.
        (Some(_), None) => {}
    }
    Ok(())
}

fn check(args: &TunnelCheckArgs) -> Result<(), Error> {
    let findings = check::check(&Tunnel::load(&args.file)?);
    if args.json.json {
        let findings = findings.iter().map(|finding| {
            json!({ "subject": finding.subject, "outcome": finding.outcome.name(), "detail": finding.detail })
        });
        print_json(&findings.collect())?;
    } else {
        let mut out = stdout().lock();
        for finding in &findings {
            let line = one_line(&format!("{}: {}", finding.subject, finding.detail));
            writeln!(out, "{}", fold(&format!("{:<8} {line}", finding.outcome.word()), width()))?;
        }
    }
    let missing = findings.iter().filter(|finding| finding.outcome == check::Outcome::Missing).count();
    match missing {
        0 => Ok(()),
        missing => Err(Error::Check { file: args.file.clone(), missing, total: findings.len() }),
    }
}

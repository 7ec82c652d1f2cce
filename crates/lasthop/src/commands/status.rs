//! `lasthop status`

#[cfg(feature = "serve")]
mod page;
#[cfg(feature = "serve")]
mod readings;

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lasthop_daemon::control::{ControlError, Request, ask_within};
use lasthop_gateway::configuration;
use lasthop_scenario::tunnel;
use serde_json::{Value, json};

use crate::cli::StatusArgs;
use crate::commands::{answers, gateway, tunnel as tunnel_command};
use crate::error::Error;
use crate::output::print_json;
use crate::progress::note;
use crate::terminal::{fold, width};

/// Maximum time for a status: a daemon that takes longer hangs, or is stopped.
const PATIENCE: Duration = Duration::from_secs(4);

/// Kind of daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Gateway,
    Tunnel,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Tunnel => "tunnel",
        }
    }

    /// Formats an answer for people.
    fn summary(self, answer: &Value) -> Result<String, Error> {
        Ok(match self {
            Self::Gateway => gateway::words::summary(&answers::read(answer)?),
            Self::Tunnel => tunnel_command::words::summary(&answers::read(answer)?),
        })
    }
}

/// Place where a daemon may be running.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    kind: Kind,
    control: PathBuf,
    /// True if the user named it: then it must be running.
    is_named: bool,
}

impl Place {
    fn ask(&self) -> Result<Value, ControlError> {
        ask_within(&self.control, self.kind.name(), Request::Status, PATIENCE)
    }
}

/// Returns the named places or, if none is named, those of the usual daemons.
fn places(args: &StatusArgs) -> Vec<Place> {
    let named = |kind, paths: &[PathBuf]| {
        let place = |control: &PathBuf| Place { kind, control: control.clone(), is_named: true };
        paths.iter().map(place).collect::<Vec<_>>()
    };
    let all = [named(Kind::Gateway, &args.gateway), named(Kind::Tunnel, &args.tunnel)].concat();
    if !all.is_empty() {
        return all;
    }
    let usual = [(Kind::Gateway, configuration::DEFAULT_CONTROL), (Kind::Tunnel, tunnel::DEFAULT_CONTROL)];
    usual.map(|(kind, control)| Place { kind, control: Path::new(control).to_owned(), is_named: false }).into()
}

/// Daemon that was asked.
type Asked = (Place, Result<Value, ControlError>);

/// Asks all daemons; leaves out usual ones that do not run. Returns an error if none answers.
fn ask_all(places: Vec<Place>) -> Result<Vec<Asked>, Error> {
    let all: Vec<Asked> = places.into_iter().map(|place| (place.clone(), place.ask())).collect();
    if !all.iter().any(|(_, answer)| answer.is_ok()) {
        let paths = all.iter().map(|(place, _)| place.control.clone()).collect();
        let mut errors = all.into_iter().filter_map(|(_, answer)| answer.err());
        return Err(errors.find(|error| !error.is_absence()).map_or(Error::NoDaemon { paths }, Error::from));
    }
    let is_shown = |(place, answer): &Asked| place.is_named || !matches!(answer, Err(error) if error.is_absence());
    Ok(all.into_iter().filter(is_shown).collect())
}

pub fn execute(args: &StatusArgs) -> Result<(), Error> {
    #[cfg(feature = "serve")]
    if let Some(address) = args.serve {
        return page::serve(args, places(args), address);
    }
    let all = ask_all(places(args))?;
    if args.json.json {
        let daemon = |(Place { kind, control, .. }, answer): &Asked| {
            let problem = answer.as_ref().err().map(ToString::to_string);
            json!({
                "daemon": kind.name(), "control": control.display().to_string(),
                "status": answer.as_ref().ok(), "problem": problem,
            })
        };
        print_json(&all.iter().map(daemon).collect::<Vec<_>>())?;
    } else {
        let mut out = stdout().lock();
        for (Place { kind, control, .. }, answer) in &all {
            let Ok(answer) = answer else { continue };
            let summary = kind.summary(answer)?;
            let lines: String = summary.lines().map(|line| format!("  {line}\n")).collect();
            let text = format!("{} at {}:\n{lines}", kind.name(), control.display());
            out.write_all(fold(&text, width()).as_bytes())?;
        }
    }
    // A named daemon that does not answer is an error; of the usual ones, one is enough.
    for (place, answer) in all {
        match answer {
            Err(error) if place.is_named => return Err(error.into()),
            Err(error) => note(&error.to_string()),
            Ok(_) => {}
        }
    }
    Ok(())
}

//! Page of running daemons.

use std::net::SocketAddr;
use std::sync::mpsc;

use lasthop_serve::HostNames;
use lasthop_serve::status::{Board, Source, serve as serve_board};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Place, ask_all};
use crate::cli::StatusArgs;
use crate::commands::site::Site;
use crate::error::Error;
use crate::progress::note;

const SITE: Site =
    Site { flag: "serve", exposes: "read the state of gateway and tunnel, with the addresses of the peers" };

/// Serves the page until Ctrl-C or SIGTERM.
pub fn serve(args: &StatusArgs, places: Vec<Place>, address: SocketAddr) -> Result<(), Error> {
    // The page waits for daemons that do not run yet. If no daemon may be asked, it would never show anything.
    match ask_all(places.clone()) {
        Err(error @ Error::NoDaemon { .. }) => note(&format!("{error}; the page waits for it")),
        other => drop(other?),
    }
    let run = getrandom::u64().map_err(|error| Error::Randomness(error.into()))?;
    let sources = places.into_iter().map(|place| Box::new(place) as Box<dyn Source>).collect();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::Signals)?;
    let listener = SITE.listen(address, args.open)?;
    let board = Board::watch(run, sources).map_err(SITE.refused(address))?;
    let (ended, end) = mpsc::channel();
    let (names, served) = (HostNames(args.host_name.clone()), ended.clone());
    std::thread::spawn(move || {
        let outcome = serve_board(listener, board, names).map_err(SITE.refused(address));
        // Receiving fails only when the process ends.
        let _ = served.send(outcome);
    });
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = ended.send(Ok(()));
        }
    });
    end.recv().unwrap_or(Ok(()))
}

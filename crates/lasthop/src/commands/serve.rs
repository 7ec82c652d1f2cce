//! `lasthop serve`

use std::io::{Write, stdout};
use std::process::{Command, Stdio};

use lasthop_serve::{Catalogue, HostNames, listen, openable, serve};

use crate::cli::ServeArgs;
use crate::error::Error;
use crate::progress::note;

pub fn execute(args: &ServeArgs) -> Result<(), Error> {
    let catalogue = Catalogue::new(&args.scenarios)?;
    let refused = |error| Error::Listen { address: args.listen, error };
    let listener = listen(args.listen).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    if !address.ip().is_loopback() {
        note(&format!(
            "warning: {address} is reachable from other machines: anyone who can connect can run simulations here, without password or encryption"
        ));
    }
    let urls: Vec<String> = openable(address).iter().map(|address| format!("http://{address}/")).collect();
    let mut out = stdout().lock();
    for url in &urls {
        writeln!(out, "{url}")?;
    }
    out.flush()?;
    drop(out);
    // If there are several, the last one is this machine's own.
    if let Some(url) = urls.last().filter(|_| args.open) {
        open(url);
    }
    serve(listener, catalogue, HostNames(args.host_name.clone())).map_err(refused)
}

/// Opens the page in the user's browser, if there is one.
fn open(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    if let Err(error) = Command::new(opener).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn() {
        note(&format!("cannot open a browser ({opener}: {error}); open {url} yourself"));
    }
}

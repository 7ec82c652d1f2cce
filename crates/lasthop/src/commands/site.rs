//! Parts shared by the commands that serve a page.

use std::io::{Write, stdout};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use lasthop_serve::{listen, openable};

use crate::error::Error;
use crate::progress::note;

/// Option that names the address of a page, and the consequence of making the page reachable from other machines.
pub struct Site {
    pub flag: &'static str,
    pub exposes: &'static str,
}

impl Site {
    /// Listens at `address`, prints the URLs of the page, and opens one of them if `open` is set.
    pub fn listen(&self, address: SocketAddr, open: bool) -> Result<TcpListener, Error> {
        let refused = self.refused(address);
        let listener = listen(address).map_err(&refused)?;
        let address = listener.local_addr().map_err(&refused)?;
        if !address.ip().is_loopback() {
            let exposes = self.exposes;
            note(&format!(
                "warning: {address} is reachable from other machines: anyone who can connect can {exposes}, without password or encryption"
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
        if let Some(url) = urls.last().filter(|_| open) {
            browse(url);
        }
        Ok(listener)
    }

    /// Converts an error of the server at `address`.
    pub fn refused(&self, address: SocketAddr) -> impl Fn(std::io::Error) -> Error + use<> {
        let flag = self.flag;
        move |error| Error::Listen { flag, address, error }
    }
}

/// Opens a page in the user's browser, if there is one.
fn browse(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    if let Err(error) = Command::new(opener).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn() {
        note(&format!("cannot open a browser ({opener}: {error}); open {url} yourself"));
    }
}

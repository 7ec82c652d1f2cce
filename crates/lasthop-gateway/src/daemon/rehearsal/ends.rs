//! Hosts of a rehearsal, and connections between them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use rustix::thread::LinkNameSpaceType;
use socket2::{Domain, Socket, Type};

use super::replica::{Replica, ReplicaError, within};

/// Time for a connection to open: a lost SYN is retransmitted after one second and after three.
const OPENING: Duration = Duration::from_secs(4);
/// Maximum silence of an open connection.
const SILENCE: Duration = Duration::from_secs(4);
/// Number of bytes that the host on the wired side sends.
const BYTES: usize = 60_000;

/// Outcome of a connection; the error is a description.
pub(super) type Transfer = Result<(), String>;

/// A host behind the hop and a host on the wired side, one of which opens connections to the other.
pub(super) struct Ends {
    opener: (File, SocketAddr),
    called: (File, SocketAddr),
    /// Listener of the called end.
    listener: TcpListener,
    /// True if the opener is the host on the wired side, which sends.
    opener_sends: bool,
}

impl Ends {
    /// Opens the listener of the called host at `port`.
    pub fn new(replica: &Replica, port: u16, opener_is_wired: bool) -> Result<Self, ReplicaError> {
        let host = |index: usize| {
            let file = replica.hosts[index].try_clone().map_err(ReplicaError::from_io("network namespace"))?;
            Ok::<_, ReplicaError>((file, replica.addresses[index]))
        };
        let (opener, called) = if opener_is_wired { (host(1)?, host(0)?) } else { (host(0)?, host(1)?) };
        let address = SocketAddr::new(called.1, port);
        let listener = within(&called.0, || TcpListener::bind(address)).and_then(|listener| listener);
        let listener = listener.map_err(ReplicaError::from_io("listener of the rehearsal"))?;
        listener.set_nonblocking(true).map_err(ReplicaError::from_io("listener of the rehearsal"))?;
        let opener = (opener.0, SocketAddr::new(opener.1, 0));
        Ok(Self { opener, called: (called.0, address), listener, opener_sends: opener_is_wired })
    }

    /// Returns the address of the host that opens connections.
    pub const fn opener(&self) -> IpAddr {
        self.opener.1.ip()
    }

    /// Returns the called end.
    pub const fn called(&self) -> SocketAddr {
        self.called.1
    }

    /// Opens a connection, sends data over the hop, and closes it.
    pub fn transfer(&self) -> Transfer {
        while self.listener.accept().is_ok() {
            // Left over from an earlier connection.
        }
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                let space = LinkNameSpaceType::Network;
                rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.opener.0), Some(space))
                    .map_err(|error| error.to_string())?;
                self.call()
            });
            let answered = self.answer();
            let called = calling.join().unwrap_or_else(|_| Err("the client failed".to_owned()));
            called.and(answered)
        })
    }

    fn call(&self) -> Transfer {
        let fail = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let domain = Domain::for_address(self.called.1);
        let socket = Socket::new(domain, Type::STREAM, None).map_err(fail("socket"))?;
        socket.bind(&self.opener.1.into()).map_err(fail("bind"))?;
        socket.connect_timeout(&self.called.1.into(), OPENING).map_err(fail("cannot connect"))?;
        converse(socket.into(), self.opener_sends)
    }

    fn answer(&self) -> Transfer {
        let end = std::time::Instant::now() + OPENING + Duration::from_millis(500);
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
                    return converse(stream, !self.opener_sends);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
            if std::time::Instant::now() >= end {
                return Err("the SYN does not reach the server".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends the data, or reads to the end.
fn converse(mut stream: std::net::TcpStream, sends: bool) -> Transfer {
    let fail = |error: std::io::Error| format!("data transfer failed: {error}");
    stream.set_read_timeout(Some(SILENCE)).map_err(fail)?;
    stream.set_write_timeout(Some(SILENCE)).map_err(fail)?;
    if sends {
        stream.write_all(&vec![7; BYTES]).map_err(fail)?;
        stream.shutdown(std::net::Shutdown::Write).map_err(fail)?;
    }
    let mut got = Vec::new();
    stream.read_to_end(&mut got).map_err(fail)?;
    let wanted = if sends { 0 } else { BYTES };
    if got.len() == wanted { Ok(()) } else { Err(format!("{} of {wanted} bytes arrived", got.len())) }
}

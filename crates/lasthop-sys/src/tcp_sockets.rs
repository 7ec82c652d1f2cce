//! Queries about this machine's TCP sockets (`sock_diag`) in any state.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::net::netlink::SOCK_DIAG;

use crate::netlink::{Request, Socket};

/// Timeout for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(20);
/// Message type `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// Socket for queries about TCP sockets.
#[derive(Debug)]
pub struct TcpSockets(Socket);

impl TcpSockets {
    /// Opens the socket.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no `sock_diag`.
    pub fn open() -> io::Result<Self> {
        Socket::open(Some(SOCK_DIAG)).map(Self)
    }

    /// Returns whether a socket with these two ends exists: open, opening (a SYN was received), or in TIME_WAIT.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel cannot answer (no `inet_diag`).
    pub fn has(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<bool> {
        match self.0.ask(Request::one(BY_FAMILY, &request(local, remote)), PATIENCE, |_, _| {}) {
            Ok(()) => Ok(true),
            // `inet_diag_find_one_icsk` returns ENOENT, and so does a kernel without `tcp_diag`; the caller detects the
            // latter with a socket that exists.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns a `struct inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let mut bytes = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
    // Any state.
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&local.port().to_be_bytes());
    bytes.extend_from_slice(&remote.port().to_be_bytes());
    for end in [local, remote] {
        let mut room = [0; 16];
        match end.ip() {
            IpAddr::V4(address) => room[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => room = address.octets(),
        }
        bytes.extend_from_slice(&room);
    }
    // Any interface; no cookie.
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_found_by_its_two_ends_and_another_is_not() {
        let Ok(mut sockets) = TcpSockets::open() else { return };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            // A kernel without `inet_diag` cannot answer.
            let Ok(true) = sockets.has(local, remote) else { continue };
            assert!(sockets.has(remote, local).unwrap());
            let stranger = SocketAddr::new(local.ip(), local.port() ^ 1);
            assert!(!sockets.has(stranger, remote).unwrap());
        }
    }
}

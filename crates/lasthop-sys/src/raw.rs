//! Complete IP packets that the gateway sends itself; their mark makes them bypass its own rules.

use std::io;
use std::net::{IpAddr, SocketAddr};

use lasthop_wire::Ip;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Size of the send buffer, in bytes: a burst of repairs must not be lost here.
const SEND_BUFFER: usize = 4 << 20;

/// Sockets that send complete IP packets of either version.
#[derive(Debug)]
pub struct Sender {
    v4: Socket,
    /// Socket for IPv6; `None` on a machine without it.
    v6: Option<Socket>,
}

impl Sender {
    /// Opens sockets whose packets have `mark`. Fails without permission to open raw sockets.
    pub fn new(mark: u32) -> io::Result<Self> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
            socket.set_mark(mark)?;
            socket.set_nonblocking(true)?;
            // Exceed the system's limit if permitted; otherwise use what it allows.
            if rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
                let _ = socket.set_send_buffer_size(SEND_BUFFER);
            }
            Ok::<_, io::Error>(socket)
        };
        let v4 = open(Domain::IPV4)?;
        v4.set_header_included_v4(true)?;
        Ok(Self { v4, v6: open(Domain::IPV6).ok() })
    }

    /// Sets the mark of packets sent from now on.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.v4.set_mark(mark)?;
        self.v6.as_ref().map_or(Ok(()), |v6| v6.set_mark(mark))
    }

    /// Sends a packet to its destination address. Fails if it is not an IP packet, exceeds the interface's MTU, or has
    /// no route.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidInput, "not an IP packet");
        let destination = Ip::new_checked(packet).ok_or_else(malformed)?.destination();
        let socket = match destination {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => self.v6.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?,
        };
        // The port has no meaning with IPPROTO_RAW.
        socket.send_to(packet, &SockAddr::from(SocketAddr::new(destination, 0))).map(drop)
    }
}

//! Packets that the gateway sends by itself, whole from their IP header on, past its own rules by their mark.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Bytes of packets on their way out: a burst of repairs must not be lost here.
const SEND_BUFFER: usize = 4 << 20;

/// Sockets that send whole IP packets of either version.
#[derive(Debug)]
pub struct Sender {
    v4: Socket,
    /// None on a machine without IPv6.
    v6: Option<Socket>,
}

impl Sender {
    /// Sockets whose packets bear `mark`. Fails without the right to open raw sockets.
    pub fn new(mark: u32) -> io::Result<Self> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
            socket.set_mark(mark)?;
            socket.set_nonblocking(true)?;
            // Beyond the system's limit where that is allowed; what there is otherwise.
            if rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
                let _ = socket.set_send_buffer_size(SEND_BUFFER);
            }
            Ok::<_, io::Error>(socket)
        };
        let v4 = open(Domain::IPV4)?;
        v4.set_header_included_v4(true)?;
        Ok(Self { v4, v6: open(Domain::IPV6).ok() })
    }

    /// From now on packets bear this mark.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.v4.set_mark(mark)?;
        self.v6.as_ref().map_or(Ok(()), |v6| v6.set_mark(mark))
    }

    /// Sends a packet to where its destination address says. Fails when the packet is no IP packet, longer than the
    /// interface takes, or there is no way to its destination.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidInput, "not an IP packet");
        let destination = destination(packet).ok_or_else(malformed)?;
        let socket = match destination {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => self.v6.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?,
        };
        // The port has no meaning with IPPROTO_RAW.
        socket.send_to(packet, &SockAddr::from(SocketAddr::new(destination, 0))).map(drop)
    }
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?).into()),
        6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?).into()),
        _ => None,
    }
}

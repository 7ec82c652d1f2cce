//! Datagrams in batches: one system call for many, and one pass through the kernel for datagrams of equal size to the
//! same destination.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lasthop_proto::packet::Ecn;
use lasthop_sys::poll::wait;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};

use crate::engine::{Datagram, Outbox};

/// Size of the socket's send and receive buffers, in bytes.
const BUFFER: usize = 4 << 20;
/// Size of a receive buffer: the most that the kernel merges.
const LARGEST: usize = 65_536;
/// Number of receive buffers. What they hold stays in the processor's cache until it is handled.
const BUFFERS: usize = if BATCH_SIZE < 8 { BATCH_SIZE } else { 8 };
/// Maximum number of bytes in one call.
const MOST_BYTES: usize = 65_000;
/// Time to wait for space in the kernel's buffer.
const PATIENCE: Duration = Duration::from_millis(5);

/// UDP socket that sends without fragmentation.
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    /// True for IPv6: IPv4 addresses are mapped.
    maps: bool,
}

impl Udp {
    /// Binds a socket to `address`, and to `interface` if given.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn bind(address: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if let Some(interface) = interface {
            let refused = |error: io::Error| io::Error::new(error.kind(), format!("on interface {interface}: {error}"));
            socket.bind_device(Some(interface.as_bytes())).map_err(refused)?;
        }
        if address.is_ipv6() {
            // A specific address is limited to IPv6.
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        // Exceed the system's limit if permitted; otherwise use what it allows.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            let _ = socket.set_recv_buffer_size(BUFFER);
        }
        if rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, BUFFER).is_err() {
            let _ = socket.set_send_buffer_size(BUFFER);
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, maps: address.is_ipv6() })
    }

    /// Converts an address for the socket.
    fn outer(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.maps => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
            address => address,
        }
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Received datagrams.
pub struct Inbox {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BUFFERS],
    count: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { buffers: vec![vec![0; LARGEST]; BUFFERS], metas: [RecvMeta::default(); BUFFERS], count: 0 }
    }
}

/// Received datagram.
pub struct Received<'b> {
    /// Source.
    pub from: SocketAddr,
    /// Destination address.
    pub to: Option<IpAddr>,
    /// ECN field of the datagram's IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub bytes: &'b mut [u8],
}

impl Inbox {
    /// Receives waiting datagrams. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn fill(&mut self, udp: &Udp) -> io::Result<bool> {
        self.count = 0;
        let mut slices: Vec<IoSliceMut<'_>> = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        match udp.state.recv((&udp.socket).into(), &mut slices, &mut self.metas) {
            Ok(count) => self.count = count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // An ICMP error for an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        Ok(self.count > 0)
    }

    /// Passes each datagram to `take`.
    pub fn for_each(&mut self, mut take: impl FnMut(Received<'_>)) {
        for (buffer, meta) in self.buffers.iter_mut().zip(&self.metas).take(self.count) {
            let from = SocketAddr::new(meta.addr.ip().to_canonical(), meta.addr.port());
            let to = meta.dst_ip.map(|ip| ip.to_canonical());
            let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            let filled = buffer.get_mut(..meta.len).unwrap_or_default();
            for bytes in filled.chunks_mut(meta.stride.max(1)) {
                take(Received { from, to, ecn, bytes });
            }
        }
    }
}

/// Common properties of the datagrams in one call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: u8,
}

/// Datagrams to be sent in one call.
#[derive(Default)]
pub struct Batch {
    kind: Option<Kind>,
    bytes: Vec<u8>,
    /// Size of each datagram except the last, which may be shorter.
    size: usize,
    count: usize,
    is_complete: bool,
    /// Destinations and sizes of datagrams that the system refused as too big.
    pub too_big: Vec<(SocketAddr, u16)>,
    /// Number of datagrams that the system refused for other reasons.
    pub unsent: u64,
}

impl Batch {
    /// Sends the waiting datagrams.
    pub fn flush(&mut self, udp: &Udp) {
        let Some(kind) = self.kind.take() else { return };
        let mut from = kind.from;
        for _ in 0..3 {
            let transmit = Transmit {
                destination: udp.outer(kind.to),
                ecn: EcnCodepoint::from_bits(kind.ecn),
                contents: &self.bytes,
                segment_size: (self.count > 1).then_some(self.size),
                src_ip: from,
            };
            match udp.state.try_send((&udp.socket).into(), &transmit) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let _ = wait(&mut [PollFd::new(udp, PollFlags::OUT)], PATIENCE);
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    self.too_big.push((kind.to, self.size as u16));
                    break;
                }
                // The source address may no longer belong to this machine.
                Err(_) if from.is_some() => {
                    from = None;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, to = %kind.to, "cannot send");
                    self.unsent += self.count as u64;
                    break;
                }
            }
        }
        self.bytes.clear();
        (self.count, self.size, self.is_complete) = (0, 0, false);
    }
}

/// A batch and its socket.
pub struct Sending<'a> {
    /// The socket.
    pub udp: &'a Udp,
    /// The batch.
    pub batch: &'a mut Batch,
}

impl Outbox for Sending<'_> {
    fn put(&mut self, datagram: Datagram<'_>) {
        self.batch.put(self.udp, datagram);
    }
}

impl Batch {
    /// Adds a datagram; sends the ones before it if it does not fit.
    pub fn put(&mut self, udp: &Udp, datagram: Datagram<'_>) {
        let kind = Kind { to: datagram.to, from: datagram.from, ecn: datagram.ecn.bits() };
        let length = datagram.bytes.len();
        let fits = self.kind == Some(kind)
            && !self.is_complete
            && length <= self.size
            && self.count < udp.state.max_gso_segments()
            && self.bytes.len() + length <= MOST_BYTES;
        if !fits {
            self.flush(udp);
            (self.kind, self.size) = (Some(kind), length);
        }
        self.bytes.extend_from_slice(datagram.bytes);
        self.count += 1;
        self.is_complete = length < self.size;
    }
}

//! UDP sockets that report arrival time and traffic class of each datagram.

use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

use crate::option;

/// Buffer size for a datagram, in bytes: jumbo frames fit; longer ones are truncated, and longer than any that is
/// expected.
const ROOM: usize = 9216;
/// Buffer size for control messages, in bytes: a time, a traffic class, a count, each with its header.
const CONTROL: usize = 256;
/// Maximum number of datagrams per call.
const BATCH: usize = 64;
/// Requested size of the receive buffer, in bytes; the kernel grants less without permission.
const BUFFER: usize = 4 << 20;

/// UDP socket. Datagrams are never fragmented (`IP_PMTUDISC_PROBE`: the known path MTU is ignored too).
pub struct Datagrams {
    socket: Socket,
    buffer: Box<[u8; ROOM]>,
    overruns: u32,
    class: u8,
}

/// Received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'b> {
    /// Time since the kernel received the datagram, in nanoseconds.
    pub age: u64,
    /// Source.
    pub from: SocketAddr,
    /// Traffic class: the code point, and two bits of ECN.
    pub class: u8,
    /// Content.
    pub bytes: &'b [u8],
}

impl Datagrams {
    /// Opens a socket that receives datagrams at `address`. An IPv6 socket does not accept IPv4.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is in use, or not this machine's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let datagrams = Self::new(address)?;
        datagrams.socket.bind(&address.into())?;
        Ok(datagrams)
    }

    /// Opens a socket that exchanges datagrams with `address` only.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no route.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let datagrams = Self::new(address)?;
        datagrams.socket.connect(&address.into())?;
        Ok(datagrams)
    }

    fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        option::set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
        if option::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER as libc::c_int).is_err() {
            socket.set_recv_buffer_size(BUFFER)?;
        }
        // A sender waits while its queue is full, but not forever.
        socket.set_write_timeout(Some(std::time::Duration::from_millis(200)))?;
        if address.is_ipv4() {
            option::set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
            option::set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        } else {
            socket.set_only_v6(true)?;
            option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        Ok(Self { socket, buffer: Box::new([0; ROOM]), overruns: 0, class: 0 })
    }

    /// Returns the socket's own address.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Receives at most a batch of waiting datagrams. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel reports an error; for a connected socket also if no socket is bound to the other
    /// address.
    pub fn receive(&mut self, mut take: impl FnMut(Arrived<'_>)) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.receive_one() {
                Ok((len, from, age, class)) => {
                    if let Some(from) = from.as_socket() {
                        take(Arrived { age, from, class, bytes: &self.buffer[..len.min(ROOM)] });
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn receive_one(&mut self) -> io::Result<(usize, SockAddr, u64, u8)> {
        let mut control = [0_u64; CONTROL / 8];
        let mut storage = SockAddrStorage::zeroed();
        let mut vector = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: ROOM };
        // SAFETY: all zeros is a valid header: null pointers and no lengths.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw mut storage).cast();
        header.msg_namelen = storage.size_of();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = CONTROL as _;
        // SAFETY: the header points to a name, a buffer and a control buffer of the lengths that it says, which live
        // through the call.
        let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        let (mut age, mut class) = (0, 0);
        // SAFETY: the kernel filled the header and its control buffer, which are still there; what it writes under
        // these types is a `timespec`, a byte or an integer, and an integer.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(&header);
            while !message.is_null() {
                let data = libc::CMSG_DATA(message);
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = ptr::read_unaligned(data.cast::<libc::timespec>());
                        age = crate::packet_socket::realtime().saturating_sub(crate::packet_socket::nanos(time));
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.overruns = ptr::read_unaligned(data.cast::<u32>()),
                    (libc::IPPROTO_IP, libc::IP_TOS) => class = *data,
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        class = ptr::read_unaligned(data.cast::<libc::c_int>()) as u8;
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(&header, message);
            }
        }
        // SAFETY: the kernel wrote an address of this length into the storage, or none.
        let from = unsafe { SockAddr::new(storage, header.msg_namelen) };
        Ok((len, from, age, class))
    }

    /// Sends a datagram with a traffic class to an address; a connected socket has only one.
    ///
    /// # Errors
    ///
    /// Returns an error if it exceeds the interface's MTU, there is no route, or no socket is bound to the address.
    pub fn send(&mut self, to: SocketAddr, class: u8, bytes: &[u8]) -> io::Result<()> {
        if class != self.class {
            let (level, name) = match to {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            option::set(&self.socket, level, name, class.into())?;
            self.class = class;
        }
        self.socket.send_to(bytes, &to.into()).map(|_| ())
    }

    /// Returns the number of datagrams that the kernel has dropped because they were not received in time.
    pub fn overruns(&self) -> u32 {
        self.overruns
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a datagram between two sockets and returns its received content and class.
    fn exchange(address: &str) -> (Vec<u8>, u8) {
        let mut to = Datagrams::bind(address.parse().unwrap()).unwrap();
        let there = to.local_address().unwrap();
        let mut from = Datagrams::connect(there).unwrap();
        from.send(there, 46 << 2, b"hello").unwrap();
        let mut seen = None;
        for _ in 0..1000 {
            to.receive(|arrived| {
                assert!(arrived.age < 60_000_000_000 && arrived.from == from.local_address().unwrap());
                seen = Some((arrived.bytes.to_vec(), arrived.class));
            })
            .unwrap();
            if let Some(seen) = seen {
                return seen;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("nothing came");
    }

    #[test]
    fn datagrams_come_with_their_class() {
        assert_eq!(exchange("127.0.0.1:0"), (b"hello".to_vec(), 46 << 2));
        if std::net::UdpSocket::bind("[::1]:0").is_ok() {
            assert_eq!(exchange("[::1]:0"), (b"hello".to_vec(), 46 << 2));
        }
    }

    #[test]
    fn a_connected_socket_learns_that_nobody_listens() {
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut datagrams = Datagrams::connect(free).unwrap();
        datagrams.send(free, 0, b"hello").unwrap();
        let refused = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            datagrams.receive(|_| {}).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        assert!(refused);
        // Exceeds the MTU of every interface.
        assert!(datagrams.send(free, 0, &[0; 65_600]).is_err());
    }
}

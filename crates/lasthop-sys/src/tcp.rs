//! What `socket2` lacks of the kernel's TCP sockets: `TCP_INFO`, positions in the streams, some options.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::option;

/// Not in `libc` yet; kernel's `include/uapi/linux/tcp.h`.
const TCP_RTO_MAX_MS: libc::c_int = 44;
const TCP_RTO_MIN_US: libc::c_int = 45;
/// `SIOCOUTQNSD`: how much of what waits to be acknowledged has not been sent.
pub(crate) const UNSENT: libc::c_ulong = 0x894b;

/// What the kernel says of a connection (`struct tcp_info`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpInfo {
    /// Both directions are over, and all bytes have been acknowledged, or the connection is dead.
    pub closed: bool,
    /// Segments sent again, SYNs included.
    pub retransmissions: u64,
    /// Retransmission timers that expired, in a row too; from Linux 6.7 on.
    pub timeouts: Option<u64>,
    /// The smoothed round trip in microseconds; 0: never measured.
    pub rtt_micros: u64,
    /// Bytes of what was sent that are acknowledged; 0 before Linux 4.1.
    pub acknowledged: u64,
    /// Microseconds in which something was under way or waited to be sent; 0 before Linux 4.10.
    pub busy_micros: u64,
    /// Of a listener: how many connections may wait.
    pub backlog: u32,
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; 512];
        let len = option::read(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(Self::read(&bytes[..len]))
    }

    /// Fields are only ever added at the end: what a kernel does not have is not there.
    fn read(bytes: &[u8]) -> Self {
        // The states that matter here; kernel's `net/tcp_states.h`.
        const TCP_CLOSE: u8 = 7;
        const TCP_LISTEN: u8 = 10;
        /// `tcpi_total_rto`, which `libc` does not have yet.
        const TOTAL_RTO: usize = 240;
        /// `tcpi_bytes_acked` and `tcpi_busy_time`, which `libc` does not have everywhere.
        const BYTES_ACKED: usize = 120;
        const BUSY_TIME: usize = 168;
        let word =
            |at: usize| bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let long =
            |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let state = bytes.get(offset_of!(libc::tcp_info, tcpi_state)).copied().unwrap_or_default();
        let timeouts = bytes.get(TOTAL_RTO..TOTAL_RTO + 2).and_then(|field| field.try_into().ok());
        Self {
            closed: state == TCP_CLOSE,
            retransmissions: word(offset_of!(libc::tcp_info, tcpi_total_retrans)).into(),
            timeouts: timeouts.map(|field| u64::from(u16::from_ne_bytes(field))),
            rtt_micros: word(offset_of!(libc::tcp_info, tcpi_rtt)).into(),
            acknowledged: long(BYTES_ACKED),
            busy_micros: long(BUSY_TIME),
            // What this field says of a listener (`tcp_get_info`).
            backlog: if state == TCP_LISTEN { word(offset_of!(libc::tcp_info, tcpi_sacked)) } else { 0 },
        }
    }
}

/// Sets the least retransmission timeout beyond the round trip.
///
/// # Errors
///
/// Before Linux 6.15.
pub fn set_least_timeout(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US, span.as_micros() as libc::c_int)
}

/// Sets the longest retransmission timeout, however often it doubles: 1 to 120 s.
///
/// # Errors
///
/// Before Linux 6.15, and outside of these bounds.
pub fn set_longest_timeout(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    let millis = libc::c_int::try_from(span.as_millis()).unwrap_or(libc::c_int::MAX);
    option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, millis)
}

/// Bounds the window that is announced, in bytes.
///
/// # Errors
///
/// As the kernel says.
pub fn clamp_window(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    option::set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Bytes that were written to a socket and are not acknowledged.
///
/// # Errors
///
/// As the kernel says.
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<u32> {
    waiting(socket, libc::TIOCOUTQ)
}

/// Bytes that were written to a socket and were never sent.
///
/// # Errors
///
/// As the kernel says.
pub fn unsent(socket: &impl AsFd) -> io::Result<u32> {
    waiting(socket, UNSENT)
}

/// Bytes of the stream that wait, as one of the requests for that tells.
fn waiting(socket: &impl AsFd, request: libc::c_ulong) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests that come here write one integer, for which there is room.
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request as _, &raw mut bytes) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::try_from(bytes).unwrap_or_default()) }
}

/// Where a connection stands in both streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The next to be sent.
    pub next: u32,
    /// The first that has not been acknowledged.
    pub unacknowledged: u32,
    /// The next that is expected.
    pub expected: u32,
}

impl Numbers {
    /// Where `socket` stands; none when the kernel does not say. Takes `CAP_NET_ADMIN`.
    pub fn of(socket: &impl AsFd) -> Option<Self> {
        /// `TCP_REPAIR_ON`, `TCP_REPAIR_OFF_NO_WP`, `TCP_RECV_QUEUE` and `TCP_SEND_QUEUE`.
        const ON: libc::c_int = 1;
        const OFF: libc::c_int = -1;
        const RECEIVE: libc::c_int = 1;
        const SEND: libc::c_int = 2;
        let set = |name, value| option::set(socket, libc::IPPROTO_TCP, name, value).ok();
        set(libc::TCP_REPAIR, ON)?;
        let queue = |queue| {
            set(libc::TCP_REPAIR_QUEUE, queue)?;
            option::get(socket, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ).ok().map(libc::c_int::cast_unsigned)
        };
        let (written, expected) = (queue(SEND), queue(RECEIVE));
        set(libc::TCP_REPAIR, OFF)?;
        let (unsent, all) = (unsent(socket).ok()?, unacknowledged(socket).ok()?);
        let written = written?;
        Some(Self {
            next: written.wrapping_sub(unsent),
            unacknowledged: written.wrapping_sub(all),
            expected: expected?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_old_kernel_has_no_count_of_timeouts() {
        let mut bytes = [0; 248];
        bytes[68] = 9;
        bytes[100] = 7;
        bytes[240] = 3;
        let old = TcpInfo { retransmissions: 7, rtt_micros: 9, ..TcpInfo::default() };
        assert_eq!(TcpInfo::read(&bytes), TcpInfo { timeouts: Some(3), ..old });
        assert_eq!(TcpInfo::read(&bytes[..232]), old);
        assert_eq!(TcpInfo::read(&[]), TcpInfo::default());
    }

    #[test]
    fn a_connection_is_told_from_a_listener_and_from_one_that_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let waiting = TcpInfo::of(&listener).unwrap();
        assert!(waiting.backlog > 0 && !waiting.closed, "{waiting:?}");
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let open = TcpInfo::of(&near).unwrap();
        assert!(open.backlog == 0 && !open.closed && open.rtt_micros > 0, "{open:?}");
        // The end that hears the last acknowledgment is over at once.
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        far.shutdown(Shutdown::Write).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            TcpInfo::of(&far).unwrap().closed
        }));
    }

    #[test]
    fn the_longest_timeout_is_bounded_where_the_kernel_can() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = set_longest_timeout(&listener, Duration::from_secs(3));
        // From Linux 6.15 on; before, it knows of no such option.
        let millis = option::get(&listener, libc::IPPROTO_TCP, TCP_RTO_MAX_MS);
        assert_eq!(set.is_ok(), millis.is_ok_and(|millis| millis == 3000));
        assert!(set_longest_timeout(&listener, Duration::from_millis(10)).is_err());
    }

    #[test]
    fn the_kernel_refuses_what_is_no_tcp_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err() && clamp_window(&socket, 1 << 16).is_err());
        assert_eq!(Numbers::of(&socket), None);
    }
}

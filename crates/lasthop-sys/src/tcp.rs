//! Features of the kernel's TCP sockets that `socket2` lacks: `TCP_INFO`, positions in the streams, some options.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use lasthop_proto::tcp::info::{Fields, NAMES};

use crate::option;

/// Constants that `libc` lacks; from the kernel's `include/uapi/linux/tcp.h`.
const TCP_RTO_MAX_MS: libc::c_int = 44;
const TCP_RTO_MIN_US: libc::c_int = 45;
/// Request `SIOCOUTQNSD`: the unsent part of the unacknowledged data.
pub(crate) const UNSENT: libc::c_ulong = 0x894b;

/// Number of bytes of the longest `struct tcp_info` that is read.
const LONGEST: usize = 512;

/// The kernel's report on a connection (`struct tcp_info`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpInfo {
    /// True if both directions are closed and all bytes acknowledged, or if the connection is dead.
    pub closed: bool,
    /// Segments retransmitted, SYNs included.
    pub retransmissions: u64,
    /// Expired retransmission timers, consecutive ones included; `None` before Linux 6.7.
    pub timeouts: Option<u64>,
    /// Smoothed round-trip time, in microseconds; 0 if never measured.
    pub rtt_micros: u64,
    /// Acknowledged bytes; 0 before Linux 4.1.
    pub acknowledged: u64,
    /// Time with data in flight or waiting to be sent, in microseconds; 0 before Linux 4.10.
    pub busy_micros: u64,
    /// Maximum number of waiting connections of a listener.
    pub backlog: u32,
}

/// A field of `struct tcp_info`: its name without the prefix, its offset, and its size in bytes.
type Field = (&'static str, usize, usize);

/// Fields of `struct tcp_info` that are whole bytes, by the kernel's `include/uapi/linux/tcp.h`.
const FIELDS: [Field; 43] = [
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("probes", 3, 1),
    ("backoff", 4, 1),
    ("options", 5, 1),
    ("rto", 8, 4),
    ("ato", 12, 4),
    ("snd_mss", 16, 4),
    ("rcv_mss", 20, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("rcv_ssthresh", 64, 4),
    ("rtt", 68, 4),
    ("rttvar", 72, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("reordering", 88, 4),
    ("rcv_rtt", 92, 4),
    ("total_retrans", 100, 4),
    ("pacing_rate", 104, 8),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("notsent_bytes", 144, 4),
    ("min_rtt", 148, 4),
    ("busy_time", 168, 8),
    ("delivered", 192, 4),
    ("delivered_ce", 196, 4),
    ("dsack_dups", 216, 4),
    ("snd_wnd", 228, 4),
    ("rcv_wnd", 232, 4),
    ("total_rto", 240, 2),
    ("received_ce", 248, 4),
    ("delivered_e1_bytes", 252, 4),
    ("delivered_e0_bytes", 256, 4),
    ("delivered_ce_bytes", 260, 4),
    ("received_e1_bytes", 264, 4),
    ("received_e0_bytes", 268, 4),
    ("received_ce_bytes", 272, 4),
    ("accecn_fail_mode", 276, 2),
    ("accecn_opt_seen", 278, 2),
];

/// Offset of the byte with the shifts of both windows, whose order in the byte is that of the machine's bit fields.
const WINDOW_SHIFTS: usize = 6;

/// Returns the kernel's whole report on a connection. A field is `None` if this kernel does not report it.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn fields(socket: &impl AsFd) -> io::Result<Fields> {
    report(socket, |bytes| Fields(NAMES.map(|name| field(bytes, name))))
}

/// Queries the kernel's structure, and returns what `read` makes of its bytes.
fn report<T>(socket: &impl AsFd, read: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    let mut bytes = [0_u8; LONGEST];
    let len = option::read(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(read(&bytes[..len]))
}

/// Returns a field of the structure by its name without the prefix `tcpi_`; `None` if the structure lacks it, or if the
/// kernel marks the value as unknown.
fn field(bytes: &[u8], name: &str) -> Option<u64> {
    let shifts = || {
        let byte = *bytes.get(WINDOW_SHIFTS)?;
        let halves = [byte % 16, byte / 16];
        Some(if cfg!(target_endian = "little") { halves } else { [halves[1], halves[0]] })
    };
    match name {
        "snd_wscale" => return shifts().map(|[snd, _]| snd.into()),
        "rcv_wscale" => return shifts().map(|[_, rcv]| rcv.into()),
        _ => {}
    }
    let (_, at, size) = *FIELDS.iter().find(|(field, ..)| *field == name)?;
    let value = match bytes.get(at..at + size)? {
        [byte] => u64::from(*byte),
        [first, second] => u16::from_ne_bytes([*first, *second]).into(),
        bytes if size == 4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        bytes => u64::from_ne_bytes(bytes.try_into().ok()?),
    };
    let is_unknown = match name {
        // `TCP_INFINITE_SSTHRESH`.
        "snd_ssthresh" => value == 0x7fff_ffff,
        // Initial values of the minimum filter and of the pacing rate.
        "min_rtt" => value == u64::from(u32::MAX),
        "pacing_rate" => value == u64::MAX,
        "rtt" | "rcv_rtt" => value == 0,
        _ => false,
    };
    (!is_unknown).then_some(value)
}

impl TcpInfo {
    /// Queries the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        report(socket, Self::read)
    }

    /// Parses the structure. Fields are only added at its end, so older kernels return a shorter one.
    fn read(bytes: &[u8]) -> Self {
        // States from the kernel's `net/tcp_states.h`.
        const TCP_CLOSE: u64 = 7;
        const TCP_LISTEN: u64 = 10;
        let of = |name| field(bytes, name);
        let state = of("state");
        Self {
            closed: state == Some(TCP_CLOSE),
            retransmissions: of("total_retrans").unwrap_or_default(),
            timeouts: of("total_rto"),
            rtt_micros: of("rtt").unwrap_or_default(),
            acknowledged: of("bytes_acked").unwrap_or_default(),
            busy_micros: of("busy_time").unwrap_or_default(),
            // Meaning of this field for a listener (`tcp_get_info`).
            backlog: of("sacked").filter(|_| state == Some(TCP_LISTEN)).unwrap_or_default() as u32,
        }
    }
}

/// Sets the minimum retransmission timeout beyond the round-trip time.
///
/// # Errors
///
/// Returns an error on kernels before Linux 6.15.
pub fn set_least_timeout(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US, span.as_micros() as libc::c_int)
}

/// Sets the maximum retransmission timeout after backoff, 1 s to 120 s.
///
/// # Errors
///
/// Returns an error on kernels before Linux 6.15, and for a value outside these bounds.
pub fn set_longest_timeout(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    let millis = libc::c_int::try_from(span.as_millis()).unwrap_or(libc::c_int::MAX);
    option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, millis)
}

/// Limits the advertised window, in bytes.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn clamp_window(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    option::set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Returns the number of bytes written to a socket that are not acknowledged.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<u32> {
    waiting(socket, libc::TIOCOUTQ)
}

/// Returns the number of bytes written to a socket that were never sent.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn unsent(socket: &impl AsFd) -> io::Result<u32> {
    waiting(socket, UNSENT)
}

/// Returns the number of waiting bytes according to one of the two requests.
fn waiting(socket: &impl AsFd, request: libc::c_ulong) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one integer, for which `bytes` has space.
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request as _, &raw mut bytes) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::try_from(bytes).unwrap_or_default()) }
}

/// Positions of a connection in both streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Next sequence number to be sent.
    pub next: u32,
    /// First unacknowledged sequence number.
    pub unacknowledged: u32,
    /// Next expected sequence number.
    pub expected: u32,
}

impl Numbers {
    /// Returns the positions of `socket`; `None` if the kernel does not report them. Needs `CAP_NET_ADMIN`.
    pub fn of(socket: &impl AsFd) -> Option<Self> {
        /// Constants `TCP_REPAIR_ON`, `TCP_REPAIR_OFF_NO_WP`, `TCP_RECV_QUEUE` and `TCP_SEND_QUEUE`.
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
    fn every_field_has_the_kernels_value() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = fields(&near).unwrap();
        // TCP_ESTABLISHED, and Linux's initial window.
        assert_eq!((info.get("state"), info.get("snd_cwnd"), info.get("unacked")), (Some(1), Some(10), Some(0)));
        assert_eq!((info.get("snd_ssthresh"), info.get("rcv_rtt"), info.get("total_retrans")), (None, None, Some(0)));
        assert!(info.get("rtt") > Some(0) && info.get("snd_mss") > Some(1000), "{info:?}");
        let old = [0; 104];
        assert_eq!(
            (field(&old, "total_retrans"), field(&old, "pacing_rate"), field(&old, "no_field")),
            (Some(0), None, None)
        );
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
        // The end that receives the last acknowledgment is closed at once.
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
        // The option exists since Linux 6.15.
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

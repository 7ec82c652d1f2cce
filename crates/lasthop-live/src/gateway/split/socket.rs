//! The sockets of one side: their options, and what the kernel says of a connection.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use lasthop_scenario::gateway::PATIENCE;
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::admission::Ends;
use super::{Families, Side, SplitConfig, SplitError, TcpSide};

/// Not in `libc` yet; kernel's `include/uapi/linux/tcp.h`.
const TCP_RTO_MAX_MS: libc::c_int = 44;
const TCP_RTO_MIN_US: libc::c_int = 45;

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TcpReport {
    /// Both directions are over, and all bytes have been acknowledged, or the connection is dead.
    pub closed: bool,
    pub retransmissions: u64,
    /// 0: never measured.
    pub rtt_micros: u64,
    /// Of a listener: how many connections may wait.
    pub backlog: u32,
}

/// Listens on a loopback address for what `rule` brings from `side`. Accepted sockets inherit all options but `O_NONBLOCK`.
pub(super) fn listen(config: &SplitConfig, rule: usize, side: Side, loopback: IpAddr) -> Result<Socket, SplitError> {
    let tcp = config.rules[rule].side(side);
    let address = SocketAddr::new(loopback, config.port(config.listener(rule, side)));
    let system = |what: &str| SplitError::system(format!("{what} on {address}"));
    let socket = transparent(address).map_err(system("transparent socket (needs CAP_NET_ADMIN)"))?;
    set_congestion(&socket, tcp).map_err(|source| SplitError::Congestion {
        side,
        name: tcp.congestion.clone().unwrap_or_default(),
        available: std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .unwrap_or_default()
            .trim()
            .into(),
        source,
    })?;
    set_options(&socket, config, tcp).map_err(system("socket options"))?;
    // The two halves have the same addresses: the firewall tells them by this mark.
    socket.set_mark(config.marks.accepted).map_err(system("SO_MARK"))?;
    socket.bind(&address.into()).map_err(system("bind"))?;
    socket.listen(i32::from(config.backlog)).map_err(system("listen"))?;
    Ok(socket)
}

/// The loopback address of each family, as the rules name it.
pub(super) const fn loopbacks(families: Families) -> &'static [IpAddr] {
    const BOTH: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match families {
        Families::V4AndV6 => &BOTH,
        Families::V4Only => BOTH.split_at(1).0,
    }
}

/// Begins a connection to the server that appears to come from the client.
pub(super) fn connect(config: &SplitConfig, tcp: &TcpSide, Ends { client, server }: Ends) -> io::Result<Socket> {
    let socket = transparent(client)?;
    set_congestion(&socket, tcp)?;
    set_options(&socket, config, tcp)?;
    socket.set_mark(config.marks.opened)?;
    socket.bind(&client.into())?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}

fn transparent(of_family: SocketAddr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(of_family), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    // One client port may lead to many servers.
    socket.set_reuse_address(true)?;
    match of_family {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_ip_transparent_v6(true)?;
        }
    }
    Ok(socket)
}

fn set_congestion(socket: &Socket, side: &TcpSide) -> io::Result<()> {
    side.congestion.as_ref().map_or(Ok(()), |name| socket.set_tcp_congestion(name.as_bytes()))
}

fn set_options(socket: &Socket, config: &SplitConfig, tcp: &TcpSide) -> io::Result<()> {
    // The ends decide when to send; Nagle's algorithm has had its say there.
    socket.set_tcp_nodelay(true)?;
    // Urgent data stay in their place in the stream, instead of vanishing.
    socket.set_out_of_band_inline(true)?;
    // What the far end of an idle connection would notice when the near one has gone must be noticed here.
    let keepalive =
        TcpKeepalive::new().with_time(config.keepalive).with_interval(Duration::from_secs(30)).with_retries(5);
    socket.set_tcp_keepalive(&keepalive)?;
    // A socket that is closed otherwise than by `close` sends a reset, also when this process is killed: an end of the
    // stream would pass for the end of the file.
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(span) = tcp.rto_min {
        // Refused before Linux 6.15, where the kernel's own remains.
        let _ = set_number(socket, TCP_RTO_MIN_US, span.as_micros() as libc::c_int);
    }
    if let Some(span) = tcp.rto_max {
        // Refused before Linux 6.15, too. The kernel would give up after 15 of these timeouts.
        let taken = set_number(socket, TCP_RTO_MAX_MS, span.as_millis() as libc::c_int);
        let patience = Duration::from_nanos(PATIENCE.as_nanos());
        taken.map_or(Ok(()), |()| socket.set_tcp_user_timeout(Some(patience)))?;
    }
    if let Some(bytes) = tcp.buffer {
        // The kernel doubles what is asked for, to have room for its own bookkeeping. Before the handshake, since the
        // window scale is settled there.
        if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
            socket.set_recv_buffer_size(bytes)?;
        }
        if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
            socket.set_send_buffer_size(bytes)?;
        }
    }
    Ok(())
}

/// What the kernel says of `socket`; zeros when it says nothing.
pub(super) fn report(socket: &Socket) -> TcpReport {
    // The state of a socket whose connection is over; kernel's `net/tcp_states.h`.
    const TCP_CLOSE: u8 = 7;
    const TCP_LISTEN: u8 = 10;
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has room for `length` bytes, and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return TcpReport::default();
    }
    // SAFETY: all integers, for which zeros, where an older kernel wrote nothing, are valid.
    let info = unsafe { info.assume_init() };
    TcpReport {
        closed: info.tcpi_state == TCP_CLOSE,
        retransmissions: u64::from(info.tcpi_total_retrans),
        rtt_micros: u64::from(info.tcpi_rtt),
        // What this field says of a listener (`tcp_get_info`).
        backlog: if info.tcpi_state == TCP_LISTEN { info.tcpi_sacked } else { 0 },
    }
}

/// Where a connection stands in both streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    /// The next to be sent.
    pub next: u32,
    /// The first that has not been acknowledged.
    pub unacknowledged: u32,
    /// The next that is expected.
    pub expected: u32,
}

/// `SIOCOUTQNSD`: how much of what waits to be acknowledged has not been sent.
pub(in crate::gateway) const UNSENT: libc::c_ulong = 0x894b;

/// Where `socket` stands; none when the kernel does not say. Takes `CAP_NET_ADMIN`.
pub(super) fn numbers(socket: &Socket) -> Option<Numbers> {
    /// `TCP_REPAIR_ON`, `TCP_REPAIR_OFF_NO_WP`, `TCP_RECV_QUEUE` and `TCP_SEND_QUEUE`.
    const ON: libc::c_int = 1;
    const OFF: libc::c_int = -1;
    const RECEIVE: libc::c_int = 1;
    const SEND: libc::c_int = 2;
    set_number(socket, libc::TCP_REPAIR, ON)?;
    let queue = |queue| {
        set_number(socket, libc::TCP_REPAIR_QUEUE, queue)?;
        number(socket, libc::TCP_QUEUE_SEQ)
    };
    let (written, expected) = (queue(SEND), queue(RECEIVE));
    set_number(socket, libc::TCP_REPAIR, OFF)?;
    let unsent = waiting(socket, UNSENT)?;
    let all = waiting(socket, libc::TIOCOUTQ)?;
    let written = written?;
    Some(Numbers { next: written.wrapping_sub(unsent), unacknowledged: written.wrapping_sub(all), expected: expected? })
}

fn set_number(socket: &Socket, option: libc::c_int, value: libc::c_int) -> Option<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is an integer of `length` bytes, which the kernel reads during the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw const value).cast(), length) };
    (result == 0).then_some(())
}

fn number(socket: &Socket, option: libc::c_int) -> Option<u32> {
    let (mut value, mut length) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: `value` has room for `length` bytes, and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw mut value).cast(), &raw mut length)
    };
    (result == 0).then_some(value)
}

/// Bytes of the stream that wait, as one of the requests for that tells.
fn waiting(socket: &Socket, request: libc::c_ulong) -> Option<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests that come here write one integer, for which there is room.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut bytes) };
    (result == 0).then(|| u32::try_from(bytes).unwrap_or(0))
}

/// Lets the kernel deliver what is left, and end the connection in good order.
pub(super) fn close(socket: Socket) {
    // Fails only where nothing is left to be delivered.
    let _ = socket.set_linger(None);
}

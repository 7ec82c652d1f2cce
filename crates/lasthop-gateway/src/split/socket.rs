//! Sockets of one side: their options, and the kernel's reports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use lasthop_sys::tcp::{TcpInfo, set_least_timeout, set_longest_timeout};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::opening::Ends;
use super::{Families, Side, SplitConfig, SplitError, TcpSide, quiet};
use crate::configuration::PATIENCE;

/// Listens on a loopback address for connections of `rule` that `side` opens. Accepted sockets inherit all options but
/// `O_NONBLOCK`.
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
    // The two halves have the same addresses; this mark distinguishes them for the firewall.
    socket.set_mark(config.marks.accepted).map_err(system("SO_MARK"))?;
    socket.bind(&address.into()).map_err(system("bind"))?;
    socket.listen(i32::from(config.backlog)).map_err(system("listen"))?;
    Ok(socket)
}

/// Returns the loopback addresses of the families, as the rules name them.
pub(super) const fn loopbacks(families: Families) -> &'static [IpAddr] {
    const BOTH: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match families {
        Families::V4AndV6 => &BOTH,
        Families::V4Only => BOTH.split_at(1).0,
    }
}

/// Starts a connection to the server with the client's address as source.
pub(super) fn connect(config: &SplitConfig, tcp: &TcpSide, Ends { client, server }: Ends) -> io::Result<Socket> {
    let socket = transparent(client)?;
    set_congestion(&socket, tcp)?;
    set_options(&socket, config, tcp)?;
    begin(socket, config, Ends { client, server })
}

/// Starts a connection to find out whether the server answers. The answer is not acknowledged at once: if the
/// connection is reset before, the server's program never sees it.
pub(super) fn try_connect(config: &SplitConfig, ends: Ends) -> io::Result<Socket> {
    let socket = transparent(ends.client)?;
    rustix::net::sockopt::set_tcp_quickack(&socket, false)?;
    begin(socket, config, ends)
}

fn begin(socket: Socket, config: &SplitConfig, Ends { client, server }: Ends) -> io::Result<Socket> {
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
    // One client port may connect to many servers.
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
    // The ends decide when to send; Nagle's algorithm has already been applied there.
    socket.set_tcp_nodelay(true)?;
    // Urgent data stays in the stream.
    socket.set_out_of_band_inline(true)?;
    // Keepalive detects peers that have left: without data the gateway would not notice. An end that does not answer
    // may be out of coverage: the kernel's usual interval and count allow more than ten minutes.
    let keepalive = TcpKeepalive::new()
        .with_time(quiet::FIRST.min(config.keepalive))
        .with_interval(Duration::from_secs(75))
        .with_retries(9);
    socket.set_tcp_keepalive(&keepalive)?;
    // A socket closed other than by `close` sends a reset, also when this process is killed: a FIN would look like the
    // end of the data.
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(span) = tcp.rto_min {
        // Fails before Linux 6.15; the kernel's default remains.
        let _ = set_least_timeout(socket, span);
    }
    if let Some(span) = tcp.rto_max {
        // Fails before Linux 6.15 as well. By default the kernel would abort after 15 of these timeouts.
        let patience = Duration::from_nanos(PATIENCE.as_nanos());
        if set_longest_timeout(socket, span).is_ok() {
            socket.set_tcp_user_timeout(Some(patience))?;
        }
    }
    if let Some(bytes) = tcp.buffer {
        // The kernel doubles the size to account for its own bookkeeping. Set before the handshake, which determines
        // the window scale.
        if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
            socket.set_recv_buffer_size(bytes)?;
        }
        if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
            socket.set_send_buffer_size(bytes)?;
        }
    }
    Ok(())
}

/// Returns the kernel's report on `socket`; zeros if there is none.
pub(super) fn report(socket: &Socket) -> TcpInfo {
    TcpInfo::of(socket).unwrap_or_default()
}

/// Closes a socket gracefully: the kernel delivers the remaining data.
pub(super) fn close(socket: Socket) {
    // Fails only if no data remains.
    let _ = socket.set_linger(None);
}

/// Enables the kernel's detection of path-MTU black holes (RFC 4821) if it is off. The end hosts may rely on it, and
/// the relay sends in their place.
pub(super) fn find_black_holes() {
    const PROBING: &str = "/proc/sys/net/ipv4/tcp_mtu_probing";
    if std::fs::read_to_string(PROBING).is_ok_and(|text| text.trim() == "0") {
        match std::fs::write(PROBING, "1") {
            Ok(()) => {
                tracing::info!("net.ipv4.tcp_mtu_probing set to 1: split connections detect path-MTU black holes")
            }
            Err(error) => {
                tracing::warn!(%error, "cannot set net.ipv4.tcp_mtu_probing to 1; split connections may stall in path-MTU black holes")
            }
        }
    }
}

//! Sockets of the kernel's TCP with the scenario's settings, and the kernel's counters.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddrV4;

use lasthop_proto::tcp::config::{Nagle, TcpConfig};
use lasthop_sys::tcp::clamp_window;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use super::error::LabError;
use super::kernel;
use super::plan::Plan;

/// Creates a non-blocking TCP socket in the calling thread's namespace, bound to `address`.
///
/// # Errors
///
/// Returns an error if the kernel rejects an option, or does not have the congestion control.
pub fn socket(plan: &Plan<'_>, config: &TcpConfig, address: SocketAddrV4) -> Result<Socket, LabError> {
    let fail = |what: &'static str| LabError::system(format!("cannot {what} at {address}"));
    let (protocol, create) = match plan.is_mptcp() {
        true => (Protocol::MPTCP, "create a socket of Multipath TCP (is net.mptcp.enabled 1?)"),
        false => (Protocol::TCP, "create a TCP socket"),
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).map_err(fail(create))?;
    socket.set_reuse_address(true).map_err(fail("reuse the address"))?;
    socket.set_nonblocking(true).map_err(fail("make the socket non-blocking"))?;
    socket.set_tcp_nodelay(config.common.nagle == Nagle::Off).map_err(fail("set TCP_NODELAY"))?;
    socket.set_tcp_mss(plan.segment(config)).map_err(fail("set the segment size"))?;
    // Force: beyond the limits of unprivileged sockets. The kernel doubles both for its own overhead, and stops tuning
    // a buffer that was set.
    if let Some(bytes) = kernel::send_buffer(config) {
        sockopt::set_socket_send_buffer_size_force(&socket, size(bytes))
            .map_err(|error| fail("set the send buffer")(error.into()))?;
    }
    if let Some(bytes) = kernel::receive_buffer(config) {
        sockopt::set_socket_recv_buffer_size_force(&socket, size(bytes))
            .map_err(|error| fail("set the receive buffer")(error.into()))?;
        // The kernel resets this when it remeasures its overhead. Setting it again during a transfer would be worse:
        // the window would change between duplicate acknowledgments, which the sender then does not count as such (RFC
        // 5681 §2).
        if !plan.is_mptcp() {
            // Multipath TCP has no such option.
            clamp_window(&socket, bytes).map_err(fail("set the window"))?;
        }
    }
    set_congestion(&socket, plan.congestion(config)?)?;
    socket.bind(&address.into()).map_err(fail("bind a socket"))?;
    Ok(socket)
}

/// Limits a size to the kernel's maximum.
fn size(bytes: u32) -> usize {
    bytes.min(i32::MAX as u32) as usize
}

fn set_congestion(socket: &Socket, name: &str) -> Result<(), LabError> {
    sockopt::set_tcp_congestion(socket, name).map_err(|error| no_congestion(name, error.into()))
}

/// Sets the default congestion control of the calling thread's namespace.
///
/// # Errors
///
/// Returns an error if the kernel does not have it, or does not allow it as a namespace's default.
pub fn set_default_congestion(name: &str) -> Result<(), LabError> {
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
            LabError::CongestionNotAllowed {
                name: name.to_owned(),
                allowed: allowed.unwrap_or_default().trim().to_owned(),
            }
        }
        _ => no_congestion(name, error),
    })
}

fn no_congestion(name: &str, error: io::Error) -> LabError {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ");
    LabError::Congestion { name: name.to_owned(), error, available }
}

/// Counters of a kernel's TCP and Multipath TCP by name, as in `nstat` (`TcpExt` and `MPTcpExt` in `/proc/net/netstat`),
/// and `RetransSegs`, without zeros.
pub type Counters = BTreeMap<String, u64>;

/// Returns the kernel's counters of the calling thread's namespace.
///
/// # Errors
///
/// Returns an error if they cannot be read.
pub fn counters() -> Result<Counters, LabError> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| LabError::File { path: path.into(), error });
    let mut counters = read_counters(&read("/proc/thread-self/net/netstat")?, &["TcpExt:", "MPTcpExt:"]);
    let mut basic = read_counters(&read("/proc/thread-self/net/snmp")?, &["Tcp:"]);
    counters.extend(basic.remove_entry(RETRANSMITTED));
    Ok(counters)
}

/// Counter of retransmitted segments.
const RETRANSMITTED: &str = "RetransSegs";

/// Returns the number of retransmitted segments.
pub fn retransmitted(counters: &Counters) -> u64 {
    counters.get(RETRANSMITTED).copied().unwrap_or_default()
}

/// Returns the number of additional subflows of Multipath TCP that peers opened.
pub fn joined(counters: &Counters) -> u64 {
    counters.get("MPJoinAckRx").copied().unwrap_or_default()
}

/// Returns the number of loss recoveries that began without a timeout.
pub fn recoveries(counters: &Counters) -> u64 {
    ["TCPRenoRecovery", "TCPSackRecovery"].iter().filter_map(|name| counters.get(*name)).sum()
}

/// Returns the number of frames that devices of the calling thread's namespace could not send.
///
/// # Errors
///
/// Returns an error if the counters cannot be read.
pub fn unsent() -> Result<u64, LabError> {
    let path = "/proc/thread-self/net/dev";
    let text = fs::read_to_string(path).map_err(|error| LabError::File { path: path.into(), error })?;
    Ok(send_drops(&text))
}

/// Returns the sum of a table's transmit drops, the twelfth column after the name.
fn send_drops(table: &str) -> u64 {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    rows.filter_map(|(_, fields)| fields.split_whitespace().nth(11)?.parse::<u64>().ok()).sum()
}

/// Parses the counters of these groups in a file of name lines, each followed by its line of values.
fn read_counters(text: &str, groups: &[&str]) -> Counters {
    let lines: Vec<&str> = text.lines().collect();
    let of_tcp = lines.chunks_exact(2).filter(|pair| groups.iter().any(|group| pair[0].starts_with(group)));
    let fields = of_tcp.flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    let counters = fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    counters.filter(|(_, value)| *value > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "TcpExt: A TCPRenoRecovery TCPSackRecovery\nTcpExt: 0 22 3\nIpExt: C\nIpExt: 4\n\
            MPTcpExt: MPJoinAckRx\nMPTcpExt: 2\n";
        let counters = read_counters(text, &["TcpExt:", "MPTcpExt:"]);
        let expected = [("TCPRenoRecovery", 22), ("TCPSackRecovery", 3), ("MPJoinAckRx", 2)];
        assert_eq!(counters, expected.map(|(n, v)| (n.to_owned(), v)).into());
        assert_eq!((recoveries(&counters), joined(&counters)), (25, 2));
        assert_eq!(recoveries(&read_counters("TcpExt: A\nTcpExt: x\n", &["TcpExt:"])), 0);
        let counters = read_counters("Ip: RetransSegs\nIp: 9\nTcp: InSegs RetransSegs\nTcp: 5 4\n", &["Tcp:"]);
        assert_eq!(retransmitted(&counters), 4);
    }

    #[test]
    fn drops_of_all_devices_add_up() {
        let table = "Inter-|   Receive                  |  Transmit\n\
            \u{20}face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n\
            \u{20}   lo:       1       2    3    4    5     6          7         8        9      10   11   12    13    14      15         16\n\
            link0: 1 2 3 4 5 6 7 8 9 10 11 30 13 14 15 16\n";
        assert_eq!(send_drops(table), 42);
        assert_eq!(send_drops(""), 0);
    }
}

//! UDP sockets in the hosts' namespaces, and the kernel's count of datagrams that they refused.

use std::fs;
use std::net::{SocketAddrV4, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::error::LabError;

/// Size of each socket's buffers in bytes: data that arrives while an end's thread waits for a processor must fit.
const BUFFER: usize = 8 << 20;

/// Creates a non-blocking UDP socket in the calling thread's namespace, bound to `address`. Several sockets can have the
/// same address if each is connected to another peer. Errors name the purpose.
///
/// # Errors
///
/// Returns an error if the kernel refuses the socket or an option.
pub fn socket(address: SocketAddrV4, purpose: &str) -> Result<UdpSocket, LabError> {
    let fail = |what: &str| LabError::system(format!("cannot {what} at {address} for {purpose}"));
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(fail("create a UDP socket"))?;
    socket.set_reuse_address(true).map_err(fail("reuse the address"))?;
    socket.set_nonblocking(true).map_err(fail("make the socket non-blocking"))?;
    // Beyond the limits of unprivileged sockets.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)
        .map_err(LabError::errno(format!("cannot set the receive buffer at {address} for {purpose}")))?;
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, BUFFER)
        .map_err(LabError::errno(format!("cannot set the send buffer at {address} for {purpose}")))?;
    socket.bind(&address.into()).map_err(fail("bind a UDP socket"))?;
    Ok(socket.into())
}

/// Returns the number of datagrams that full sockets of the calling thread's namespace refused.
///
/// # Errors
///
/// Returns an error if the counters cannot be read.
pub fn refused() -> Result<u64, LabError> {
    let path = "/proc/thread-self/net/snmp";
    let text = fs::read_to_string(path).map_err(|error| LabError::File { path: path.into(), error })?;
    Ok(refused_in(&text))
}

/// Returns the number of refused datagrams from a file of name lines, each followed by its line of values.
fn refused_in(text: &str) -> u64 {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Udp:")).collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    let full = pairs.filter(|(name, _)| matches!(*name, "RcvbufErrors" | "SndbufErrors"));
    full.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_datagrams_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
            Udp: 9 8 7 6 5 4 3\nUdpLite: RcvbufErrors\nUdpLite: 100\n";
        assert_eq!(refused_in(text), 9);
        assert_eq!(refused_in(""), 0);
    }
}

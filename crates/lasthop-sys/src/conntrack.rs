//! Queries to connection tracking (ctnetlink).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use lasthop_wire::Route;
use rustix::net::netlink::NETFILTER;

use crate::netlink::{Request, Socket, attribute, attributes, nested};

/// Message type `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`.
const GET: u16 = 0x101;
/// Timeout for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(20);
/// Pause between two searches of the whole table, which can take the kernel a millisecond or more: a multiple of the
/// last search's duration, and a minimum.
const REST: u32 = 50;
const SHORTEST_REST: Duration = Duration::from_millis(5);

/// Attributes: `enum ctattr_type`.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const PROTOCOL_STATE: u16 = 4;
const FILTER: u16 = 25;
/// Attributes: `CTA_PROTOINFO_TCP`, and `CTA_PROTOINFO_TCP_STATE` in it.
const OF_TCP: u16 = 1;
const STATE: u16 = 1;
/// States from `TCP_CONNTRACK_ESTABLISHED` to `TCP_CONNTRACK_LAST_ACK`: neither opening nor closed.
const UNDER_WAY: std::ops::RangeInclusive<u8> = 3..=6;
/// Nested attributes: `enum ctattr_tuple`, `ctattr_ip` and `ctattr_l4proto`.
const IP: u16 = 1;
const PROTOCOL: u16 = 2;
const V4_SOURCE: u16 = 1;
const V4_DESTINATION: u16 = 2;
const V6_SOURCE: u16 = 3;
const V6_DESTINATION: u16 = 4;
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
/// Filter flags for source address, protocol and source port (`CTA_FILTER_FLAG`).
const BY_SOURCE: u32 = 1 | 1 << 3 | 1 << 4;

/// Tracked connection: source and destination in each direction, as packets arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Route from the opener.
    pub original: Route,
    /// Route from the called end.
    pub reply: Route,
}

/// Result of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The connection is tracked.
    Entry(Entry),
    /// The connection is not tracked.
    Nothing,
    /// The table has just been searched for another connection, or the kernel did not answer in time; try again later.
    Later,
}

/// The kernel did not answer in time, or still answers an earlier query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unanswered;

/// Socket for queries to connection tracking.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
    next_search: Option<Instant>,
}

impl Conntrack {
    /// Opens a socket for queries.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: Socket::open(Some(NETFILTER))?, next_search: None })
    }

    /// Finds the connection whose packets are forwarded on this route.
    pub fn find(&mut self, now: Instant, route: Route) -> Found {
        let back = route.reversed();
        // A direct query finds it in the direction whose destination is not translated.
        for direction in [route, back] {
            match self.ask_for(get(direction), entry) {
                Ok(Some(entry)) => return Found::Entry(entry),
                Ok(None) => {}
                Err(Unanswered) => return Found::Later,
            }
        }
        // Both destinations are translated, or the connection is tracked in another zone.
        if self.next_search.is_some_and(|next| now < next) {
            return Found::Later;
        }
        let mut answers = [route, back].into_iter().map(|direction| self.ask_for(search(direction), entry));
        // An unanswered search does not show that there is no connection.
        let found = match answers.find(|answer| !matches!(answer, Ok(None))) {
            Some(Ok(Some(entry))) => Found::Entry(entry),
            Some(Err(Unanswered)) => Found::Later,
            Some(Ok(None)) | None => Found::Nothing,
        };
        let end = Instant::now();
        self.next_search = Some(end + (end.duration_since(now) * REST).max(SHORTEST_REST));
        found
    }

    /// Returns whether a TCP connection with arriving packets on this route is tracked, and neither opening nor closed.
    pub fn is_under_way(&mut self, route: Route) -> bool {
        matches!(self.ask_for(get(route), state), Ok(Some(state)) if UNDER_WAY.contains(&state))
    }

    /// Returns the same as [`Conntrack::is_under_way`] for any zone, which needs a search of the whole table.
    pub fn is_under_way_in_any_zone(&mut self, route: Route) -> bool {
        let is_under_way = |body: &[u8]| state(body).filter(|state| UNDER_WAY.contains(state));
        matches!(self.ask_for(search(route), is_under_way), Ok(Some(_)))
    }

    /// Returns what `read` finds in the answer first.
    fn ask_for<T: Copy>(
        &mut self,
        request: Request,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Unanswered> {
        let mut found = None;
        let asked = self.socket.ask(request, PATIENCE, |_, body| found = found.or_else(|| read(body)));
        match asked {
            Err(error) if found.is_none() && error.raw_os_error() != Some(libc::ENOENT) => {
                tracing::debug!(%error, "connection tracking does not answer");
                let is_busy = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy);
                if is_busy { Err(Unanswered) } else { Ok(None) }
            }
            _ => Ok(found),
        }
    }
}

fn family(address: SocketAddr) -> [u8; 4] {
    [if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8, 0, 0, 0]
}

fn ip(kind_v4: u16, kind_v6: u16, address: SocketAddr) -> Vec<u8> {
    match address.ip() {
        IpAddr::V4(address) => attribute(kind_v4, &address.octets()),
        IpAddr::V6(address) => attribute(kind_v6, &address.octets()),
    }
}

/// Returns a query for the connection that has packets with exactly these addresses.
fn get(Route { source, destination }: Route) -> Request {
    let tuple = [
        nested(IP, &[ip(V4_SOURCE, V6_SOURCE, source), ip(V4_DESTINATION, V6_DESTINATION, destination)]),
        nested(
            PROTOCOL,
            &[
                attribute(NUMBER, &[libc::IPPROTO_TCP as u8]),
                attribute(SOURCE_PORT, &source.port().to_be_bytes()),
                attribute(DESTINATION_PORT, &destination.port().to_be_bytes()),
            ],
        ),
    ];
    Request::one(GET, &family(source)).with_nested(ORIGINAL, &tuple)
}

/// Returns a query for the connections between these two ends, regardless of translated addresses.
fn search(Route { source: one, destination: other }: Route) -> Request {
    let tuple = |from: SocketAddr| {
        let protocol =
            [attribute(NUMBER, &[libc::IPPROTO_TCP as u8]), attribute(SOURCE_PORT, &from.port().to_be_bytes())];
        [nested(IP, &[ip(V4_SOURCE, V6_SOURCE, from)]), nested(PROTOCOL, &protocol)]
    };
    let flags = BY_SOURCE.to_ne_bytes();
    Request::list(GET, &family(one))
        .with_nested(ORIGINAL, &tuple(one))
        .with_nested(REPLY, &tuple(other))
        .with_nested(FILTER, &[attribute(1, &flags), attribute(2, &flags)])
}

fn entry(body: &[u8]) -> Option<Entry> {
    let (mut original, mut reply) = (None, None);
    for (kind, value) in attributes(body.get(4..)?) {
        match kind {
            ORIGINAL => original = tuple(value),
            REPLY => reply = tuple(value),
            _ => {}
        }
    }
    Some(Entry { original: original?, reply: reply? })
}

/// Returns the state of a TCP connection in connection tracking.
fn state(body: &[u8]) -> Option<u8> {
    let inner = |bytes, wanted| attributes(bytes).find(|&(kind, _)| kind == wanted).map(|(_, value)| value);
    let of_tcp = inner(inner(body.get(4..)?, PROTOCOL_STATE)?, OF_TCP)?;
    inner(of_tcp, STATE)?.first().copied()
}

fn tuple(bytes: &[u8]) -> Option<Route> {
    let (mut from, mut to, mut ports) = (None, None, [None; 2]);
    for (kind, value) in attributes(bytes) {
        for (inner, value) in attributes(value) {
            match (kind, inner) {
                (IP, V4_SOURCE | V6_SOURCE) => from = address(value),
                (IP, V4_DESTINATION | V6_DESTINATION) => to = address(value),
                (PROTOCOL, SOURCE_PORT) => ports[0] = port(value),
                (PROTOCOL, DESTINATION_PORT) => ports[1] = port(value),
                _ => {}
            }
        }
    }
    Some(Route { source: SocketAddr::new(from?, ports[0]?), destination: SocketAddr::new(to?, ports[1]?) })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(Into::into),
        16 => <[u8; 16]>::try_from(value).ok().map(Into::into),
        _ => None,
    }
}

fn port(value: &[u8]) -> Option<u16> {
    value.try_into().ok().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_from_bytes_and_not_from_a_part_of_them() {
        let route =
            |one: &str, other: &str| Route { source: one.parse().unwrap(), destination: other.parse().unwrap() };
        let wanted =
            Entry { original: route("10.2.0.2:4000", "10.1.0.2:80"), reply: route("10.1.0.2:80", "10.1.0.1:61000") };
        let tuple = |Route { source: from, destination: to }: Route| {
            let ports = [
                attribute(NUMBER, &[6]),
                attribute(SOURCE_PORT, &from.port().to_be_bytes()),
                attribute(DESTINATION_PORT, &to.port().to_be_bytes()),
            ];
            let ips = [ip(V4_SOURCE, V6_SOURCE, from), ip(V4_DESTINATION, V6_DESTINATION, to)];
            [nested(IP, &ips), nested(PROTOCOL, &ports)]
        };
        let body = [
            family(wanted.original.source).to_vec(),
            nested(ORIGINAL, &tuple(wanted.original)),
            nested(REPLY, &tuple(wanted.reply)),
        ]
        .concat();
        assert_eq!(entry(&body), Some(wanted));
        assert!((0..body.len()).all(|len| entry(&body[..len]).is_none()));
    }

    #[test]
    fn a_state_is_read_from_bytes_and_not_from_a_part_of_them() {
        let of_tcp = nested(OF_TCP, &[attribute(STATE, &[3]), attribute(2, &[7])]);
        let body = [[0; 4].to_vec(), attribute(3, &[0; 4]), nested(PROTOCOL_STATE, &[of_tcp])].concat();
        assert_eq!(state(&body), Some(3));
        assert!((0..body.len() - 8).all(|len| state(&body[..len]).is_none()));
    }
}

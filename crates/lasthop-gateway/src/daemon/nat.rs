//! Source addresses of packets that the gateway sends itself, on machines that translate addresses.
//!
//! The rules send packets to the gateway between the two translations of netfilter: after that of destinations
//! (`PREROUTING`) and before that of sources (`POSTROUTING`). Both directions of a connection therefore have the same
//! addresses here. Packets that the gateway sends itself have these addresses too, and bypass connection tracking,
//! which would take a packet from the wired side to a masqueraded client for a new connection. The source is therefore
//! set here as `POSTROUTING` would: to the destination that connection tracking expects of the answers.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use lasthop_sys::conntrack::{Conntrack, Entry, Found};
use lasthop_wire::{Ip, IpMut, Route, Tcp};

/// Lifetime of a lookup: the same addresses may be reused by a connection with another translation.
const LIFETIME: Duration = Duration::from_secs(2);
/// Lifetime of a lookup that found no tracked connection.
const UNTRACKED: Duration = Duration::from_secs(10);
/// Maximum number of routes to remember.
const MOST: usize = 1 << 15;
/// Interval of checks whether connections are tracked at all.
const LOOK: Duration = Duration::from_secs(1);
/// File with the number of connections that the kernel tracks.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// Result of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The packet has its final source.
    Known,
    /// The source is not known yet; the packet is unchanged.
    Unknown,
}

/// Translator of source addresses.
#[derive(Debug, Default)]
pub(super) struct Translator {
    conntrack: Option<Conntrack>,
    count: Option<File>,
    /// True if connections are tracked, with the time until which this is valid.
    tracked: Option<(bool, Instant)>,
    /// Expiry time by route, and the source that the packet gets if it changes.
    known: HashMap<Route, (Instant, Option<SocketAddr>)>,
}

impl Translator {
    /// Opens the interfaces to the kernel. Without them, addresses stay unchanged.
    pub fn open() -> Self {
        let conntrack =
            Conntrack::open().inspect_err(|error| tracing::debug!(%error, "connection tracking is unavailable")).ok();
        Self { conntrack, count: File::open(COUNT).ok(), ..Self::default() }
    }

    /// Rewrites the source of a packet, which starts at its IP header, to the one that it would have after forwarding.
    pub fn translate(&mut self, packet: &mut [u8]) -> Source {
        let now = Instant::now();
        if !self.is_tracked(now) {
            return Source::Known;
        }
        let Some(route) = route(packet) else { return Source::Known };
        match self.source(now, route) {
            Some(Some(source)) => set_source(packet, source),
            Some(None) => {}
            None => return Source::Unknown,
        }
        Source::Known
    }

    fn is_tracked(&mut self, now: Instant) -> bool {
        if let Some((tracked, until)) = self.tracked
            && now < until
        {
            return tracked;
        }
        // The file appears with the kernel module.
        self.count = self.count.take().or_else(|| File::open(COUNT).ok());
        let mut text = [0; 1];
        let read = self.count.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let tracked = self.conntrack.is_some() && read == Some(1) && text != *b"0";
        self.tracked = Some((tracked, now + LOOK));
        tracked
    }

    /// Returns the source that packets on this route are to get, if it changes; the outer `None` if it is unknown.
    fn source(&mut self, now: Instant, route: Route) -> Option<Option<SocketAddr>> {
        if let Some((until, source)) = self.known.get(&route)
            && now < *until
        {
            return Some(*source);
        }
        if self.known.len() >= MOST {
            self.known.retain(|_, (until, _)| now < *until);
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let entry = match self.conntrack.as_mut().map(|conntrack| conntrack.find(now, route)) {
            Some(Found::Later) => return None,
            Some(Found::Entry(entry)) => Some(entry),
            Some(Found::Nothing) | None => None,
        };
        let lifetime = if entry.is_some() { LIFETIME } else { UNTRACKED };
        self.known.insert(route, (now + lifetime, None));
        for (route, source) in entry.into_iter().flat_map(sources) {
            self.known.insert(route, (now + lifetime, (source != route.source).then_some(source)));
        }
        self.known.get(&route).map(|(_, source)| *source)
    }
}

/// Returns both directions of a connection as forwarded, each with its source after translation.
fn sources(entry: Entry) -> [(Route, SocketAddr); 2] {
    // Senders in the original and in the reply direction: neither end is translated between the two hooks.
    let there = Route { source: entry.original.source, destination: entry.reply.source };
    [(there, entry.reply.destination), (there.reversed(), entry.original.destination)]
}

/// Returns source and destination of a TCP packet without extension headers.
fn route(packet: &[u8]) -> Option<Route> {
    let ip = Ip::new_checked(packet)?;
    let tcp = Tcp::new_checked(packet.get(ip.header_len()?..)?)?;
    Some(Route {
        source: SocketAddr::new(ip.source(), tcp.source_port()),
        destination: SocketAddr::new(ip.destination(), tcp.destination_port()),
    })
}

/// Replaces the source and updates the checksums: a wrong checksum stays wrong.
fn set_source(packet: &mut [u8], source: SocketAddr) {
    if let Some(mut ip) = IpMut::new_checked(packet) {
        ip.set_tcp_source(source);
    }
}

/// Replaces the destination like [`set_source`].
pub(super) fn set_destination(packet: &mut [u8], destination: SocketAddr) {
    if let Some(mut ip) = IpMut::new_checked(packet) {
        ip.set_tcp_destination(destination);
    }
}

#[cfg(test)]
#[path = "nat_tests.rs"]
mod tests;

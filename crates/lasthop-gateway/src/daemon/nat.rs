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
/// Lifetime of a lookup that found no tracked connection, and time for which a connection that was translated before is
/// not taken for an untracked one.
const UNTRACKED: Duration = Duration::from_secs(10);
/// Maximum number of routes to remember.
const MOST: usize = 1 << 15;
/// Interval of checks whether connections are still tracked at all.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of attempts to open the file with their number.
const REOPEN: Duration = Duration::from_millis(10);
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

/// Time of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    /// A packet of the connection is queued. If it is the first one, the kernel adds its connection to the table only
    /// when the packet leaves (`POSTROUTING`).
    Queued,
    /// All packets that were queued until then have left.
    Left,
}

/// Translator of source addresses.
#[derive(Debug, Default)]
pub(super) struct Translator {
    conntrack: Option<Conntrack>,
    count: Option<File>,
    /// Time of the next attempt to open `count`.
    next_open: Option<Instant>,
    /// Time until which connections count as tracked.
    tracked_until: Option<Instant>,
    sources: Sources,
}

impl Translator {
    /// Opens the interfaces to the kernel. Without them, addresses stay unchanged.
    pub fn open() -> Self {
        let conntrack =
            Conntrack::open().inspect_err(|error| tracing::debug!(%error, "connection tracking is unavailable")).ok();
        Self { conntrack, count: File::open(COUNT).ok(), ..Self::default() }
    }

    /// Rewrites the source of a packet, which starts at its IP header, to the one that it would have after forwarding.
    /// All packets that were queued until then must have left.
    pub fn translate(&mut self, packet: &mut [u8]) -> Source {
        self.translate_at(Moment::Left, packet)
    }

    /// Rewrites the source of a trial's packet like [`Self::translate`], while a packet of its connection is queued. The
    /// connection may be unknown to the kernel yet, so that the absence of an entry does not decide on later packets.
    pub fn translate_trial(&mut self, packet: &mut [u8]) -> Source {
        self.translate_at(Moment::Queued, packet)
    }

    fn translate_at(&mut self, moment: Moment, packet: &mut [u8]) -> Source {
        let now = Instant::now();
        if !self.is_tracked(now) {
            return Source::Known;
        }
        let Some(route) = route(packet) else { return Source::Known };
        let conntrack = self.conntrack.as_mut();
        let find = || conntrack.map_or(Found::Nothing, |conntrack| conntrack.find(now, route));
        match self.sources.look_up(now, moment, route, find) {
            Some(Some(source)) => set_source(packet, source),
            Some(None) => {}
            None => return Source::Unknown,
        }
        Source::Known
    }

    /// Returns whether the kernel tracks connections. That it tracks none is not remembered: the next one to open is
    /// tracked at once.
    fn is_tracked(&mut self, now: Instant) -> bool {
        if self.tracked_until.is_some_and(|until| now < until) {
            return true;
        }
        // The file appears with the kernel module.
        if self.count.is_none() && self.next_open.is_none_or(|next| now >= next) {
            (self.count, self.next_open) = (File::open(COUNT).ok(), Some(now + REOPEN));
        }
        let mut text = [0; 1];
        let read = self.count.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let is_tracked = self.conntrack.is_some() && read == Some(1) && text != *b"0";
        self.tracked_until = is_tracked.then_some(now + LOOK);
        is_tracked
    }
}

/// Result of a lookup for a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// Source that packets get if it changes.
    Source(Option<SocketAddr>),
    /// The connection was translated, and is not tracked any more.
    Gone,
}

/// Sources of packets by route.
#[derive(Debug, Default)]
struct Sources {
    /// Findings, with their expiry times.
    known: HashMap<Route, (Instant, Finding)>,
}

impl Sources {
    /// Returns the source that packets on this route are to get, if it changes; the outer `None` if it is unknown. `find`
    /// looks the connection up.
    fn look_up(
        &mut self,
        now: Instant,
        moment: Moment,
        route: Route,
        find: impl FnOnce() -> Found,
    ) -> Option<Option<SocketAddr>> {
        let before = self.known.get(&route).copied();
        if let Some((until, finding)) = before
            && now < until
        {
            return finding.source();
        }
        let entry = match find() {
            Found::Later => return None,
            Found::Nothing => None,
            Found::Entry(entry) => Some(entry),
        };
        let was_translated =
            before.is_some_and(|(until, finding)| finding != Finding::Source(None) && now < until + UNTRACKED);
        let (finding, lifetime) = match (entry, moment) {
            (Some(_), _) => (Finding::Source(None), LIFETIME),
            // The kernel discarded the entry, or it is not there yet. Packets with the untranslated source would be
            // answered with resets.
            (None, _) if was_translated => (Finding::Gone, LIFETIME),
            (None, Moment::Queued) => return Some(None),
            (None, Moment::Left) => (Finding::Source(None), UNTRACKED),
        };
        self.make_room(now);
        self.known.insert(route, (now + lifetime, finding));
        for (route, source) in entry.into_iter().flat_map(sources) {
            let finding = Finding::Source((source != route.source).then_some(source));
            self.known.insert(route, (now + lifetime, finding));
        }
        self.known.get(&route).and_then(|(_, finding)| finding.source())
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() >= MOST {
            self.known.retain(|_, (until, _)| now < *until);
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
    }
}

impl Finding {
    const fn source(self) -> Option<Option<SocketAddr>> {
        match self {
            Self::Source(source) => Some(source),
            Self::Gone => None,
        }
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

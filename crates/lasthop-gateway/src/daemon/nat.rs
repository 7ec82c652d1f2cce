//! Addresses of packets that the gateway sends by itself, where the machine translates addresses.
//!
//! The rules lead packets here between the two translations of netfilter: behind the one of destinations (`PREROUTING`), before
//! the one of sources (`POSTROUTING`). So both directions of a connection bear the same addresses here, whatever is translated. What the gateway
//! sends by itself has those addresses as well, and bypasses connection tracking, which would take a packet from the wired side
//! to a masqueraded client for a new connection. The source is therefore put in here, as `POSTROUTING` would: it is the destination
//! that connection tracking expects of the answers.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use lasthop_sys::conntrack::{Conntrack, Entry, Found};
use lasthop_wire::Route;

/// How long what was found out holds: the same addresses may come back as another connection, translated otherwise.
const LIFETIME: Duration = Duration::from_secs(2);
/// How long a connection counts as one that nobody tracks.
const UNTRACKED: Duration = Duration::from_secs(10);
/// Most directions of connections that are remembered.
const MOST: usize = 1 << 15;
/// How often it is looked whether connections are tracked at all.
const LOOK: Duration = Duration::from_secs(1);
/// The kernel's count of the connections that it tracks.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// Whether it is known with which source a packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// It has it.
    Known,
    /// Not yet: it has the one that it had.
    Unknown,
}

/// The sources that packets get on their way out.
#[derive(Debug, Default)]
pub(super) struct Translator {
    conntrack: Option<Conntrack>,
    count: Option<File>,
    /// Whether connections are tracked, and until when that holds.
    tracked: Option<(bool, Instant)>,
    /// Until when, and the source that the packet gets if it is another one.
    known: HashMap<Route, (Instant, Option<SocketAddr>)>,
}

impl Translator {
    /// Opens what it takes to ask the kernel; without it, addresses stay as they are.
    pub fn open() -> Self {
        let conntrack = Conntrack::open().inspect_err(|error| tracing::debug!(%error, "no connection tracking")).ok();
        Self { conntrack, count: File::open(COUNT).ok(), ..Self::default() }
    }

    /// Gives a packet, from its IP header on, the source that it would have if it had been forwarded. Says whether that is known.
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
        // It comes into being with the kernel module.
        self.count = self.count.take().or_else(|| File::open(COUNT).ok());
        let mut text = [0; 1];
        let read = self.count.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let tracked = self.conntrack.is_some() && read == Some(1) && text != *b"0";
        self.tracked = Some((tracked, now + LOOK));
        tracked
    }

    /// The other source that packets on this route are to get, if any; none when that is not known.
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

/// Both directions as they are forwarded, each with the source that it leaves with.
fn sources(entry: Entry) -> [(Route, SocketAddr); 2] {
    // Who sends in a direction, and whom its answers come from: neither end is translated between the two hooks.
    let there = Route { source: entry.original.source, destination: entry.reply.source };
    [(there, entry.reply.destination), (there.reversed(), entry.original.destination)]
}

/// Where the addresses of a TCP packet without extension headers are.
struct Layout {
    source: Range<usize>,
    destination: Range<usize>,
    tcp: usize,
    /// The IP header's own checksum.
    checksum: Option<usize>,
}

fn layout(packet: &[u8]) -> Option<Layout> {
    let layout = match packet.first()? >> 4 {
        4 => Layout { source: 12..16, destination: 16..20, tcp: usize::from(packet[0] & 0xf) * 4, checksum: Some(10) },
        6 => Layout { source: 8..24, destination: 24..40, tcp: 40, checksum: None },
        _ => return None,
    };
    (layout.tcp >= layout.destination.end && packet.len() >= layout.tcp + 20).then_some(layout)
}

fn route(packet: &[u8]) -> Option<Route> {
    let layout = layout(packet)?;
    let end = |address: Range<usize>, port: usize| {
        let ip = match packet.get(address)? {
            four @ [_, _, _, _] => <[u8; 4]>::try_from(four).ok()?.into(),
            sixteen => <[u8; 16]>::try_from(sixteen).ok()?.into(),
        };
        Some(SocketAddr::new(ip, u16::from_be_bytes([packet[port], packet[port + 1]])))
    };
    Some(Route { source: end(layout.source, layout.tcp)?, destination: end(layout.destination, layout.tcp + 2)? })
}

/// Puts in another source, and carries the checksums on: one that was wrong stays wrong.
fn set_source(packet: &mut [u8], source: SocketAddr) {
    if let Some(layout) = layout(packet) {
        set_end(packet, &layout, layout.source.clone(), layout.tcp, source);
    }
}

/// The same for the destination.
pub(super) fn set_destination(packet: &mut [u8], destination: SocketAddr) {
    if let Some(layout) = layout(packet) {
        set_end(packet, &layout, layout.destination.clone(), layout.tcp + 2, destination);
    }
}

/// Puts in another end: its address is at `place`, its port at `port`.
fn set_end(packet: &mut [u8], layout: &Layout, place: Range<usize>, port: usize, end: SocketAddr) {
    let address = match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    };
    if address.len() != place.len() {
        return;
    }
    let checksum = layout.tcp + 16;
    for (index, word) in place.step_by(2).zip(address.chunks_exact(2)) {
        let word = [word[0], word[1]];
        if let Some(ip) = layout.checksum {
            carry_on(packet, ip, index, word);
        }
        carry_on(packet, checksum, index, word);
        packet[index..index + 2].copy_from_slice(&word);
    }
    let number = end.port().to_be_bytes();
    carry_on(packet, checksum, port, number);
    packet[port..port + 2].copy_from_slice(&number);
}

/// What the checksum at `sum` becomes when the word at `index` becomes `new` (RFC 1624, equation 3).
fn carry_on(packet: &mut [u8], sum: usize, index: usize, new: [u8; 2]) {
    let word = |index: usize| u32::from(u16::from_be_bytes([packet[index], packet[index + 1]]));
    let total = (!word(sum) & 0xffff) + (!word(index) & 0xffff) + u32::from(u16::from_be_bytes(new));
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    packet[sum..sum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

#[cfg(test)]
#[path = "nat_tests.rs"]
mod tests;

//! Paths to a peer.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::{Copies, MOST_PATHS, Terms, Tier};
use lasthop_proto::rate::Rate;

use super::values::{Endpoint, MonthlyCap, Name, PathInterface};
use super::{Mode, NOT_ON_A_BRIDGE, PeerKeys, refuse_keys};
use crate::document::quote;
use crate::error::{Error, Problem};
use crate::key::{Key, Named};
use crate::reader::Reader;
use crate::values::{Auto, Or, Whole};

/// Range of an end's sending rate.
const RATES: [Rate; 2] = [Rate(8_000), Rate(100_000_000_000)];

/// Path to a peer.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerPath {
    /// Name, unique among the peer's paths; `None` for a path that no table declares.
    pub name: Option<String>,
    /// Interface by which this end sends; `None`: as routed, or on a bridge the interface towards the hop.
    pub interface: Option<String>,
    /// Line of `interface` in the file, if there is one.
    pub interface_line: Option<usize>,
    /// Endpoint of the peer; `None` if the peer initiates, and on a bridge.
    pub endpoint: Option<Endpoint>,
    /// Sending rate of this end on the path, in bits per second including the IP header and above, or on a bridge the
    /// Ethernet header and above; `None` means the estimated rate of the path.
    pub rate: Option<u64>,
    /// Terms on which this end uses the path.
    pub terms: Terms,
    /// Limit of the data volume; `None`: unlimited.
    pub cap: Option<Cap>,
}

/// Limit of the data volume of a path in a month, in both directions together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cap {
    /// Maximum number of bytes, with IP headers.
    pub bytes: u64,
    /// Day on which a month begins, 1 to 28, in UTC.
    pub day: u8,
}

keys! {
    /// Keys of a path to a peer.
    pub(super) PathKeys {
        /// – | unique; shown with statistics
        name;
        /// as routed | interface by which this end sends, for an end with several lines; it needs a route to the endpoint.
        /// On a bridge [the line's interface](#between-two-bridges)
        interface;
        /// the peer's | host and UDP port
        endpoint;
        /// – | as the peer's, of this path alone
        rate;
        /// {} | carries packets at all times; `"secondary"`: while the primary paths are full for 200 ms or down; `"backup"`:
        /// while no other works; `"off"`. The later one of both ends' tiers counts
        tier: Tier = Tier::Primary;
        /// by tier: `"all"`, `"light"`, `"none"`, `"none"` | packets of which it carries [copies](models/multipath.md#tiers)
        /// besides: all, those of calls, or none
        copies;
        /// none | as `"20 GB/month"`, both directions, a GB of 10⁹ bytes: from 90 % on the path is a backup, then off
        cap;
        /// {} | day on which the month of `cap` begins, in UTC, 1 to 28
        cap_day: Whole<1, 28> = Whole(1);
    }
}

/// Reads the paths to a peer: those of its tables `path`, or one from the peer's own keys.
pub(super) fn paths(peer: &Reader<'_>, mode: &Mode) -> Result<Vec<PeerPath>, Error> {
    let only = |endpoint| {
        let rate = rate(peer, PeerKeys::rate)?;
        let (interface, interface_line, terms) = (None, None, Terms::default());
        Ok(vec![PeerPath { name: None, interface, interface_line, endpoint, rate, terms, cap: None }])
    };
    let own = match mode {
        Mode::Tun { listen, .. } => endpoint(peer, PeerKeys::endpoint, *listen)?,
        Mode::Bridge { .. } => None,
    };
    let tables = peer.array(PeerKeys::path, "tables, e.g. [[peer.path]] with name and rate")?;
    if tables.is_empty() {
        return only(own);
    }
    refuse_keys(peer, key_names!(PeerKeys: rate), "each [[peer.path]] has its own rate")?;
    if let Some(beyond) = tables.get(usize::from(MOST_PATHS)) {
        return Err(beyond.fail_here(Problem::Conflict(format!("a peer has at most {MOST_PATHS} paths"))));
    }
    let mut paths: Vec<PeerPath> = Vec::new();
    for table in &tables {
        table.allow(PathKeys::NAMES)?;
        let Name(name) = table.required(PathKeys::name)?;
        if paths.iter().any(|other| other.name.as_ref() == Some(&name)) {
            return Err(table.refuse(PathKeys::name, "a unique name", "another path of this peer has it"));
        }
        if tables.len() < 2 {
            let several = "requires at least two [[peer.path]]";
            refuse_keys(table, key_names!(PathKeys: tier, copies, cap, cap_day), several)?;
        }
        let (interface, endpoint) = match mode {
            Mode::Tun { listen, .. } => routed(table, &paths, own.as_ref(), *listen)?,
            Mode::Bridge { interface: hop } => (line(table, &paths, hop)?, None),
        };
        let interface_line = table.line(PathKeys::interface).filter(|_| interface.is_some());
        let (rate, terms, cap) = (rate(table, PathKeys::rate)?, terms(table)?, cap(table)?);
        paths.push(PeerPath { name: Some(name), interface, interface_line, endpoint, rate, terms, cap });
    }
    if let Some(last) = tables.last().filter(|_| paths.iter().all(|path| path.terms.tier == Tier::Off)) {
        return Err(last.refuse(PathKeys::tier, "another tier", "all paths of this peer are off"));
    }
    Ok(paths)
}

/// Returns the terms of a path. A path that is off carries no copies.
fn terms(table: &Reader<'_>) -> Result<Terms, Error> {
    let tier = table.value(PathKeys::tier)?;
    let copies = table.get::<Copies>(PathKeys::copies)?;
    if tier == Tier::Off && copies.is_some() {
        return Err(table.fail(PathKeys::copies, Problem::Conflict("not allowed with tier = \"off\"".to_owned())));
    }
    Ok(Terms { tier, copies: copies.unwrap_or(tier.copies()) })
}

fn cap(table: &Reader<'_>) -> Result<Option<Cap>, Error> {
    let Some(MonthlyCap(bytes)) = table.get(PathKeys::cap)? else {
        refuse_keys(table, key_names!(PathKeys: cap_day), "requires `cap`")?;
        return Ok(None);
    };
    let Whole(day) = table.value(PathKeys::cap_day)?;
    Ok(Some(Cap { bytes, day: day as u8 }))
}

/// Reads interface and endpoint of a path that follows `paths`.
fn routed(
    table: &Reader<'_>,
    paths: &[PeerPath],
    own: Option<&Endpoint>,
    listen: SocketAddr,
) -> Result<(Option<String>, Option<Endpoint>), Error> {
    let interface = table.get::<PathInterface>(PathKeys::interface)?.map(|PathInterface(name)| name);
    let endpoint = endpoint(table, PathKeys::endpoint, listen)?.or_else(|| own.cloned());
    if interface.is_some() && endpoint.is_none() {
        let expected = "the host and UDP port of the peer, since this end sends by an interface".to_owned();
        return Err(table.fail(PathKeys::endpoint, Problem::Missing { expected }));
    }
    let same = |other: &PeerPath| other.interface == interface && other.endpoint == endpoint && endpoint.is_some();
    if paths.iter().any(same) {
        let reason = "another path of this peer has the same interface and endpoint";
        return Err(table.refuse(PathKeys::name, "paths that differ in interface or endpoint", reason));
    }
    Ok((interface, endpoint))
}

/// Reads the interface of a bridge's path that follows `paths`; `None` for the first path, whose interface is `hop`.
fn line(table: &Reader<'_>, paths: &[PeerPath], hop: &str) -> Result<Option<String>, Error> {
    refuse_keys(table, key_names!(PathKeys: endpoint), NOT_ON_A_BRIDGE)?;
    if paths.is_empty() {
        let interface = table.get::<PathInterface>(PathKeys::interface)?;
        if interface.is_some_and(|PathInterface(name)| name != hop) {
            let expected = format!("{}, the interface towards the hop, for the first path", quote(hop));
            return Err(table.refuse(PathKeys::interface, expected, "frames that bypass the tunnel leave by it"));
        }
        return Ok(None);
    }
    let PathInterface(interface) = table.required(PathKeys::interface)?;
    if interface == hop || paths.iter().any(|other| other.interface.as_ref() == Some(&interface)) {
        let expected = "an interface of this path alone";
        return Err(table.refuse(PathKeys::interface, expected, "another path of this peer has it"));
    }
    Ok(Some(interface))
}

fn rate(reader: &Reader<'_>, key: Key) -> Result<Option<u64>, Error> {
    let Or(rate, _) = reader.required::<Or<Auto, Rate>>(key)?;
    if rate.is_some_and(|rate| !(RATES[0]..=RATES[1]).contains(&rate)) {
        return Err(reader.refuse(key, "8 kbps to 100 Gbps, e.g. \"10 Mbps\", or \"auto\"", ""));
    }
    Ok(rate.map(|Rate(rate)| rate))
}

fn endpoint(reader: &Reader<'_>, key: impl Named, listen: SocketAddr) -> Result<Option<Endpoint>, Error> {
    let endpoint: Option<Endpoint> = reader.get(key)?;
    if let Some(address) = endpoint.as_ref().and_then(Endpoint::address)
        && address.is_ipv4() != listen.is_ipv4()
        && !(listen.is_ipv6() && listen.ip().is_unspecified())
    {
        let kind = if listen.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(reader.refuse(key, format!("an address of {kind}"), format!("listen is one of {kind}")));
    }
    Ok(endpoint)
}

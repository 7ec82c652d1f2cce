//! Paths to a peer.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::MOST_PATHS;
use lasthop_proto::rate::Rate;

use super::values::{Endpoint, Name, PathInterface};
use super::{Mode, NOT_ON_A_BRIDGE, PeerKeys, refuse_keys};
use crate::error::{Error, Problem};
use crate::key::{Key, Named};
use crate::reader::Reader;
use crate::values::{Auto, Or};

/// Range of an end's sending rate.
const RATES: [Rate; 2] = [Rate(8_000), Rate(100_000_000_000)];

/// Path to a peer.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerPath {
    /// Name, unique among the peer's paths; `None` for a path that no table declares.
    pub name: Option<String>,
    /// Interface by which this end sends; `None`: as routed.
    pub interface: Option<String>,
    /// Endpoint of the peer; `None` if the peer initiates, and on a bridge.
    pub endpoint: Option<Endpoint>,
    /// Sending rate of this end on the path, in bits per second including the IP header and above, or on a bridge the
    /// Ethernet header and above; `None` means the estimated rate of the path.
    pub rate: Option<u64>,
}

keys! {
    /// Keys of a path to a peer.
    pub(super) PathKeys {
        /// – | unique; shown with statistics
        name;
        /// as routed | interface by which this end sends, for an end with several lines; it needs a route to the endpoint
        interface;
        /// the peer's | host and UDP port
        endpoint;
        /// – | as the peer's, of this path alone
        rate;
    }
}

/// Reads the paths to a peer: those of its tables `path`, or one from the peer's own keys.
pub(super) fn paths(peer: &Reader<'_>, mode: &Mode) -> Result<Vec<PeerPath>, Error> {
    let only = |endpoint| {
        let rate = rate(peer, PeerKeys::rate)?;
        Ok(vec![PeerPath { name: None, interface: None, endpoint, rate }])
    };
    let Mode::Tun { listen, .. } = mode else {
        refuse_keys(peer, key_names!(PeerKeys: path), NOT_ON_A_BRIDGE)?;
        return only(None);
    };
    let own = endpoint(peer, PeerKeys::endpoint, *listen)?;
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
        let interface = table.get::<PathInterface>(PathKeys::interface)?.map(|PathInterface(name)| name);
        let endpoint = endpoint(table, PathKeys::endpoint, *listen)?.or_else(|| own.clone());
        if interface.is_some() && endpoint.is_none() {
            let expected = "the host and UDP port of the peer, since this end sends by an interface".to_owned();
            return Err(table.fail(PathKeys::endpoint, Problem::Missing { expected }));
        }
        let same = |other: &PeerPath| other.interface == interface && other.endpoint == endpoint && endpoint.is_some();
        if paths.iter().any(same) {
            let reason = "another path of this peer has the same interface and endpoint";
            return Err(table.refuse(PathKeys::name, "paths that differ in interface or endpoint", reason));
        }
        paths.push(PeerPath { name: Some(name), interface, endpoint, rate: rate(table, PathKeys::rate)? });
    }
    Ok(paths)
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

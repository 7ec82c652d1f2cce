//! What sits on routers' ports: the scheme's part at the base station, and elements of the scenario's own.

use lasthop_proto::link::arq::ArqConfig;
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::scheme::{LinkRepair, LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::{Recovery, TcpConfig};

use crate::arq::{self, ARQ_KEYS};
use crate::error::{Error, Problem};
use crate::nodes::{Link, Nodes};
use crate::reader::Reader;
use crate::sides;
use crate::snoop::{self, KIND_KEYS, REPAIR_KEYS};
use crate::tcp::{self, Base, TcpSpec};
use crate::two_ended::{self, TWO_ENDED_KEYS, TwoEndedKeys};
use crate::units::ByteSize;
use crate::values::{Count, ElementName, Text, Whole, Window};

/// A router's port to a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Port {
    /// Index of the router.
    pub router: usize,
    /// Index of the link.
    pub link: usize,
    /// Indices of the hosts on the link's side.
    pub beyond: Vec<usize>,
}

/// The base station: where it is, and with which parameters it plays whichever part the scheme gives it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Station {
    pub port: Port,
    /// Detection and awareness are the scheme's.
    pub snoop: SnoopConfig,
    pub relay: Relay,
    /// Both ends of the link.
    pub arq: ArqConfig,
    /// Both ends of the link, in a scheme of the two-ended family.
    pub two_ended: TwoEndedKeys,
    /// What the gateway's snoop does there.
    pub gateway_snoop: SnoopConfig,
    /// What the gateway's split does there: the endpoints that face the router and the link.
    pub gateway_split: [TcpConfig; 2],
}

/// What is on a port whatever the scheme.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Element {
    pub port: Port,
    pub kind: ElementKind,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ElementKind {
    Snoop(SnoopConfig),
    ElnMarker,
    /// And the loss recovery of the wireless connection.
    Split(Box<Relay>, Recovery),
    /// At both ends of the link.
    Arq(ArqConfig),
    /// At both ends of the link, and what they do against losses.
    TwoEnded(TwoEndedKeys, LinkRepair),
}

/// Parameters of a split connection's relay.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Relay {
    pub buffer: u32,
    /// The endpoint that faces the router.
    pub wired: TcpSpec,
    /// The endpoint that faces the link.
    pub wireless: TcpSpec,
}

const CACHE_KEYS: [&str; 3] = ["cache", "connections", "priority"];
const RELAY_KEYS: [&str; 3] = ["split_buffer", "wired_tcp", "wireless_tcp"];

/// Reads `[base_station]`, which may be absent.
pub(crate) fn base_station(
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    common: &TcpSpec,
) -> Result<Option<Station>, Error> {
    let reader = root.section("base_station")?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(
        &[
            &["router", "link", "arq", "snoop", "split", "two_ended"],
            &CACHE_KEYS[..],
            &REPAIR_KEYS[..],
            &RELAY_KEYS[..],
        ]
        .concat(),
    )?;
    let port = port(&reader, nodes, links)?;
    Ok(Some(Station {
        port,
        snoop: cache(&reader, SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware))?,
        relay: relay(&reader, common)?,
        arq: link_protocol(&reader)?,
        two_ended: two_ended::read_section(&reader.section("two_ended")?)?,
        gateway_snoop: snoop::of_gateway(&reader.section("snoop")?)?,
        gateway_split: sides::of_simulator(&reader.section("split")?)?.map(|side| side.config(common.config.mss)),
    }))
}

/// Reads all elements; none may share a port with another or with the base station.
pub(crate) fn elements(
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    common: &TcpSpec,
    station: Option<&Station>,
) -> Result<Vec<Element>, Error> {
    let mut elements: Vec<Element> = Vec::new();
    for (_, reader) in root.named("elements")? {
        let element = element(&reader, nodes, links, common)?;
        let same = |port: &Port| (port.router, port.link) == (element.port.router, element.port.link);
        let taken = elements.iter().any(|other| same(&other.port)) || station.is_some_and(|other| same(&other.port));
        if taken {
            let (router, link) = (nodes.name(element.port.router), &links[element.port.link].name);
            let message = format!("something sits on {router}'s port to {link} already; a port takes one element");
            return Err(reader.fail("link", Problem::Conflict(message)));
        }
        elements.push(element);
    }
    Ok(elements)
}

/// Reads `[base_station.arq]`, which may be absent.
fn link_protocol(station: &Reader<'_>) -> Result<ArqConfig, Error> {
    let reader = station.section("arq")?;
    reader.allow(&ARQ_KEYS)?;
    arq::read(&reader)
}

fn element(reader: &Reader<'_>, nodes: &Nodes, links: &[Link], common: &TcpSpec) -> Result<Element, Error> {
    const PORT_KEYS: [&str; 3] = ["kind", "router", "link"];
    let snoop_keys = [&PORT_KEYS[..], &KIND_KEYS[..], &CACHE_KEYS[..], &REPAIR_KEYS[..]].concat();
    if !reader.has("kind") {
        let all = [&snoop_keys[..], &["recovery"], &RELAY_KEYS[..], &ARQ_KEYS[..], &TWO_ENDED_KEYS[..]];
        reader.allow(&all.concat())?;
    }
    let kind = reader.required("kind")?;
    reader.allow(&match kind {
        ElementName::Snoop => snoop_keys,
        ElementName::ElnMarker => PORT_KEYS.to_vec(),
        ElementName::Split => [&PORT_KEYS[..], &["recovery"], &RELAY_KEYS[..]].concat(),
        ElementName::Arq => [&PORT_KEYS[..], &ARQ_KEYS[..]].concat(),
        ElementName::TwoEnded => [&PORT_KEYS[..], &["repair"], &TWO_ENDED_KEYS[..]].concat(),
    })?;
    let port = port(reader, nodes, links)?;
    let kind = match kind {
        ElementName::Snoop => {
            let default = SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware);
            ElementKind::Snoop(cache(reader, snoop::kind(reader, default)?)?)
        }
        ElementName::ElnMarker => ElementKind::ElnMarker,
        ElementName::Split => {
            let recovery = reader.or("recovery", Recovery::Reno, "default")?;
            ElementKind::Split(Box::new(relay(reader, common)?), recovery)
        }
        ElementName::Arq => ElementKind::Arq(arq::read(reader)?),
        ElementName::TwoEnded => {
            let repair = reader.or("repair", LinkRepair::Adaptive, "default")?;
            ElementKind::TwoEnded(two_ended::read(reader)?, repair)
        }
    };
    Ok(Element { port, kind })
}

fn port(reader: &Reader<'_>, nodes: &Nodes, links: &[Link]) -> Result<Port, Error> {
    let Text(router_name) = reader.required("router")?;
    let router = nodes.find(&router_name).ok_or_else(|| {
        reader.unknown_name("router", "router", &router_name, nodes.routers.iter().map(String::as_str))
    })?;
    if nodes.is_host(router) {
        return Err(reader.refuse("router", "a router", "it is a host"));
    }
    let Text(link_name) = reader.required("link")?;
    let names = || links.iter().map(|link| link.name.as_str());
    let link = names()
        .position(|name| name == link_name)
        .ok_or_else(|| reader.unknown_name("link", "link", &link_name, names()))?;
    if !links[link].between.contains(&router) {
        let [a, b] = links[link].between.map(|node| nodes.name(node));
        let reason = format!("it joins \"{a}\" and \"{b}\"");
        return Err(reader.refuse("link", format!("a link of \"{router_name}\""), reason));
    }
    Ok(Port { router, link, beyond: hosts_beyond(nodes, links, router, link) })
}

/// The hosts that are reached from `router` over `link`.
fn hosts_beyond(nodes: &Nodes, links: &[Link], router: usize, link: usize) -> Vec<usize> {
    let mut reached = vec![false; nodes.len()];
    let mut open: Vec<usize> = links[link].between.into_iter().filter(|end| *end != router).collect();
    while let Some(node) = open.pop() {
        reached[node] = true;
        for (index, other) in links.iter().enumerate() {
            if index != link && other.between.contains(&node) {
                open.extend(other.between.into_iter().filter(|end| !reached[*end]));
            }
        }
    }
    (0..nodes.hosts.len()).filter(|host| reached[*host]).collect()
}

/// A cache and what it is for, detection and awareness as `default` has them.
fn cache(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let ByteSize(cache_bytes) = reader.or("cache", ByteSize(default.cache_bytes), "default")?;
    if cache_bytes == 0 {
        return Err(reader.refuse("cache", "a size above zero", ""));
    }
    let connections = u32::try_from(default.connections).unwrap_or(u32::MAX);
    let Whole(connections) = reader.or::<Count>("connections", Whole(connections), "default")?;
    let config = SnoopConfig { cache_bytes, connections: connections as usize, ..default };
    let config = snoop::repair(reader, config)?;
    let priority = reader.or("priority", config.priority, "default")?;
    Ok(SnoopConfig { priority, ..config })
}

fn relay(reader: &Reader<'_>, common: &TcpSpec) -> Result<Relay, Error> {
    // "64 KB of buffer at the base" ([a] §IV-C).
    let Window(buffer) = reader.or("split_buffer", Window(64 << 10), "default")?;
    if buffer < common.config.mss {
        let (buffer, mss) = (ByteSize(buffer.into()), ByteSize(common.config.mss.into()));
        let key = if reader.has("split_buffer") { "split_buffer" } else { "router" };
        let message = format!("split_buffer = {buffer} does not hold one segment (mss = {mss})");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let end = |key: &str| tcp::read(&reader.section(key)?, Base::RelayEnd(common, buffer));
    Ok(Relay { buffer, wired: end("wired_tcp")?, wireless: end("wireless_tcp")? })
}

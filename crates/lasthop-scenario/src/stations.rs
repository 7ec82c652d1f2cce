//! What sits on routers' ports: the scheme's part at the base station, and elements of the scenario's own.

use lasthop_proto::link::arq::ArqConfig;
use lasthop_proto::pep::snoop::{HopControl, SnoopConfig};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::Recovery;
use lasthop_proto::time::Duration;

use crate::arq::{self, ARQ_KEYS};
use crate::error::{Error, Problem};
use crate::nodes::{Link, Nodes};
use crate::reader::Reader;
use crate::tcp::{self, Base, TcpSpec};
use crate::units::{ByteSize, TimeSpan};
use crate::values::{Count, ElementName, FlowControlName, Positive, Text, Whole, Window};

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

const CACHE_KEYS: [&str; 10] = [
    "cache",
    "connections",
    "priority",
    "dupack_threshold",
    "timer_min",
    "timer_max",
    "max_local_retries",
    "flow_control",
    "backlog",
    "held",
];
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
    reader.allow(&[&["router", "link", "arq"], &CACHE_KEYS[..], &RELAY_KEYS[..]].concat())?;
    let port = port(&reader, nodes, links)?;
    Ok(Some(Station {
        port,
        snoop: snoop(&reader, LocalDetection::DuplicateAcks, TcpAwareness::Unaware)?,
        relay: relay(&reader, common)?,
        arq: link_protocol(&reader)?,
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
    const SNOOP_KEYS: [&str; 2] = ["detection", "awareness"];
    if !reader.has("kind") {
        let all = [&PORT_KEYS[..], &SNOOP_KEYS[..], &CACHE_KEYS[..], &["recovery"], &RELAY_KEYS[..], &ARQ_KEYS[..]];
        reader.allow(&all.concat())?;
    }
    let kind = reader.required("kind")?;
    reader.allow(&match kind {
        ElementName::Snoop => [&PORT_KEYS[..], &SNOOP_KEYS[..], &CACHE_KEYS[..]].concat(),
        ElementName::ElnMarker => PORT_KEYS.to_vec(),
        ElementName::Split => [&PORT_KEYS[..], &["recovery"], &RELAY_KEYS[..]].concat(),
        ElementName::Arq => [&PORT_KEYS[..], &ARQ_KEYS[..]].concat(),
    })?;
    let port = port(reader, nodes, links)?;
    let kind = match kind {
        ElementName::Snoop => {
            let detection = reader.or("detection", LocalDetection::DuplicateAcks, "default")?;
            let awareness = reader.or("awareness", TcpAwareness::Aware, "default")?;
            ElementKind::Snoop(snoop(reader, detection, awareness)?)
        }
        ElementName::ElnMarker => ElementKind::ElnMarker,
        ElementName::Split => {
            let recovery = reader.or("recovery", Recovery::Reno, "default")?;
            ElementKind::Split(Box::new(relay(reader, common)?), recovery)
        }
        ElementName::Arq => ElementKind::Arq(arq::read(reader)?),
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

fn snoop(reader: &Reader<'_>, detection: LocalDetection, awareness: TcpAwareness) -> Result<SnoopConfig, Error> {
    let default = SnoopConfig::new(detection, awareness);
    let ByteSize(cache_bytes) = reader.or("cache", ByteSize(default.cache_bytes), "default")?;
    if cache_bytes == 0 {
        return Err(reader.refuse("cache", "a size above zero", ""));
    }
    let count = |key, default| reader.or::<Count>(key, Whole(default), "default").map(|Whole(count)| count);
    let span =
        |key, default| reader.or(key, Positive(default), "default").map(|Positive(span): Positive<Duration>| span);
    let connections = count("connections", u32::try_from(default.connections).unwrap_or(u32::MAX))? as usize;
    let dupack_threshold = count("dupack_threshold", default.dupack_threshold)?;
    let (timer_min, timer_max) = (span("timer_min", default.timer_min)?, span("timer_max", default.timer_max)?);
    if timer_min > timer_max {
        let key = if reader.has("timer_min") { "timer_min" } else { "timer_max" };
        let (min, max) = (TimeSpan(timer_min), TimeSpan(timer_max));
        return Err(reader.fail(key, Problem::Conflict(format!("timer_min = {min} is above timer_max = {max}"))));
    }
    let max_local_retries = count("max_local_retries", default.max_local_retries)?;
    let priority = reader.or("priority", default.priority, "default")?;
    let hop = flow_control(reader, FlowControlName::None)?;
    Ok(SnoopConfig {
        cache_bytes,
        connections,
        priority,
        dupack_threshold,
        timer_min,
        timer_max,
        max_local_retries,
        hop,
        ..default
    })
}

/// Flow control on the hop: `default` where the keys say nothing.
pub(crate) fn flow_control(reader: &Reader<'_>, default: FlowControlName) -> Result<Option<HopControl>, Error> {
    match reader.or("flow_control", default, "default")? {
        FlowControlName::None => {
            for key in ["backlog", "held"] {
                if reader.has(key) {
                    let message = format!("{key} is for flow_control = \"fast\" only");
                    return Err(reader.fail(key, Problem::Conflict(message)));
                }
            }
            Ok(None)
        }
        FlowControlName::Fast => {
            let Whole(backlog) = reader.or::<Count>("backlog", Whole(HopControl::DEFAULT.backlog), "default")?;
            let Window(held) = reader.or("held", Window(HopControl::DEFAULT.held), "default")?;
            Ok(Some(HopControl { backlog, held }))
        }
    }
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

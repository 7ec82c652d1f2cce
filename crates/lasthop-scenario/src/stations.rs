//! Elements on routers' ports: the scheme's part at the base station, and the scenario's own elements.

use lasthop_proto::link::arq::ArqConfig;
use lasthop_proto::pep::snoop::{Begin, HopControl, SnoopConfig};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};
use lasthop_sim::element::Ends;
use lasthop_sim::network::Medium;

use crate::elements::{
    AnyPart, ArqKeys, CacheKeys, Kind, PortKeys, Relay, RelayKeys, SrpKeys, SrpSettings, TwoEndedKeys,
    TwoEndedSettings, cache, read_arq, read_srp, read_two_ended, relay,
};
use crate::flow_names::FlowNames;
use crate::nodes::{Link, Nodes};
use crate::reader::Reader;
use crate::shared_keys::RootKeys;
use crate::sides;
use crate::snoop::{self, RepairKeys};
use crate::tcp::TcpSpec;
use crate::values::{List, Text};
use crate::{Error, Problem};

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

/// The base station: its place, and parameters for each part that a scheme may assign to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Station {
    pub port: Port,
    /// Parameters of snoop; detection and awareness are the scheme's.
    pub snoop: SnoopConfig,
    pub relay: Relay,
    /// Link protocol, for both ends of the link.
    pub arq: ArqConfig,
    /// Selective repeat for both ends of the link, under a split connection.
    pub srp: SrpSettings,
    /// Two-ended link, for both ends of the link.
    pub two_ended: TwoEndedSettings,
    /// Parameters of the gateway's snoop.
    pub gateway_snoop: SnoopConfig,
    /// Parameters of the gateway's split.
    pub gateway_split: GatewaySplit,
}

/// Parameters of the gateway's split.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct GatewaySplit {
    /// Endpoint that faces the router.
    pub wired: TcpConfig,
    /// Endpoint that faces the link.
    pub wireless: TcpConfig,
    /// Indicates whether snoop repairs beneath the wireless side's TCP.
    pub repair: Switch,
}

/// An element that is present under any scheme.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Element {
    pub port: Port,
    pub part: AnyPart,
}

keys! {
    /// Tables of the base station.
    pub(crate) StationKeys {
        /// | link protocol of `Reno/SR`, `SACK/SR`
        arq;
        /// | `window`, `header`, `timer`, `timer_min`, `nack_again` of `SPLIT-SRP` ([srp](models/srp.md))
        srp;
        /// | the gateway under `SNOOP`
        snoop;
        /// | tables `wired`, `wireless`: its sockets under `SPLIT-BBR`
        split;
        /// | two-ended link of `LINK-*`
        two_ended;
    }

    /// Key of all elements.
    pub(crate) ElementKeys {
        /// required | {kinds}
        kind;
    }

    /// Key of the base station's two-ended link.
    pub(crate) PastKeys {
        /// none | base station: flows that bypass the repair
        past: List<Text> = List(Vec::new());
    }
}

/// Maximum number of the scenario's own link protocols on one link, nested; the scheme may add another.
const MOST_PROTOCOLS: usize = 2;

/// Reads `[base_station]`, which may be absent.
pub(crate) fn base_station(
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    names: &FlowNames,
    common: &TcpSpec,
) -> Result<Option<Station>, Error> {
    let reader = root.section(RootKeys::base_station)?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(
        &[PortKeys::NAMES, StationKeys::NAMES, CacheKeys::NAMES, RepairKeys::NAMES, RelayKeys::NAMES].concat(),
    )?;
    let port = port(&reader, nodes, links)?;
    let gateway = gateway_snoop(&links[port.link].medium);
    Ok(Some(Station {
        port,
        snoop: cache(&reader, studies_snoop(common))?,
        relay: relay(&reader, common)?,
        arq: link_protocol(&reader)?,
        srp: srp(&reader)?,
        two_ended: two_ended(&reader, names)?,
        gateway_snoop: snoop::of_gateway(&reader.section(StationKeys::snoop)?, gateway)?,
        gateway_split: gateway_split(&reader, common)?,
    }))
}

/// Returns the cache of the studies' schemes. Their windows fit into the base station's queue. Modern senders,
/// identified by RACK, would fill any queue if all losses are hidden from them, so they are limited by flow control.
fn studies_snoop(ends: &TcpSpec) -> SnoopConfig {
    let hop = (ends.recovery == Some(Recovery::Rack)).then_some(HopControl::DEFAULT);
    SnoopConfig { hop, ..SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware) }
}

/// Returns the defaults of the gateway's snoop. Wi-Fi repairs its losses and manages its queues: what it drops is meant for
/// the senders.
fn gateway_snoop(hop: &Medium) -> SnoopConfig {
    let default = SnoopConfig::gateway();
    if matches!(hop, Medium::Wifi { .. }) {
        return SnoopConfig { begin: Begin::AfterSilence, hop: None, ..default };
    }
    default
}

/// Reads `[base_station.split]`, which may be absent. Its two ends echo marks as the scenario's endpoints do.
fn gateway_split(station: &Reader<'_>, common: &TcpSpec) -> Result<GatewaySplit, Error> {
    let (sides, repair) = sides::of_simulator(&station.section(StationKeys::split)?)?;
    let end = |config: TcpConfig| config.with(|c| c.receiver.ecn_echo = common.receiver.ecn_echo);
    let [wired, wireless] = sides.map(|side| end(side.config(common.mss())));
    Ok(GatewaySplit { wired, wireless, repair })
}

/// Reads all elements, in the order of the file.
pub(crate) fn elements(
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    common: &TcpSpec,
) -> Result<Vec<Element>, Error> {
    let mut elements: Vec<Element> = Vec::new();
    let mut protocols = vec![0; links.len()];
    for (_, reader) in root.named(RootKeys::elements)? {
        let (kind, element) = element(&reader, nodes, links, common)?;
        if kind.ends == Ends::Both {
            let there = &mut protocols[element.port.link];
            *there += 1;
            if *there > MOST_PROTOCOLS {
                let link = &links[element.port.link].name;
                let message = format!("{link} already has the maximum of {MOST_PROTOCOLS} link protocols");
                return Err(reader.fail(PortKeys::link, Problem::Conflict(message)));
            }
        }
        elements.push(element);
    }
    Ok(elements)
}

/// Reads `[base_station.two_ended]`, which may be absent.
fn two_ended(station: &Reader<'_>, names: &FlowNames) -> Result<TwoEndedSettings, Error> {
    let reader = station.section(StationKeys::two_ended)?;
    reader.allow(&[TwoEndedKeys::NAMES, PastKeys::NAMES].concat())?;
    let List(past) = reader.value(PastKeys::past)?;
    let mut flows = Vec::new();
    for Text(name) in past {
        let examples = names.examples();
        let unknown = || reader.unknown_name(PastKeys::past, "flow", &name, examples.iter().map(String::as_str));
        flows.push(names.find(&name).ok_or_else(unknown)?);
    }
    Ok(read_two_ended(&reader)?.passing(flows))
}

/// Reads `[base_station.srp]`, which may be absent.
fn srp(station: &Reader<'_>) -> Result<SrpSettings, Error> {
    let reader = station.section(StationKeys::srp)?;
    reader.allow(SrpKeys::NAMES)?;
    read_srp(&reader)
}

/// Reads `[base_station.arq]`, which may be absent.
fn link_protocol(station: &Reader<'_>) -> Result<ArqConfig, Error> {
    let reader = station.section(StationKeys::arq)?;
    reader.allow(ArqKeys::NAMES)?;
    read_arq(&reader)
}

fn element(
    reader: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    common: &TcpSpec,
) -> Result<(&'static Kind, Element), Error> {
    if !reader.has(ElementKeys::kind) {
        reader.allow(&[ElementKeys::NAMES, PortKeys::NAMES, &Kind::all_keys()].concat())?;
    }
    let kind: &'static Kind = reader.required(ElementKeys::kind)?;
    reader.allow(&[ElementKeys::NAMES, PortKeys::NAMES, &kind.keys.concat()].concat())?;
    let port = port(reader, nodes, links)?;
    Ok((kind, Element { port, part: (kind.read)(reader, common)? }))
}

fn port(reader: &Reader<'_>, nodes: &Nodes, links: &[Link]) -> Result<Port, Error> {
    let Text(router_name) = reader.required(PortKeys::router)?;
    let router = nodes.find(&router_name).ok_or_else(|| {
        reader.unknown_name(PortKeys::router, "router", &router_name, nodes.routers.iter().map(String::as_str))
    })?;
    if nodes.is_host(router) {
        return Err(reader.refuse(PortKeys::router, "a router", "it is a host"));
    }
    let Text(link_name) = reader.required(PortKeys::link)?;
    let names = || links.iter().map(|link| link.name.as_str());
    let link = names()
        .position(|name| name == link_name)
        .ok_or_else(|| reader.unknown_name(PortKeys::link, "link", &link_name, names()))?;
    if !links[link].between.contains(&router) {
        let [a, b] = links[link].between.map(|node| nodes.name(node));
        let reason = format!("it connects \"{a}\" and \"{b}\"");
        return Err(reader.refuse(PortKeys::link, format!("a link of \"{router_name}\""), reason));
    }
    Ok(Port { router, link, beyond: hosts_beyond(nodes, links, router, link) })
}

/// Returns the hosts that are reached from `router` over `link`.
fn hosts_beyond(nodes: &Nodes, links: &[Link], router: usize, link: usize) -> Vec<usize> {
    let mut reached = vec![false; nodes.len()];
    let mut open: Vec<usize> = links[link].between.into_iter().filter(|end| *end != router).collect();
    while let Some(node) = open.pop() {
        reached[node] = true;
        // A moving host has links to several stations, and does not forward.
        if nodes.is_host(node) {
            continue;
        }
        for (index, other) in links.iter().enumerate() {
            if index != link && other.between.contains(&node) {
                open.extend(other.between.into_iter().filter(|end| !reached[*end]));
            }
        }
    }
    (0..nodes.hosts.len()).filter(|host| reached[*host]).collect()
}

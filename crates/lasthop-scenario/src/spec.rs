//! A scenario, read and checked as a whole.

use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::tcp::config::Preset;
use lasthop_proto::time::Instant;

use lasthop_sim::network::Bundle;

use crate::Error;
use crate::bundle_links;
use crate::bundles::Bundles;
use crate::files::Files;
use crate::flow_names::FlowNames;
use crate::flows::{self, Flow};
use crate::lab::{self, LabSpec};
use crate::measurement::{self, Measurement};
use crate::mobility::{self, Mobility};
use crate::modern;
use crate::nodes::{self, Apart, HostKeys, Link, Nodes};
use crate::reader::Reader;
use crate::sessions::{self, Session};
use crate::shared_keys::RootKeys;
use crate::stations::{self, Element, Station};
use crate::tcp::Base;
use crate::tcp_keys::Keys as TcpKeys;
use crate::values::{ElnSource, Line, Positive, Text, Whole};

/// All settings of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Spec {
    pub title: String,
    pub description: Option<String>,
    pub scheme: &'static Scheme,
    pub runs: u32,
    pub seed: u64,
    pub limit: Instant,
    pub eln_source: ElnSource,
    pub nodes: Nodes,
    pub links: Vec<Link>,
    pub bundles: Vec<Bundle>,
    pub flows: Vec<Flow>,
    pub sessions: Vec<Session>,
    pub mobility: Option<Mobility>,
    pub base_station: Option<Station>,
    pub elements: Vec<Element>,
    pub lab: LabSpec,
    pub measurement: Option<Measurement>,
}

/// Returns the default scheme: end to end, named after the congestion control of its preset if that is a modern one and
/// applies to all hosts.
fn default_scheme(root: &Reader<'_>) -> Result<(&'static Scheme, &'static str), Error> {
    let mut common = root.section(RootKeys::tcp)?.peek(TcpKeys::preset)?;
    for (_, host) in root.named(RootKeys::hosts)? {
        if host.section(HostKeys::tcp)?.has(TcpKeys::preset) {
            common = None;
        }
    }
    let modern = match common {
        Some(Preset::Linux618 | Preset::Rfc2026) => Scheme::by_name("E2E-CUBIC"),
        Some(Preset::Linux618Bbr) => Scheme::by_name("E2E-BBR"),
        Some(Preset::BsdLite | Preset::Ns2 | Preset::Rfc) | None => None,
    };
    Ok(modern.map_or((&SCHEMES[0], "default"), |scheme| (scheme, "default: the preset's congestion control")))
}

/// Reads a scenario. `name` is the default title; `files` contains loss traces.
pub(crate) fn read(root: &Reader<'_>, name: &str, files: &Files) -> Result<Spec, Error> {
    root.allow(RootKeys::NAMES)?;
    let Line(title) =
        root.or(RootKeys::title, Line(name.replace(char::is_control, " ")), "default: the scenario's name")?;
    let description = root.get(RootKeys::description)?.map(|Text(text)| text);
    let (scheme, source) = default_scheme(root)?;
    let scheme = root.or(RootKeys::scheme, scheme, source)?;
    let Whole(runs) = root.value(RootKeys::runs)?;
    let seed = root.value(RootKeys::seed)?;
    let Positive(limit) = root.value(RootKeys::limit)?;
    let limit = Instant::ZERO + limit;
    let eln_source = root.value(RootKeys::eln_source)?;

    let tcp = modern::read(&root.section(RootKeys::tcp)?, Base::Preset(Preset::Rfc))?;
    let nodes = Nodes::read(root, &tcp)?;
    let names = FlowNames::read(root)?;
    let bundles = Bundles::read(root)?;
    let apart = Apart { later: mobility::later_links(root, &nodes)?, bundles: &bundles };
    let links = nodes::links(root, &nodes, &names, &apart, files)?;
    let flows = flows::read(root, &nodes, limit)?;
    let sessions = sessions::read(root, &nodes, limit, names.total())?;
    let mobility = mobility::read(root, &nodes, &links, &flows, &sessions)?;
    let base_station = stations::base_station(root, &nodes, &links, &names, &tcp)?;
    let elements = stations::elements(root, &nodes, &links, &tcp)?;
    let bundles = bundle_links::read(bundles, root, &nodes, &links, base_station.as_ref())?;
    let lab = lab::read(root, &nodes)?;
    let measurement = measurement::read(root)?;
    Ok(Spec {
        title,
        description,
        scheme,
        runs,
        seed,
        limit,
        eln_source,
        nodes,
        links,
        bundles,
        flows,
        sessions,
        mobility,
        base_station,
        elements,
        lab,
        measurement,
    })
}

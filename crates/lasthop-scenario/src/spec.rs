//! A scenario, read and checked as a whole.

use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::tcp::config::Preset;
use lasthop_proto::time::{Duration, Instant};

use crate::Error;
use crate::files::Files;
use crate::flow_names::FlowNames;
use crate::flows::{self, Flow};
use crate::lab::{self, LabSpec};
use crate::measurement::{self, Measurement};
use crate::mobility::{self, Mobility};
use crate::modern;
use crate::nodes::{self, Link, Nodes};
use crate::reader::Reader;
use crate::sessions::{self, Session};
use crate::stations::{self, Element, Station};
use crate::tcp::Base;
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
    pub flows: Vec<Flow>,
    pub sessions: Vec<Session>,
    pub mobility: Option<Mobility>,
    pub base_station: Option<Station>,
    pub elements: Vec<Element>,
    pub lab: LabSpec,
    pub measurement: Option<Measurement>,
}

const KEYS: [&str; 19] = [
    "title",
    "description",
    "scheme",
    "runs",
    "seed",
    "limit",
    "eln_source",
    "tcp",
    "hosts",
    "routers",
    "links",
    "cells",
    "flows",
    "sessions",
    "mobility",
    "base_station",
    "elements",
    "lab",
    "measurement",
];

/// Maximum number of runs of a scenario in one call.
const MOST_RUNS: u32 = 1_000_000;

/// Returns the default scheme: end to end, named after the congestion control of its preset if that is a modern one and
/// applies to all hosts.
fn default_scheme(root: &Reader<'_>) -> Result<(&'static Scheme, &'static str), Error> {
    let mut common = root.section("tcp")?.peek("preset")?;
    for (_, host) in root.named("hosts")? {
        if host.section("tcp")?.has("preset") {
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
    root.allow(&KEYS)?;
    let Line(title) = root.or("title", Line(name.replace(char::is_control, " ")), "default: the scenario's name")?;
    let description = root.get("description")?.map(|Text(text)| text);
    let (scheme, source) = default_scheme(root)?;
    let scheme = root.or("scheme", scheme, source)?;
    let Whole(runs) = root.or::<Whole<1, MOST_RUNS>>("runs", Whole(30), "default")?;
    let seed = root.or("seed", 1, "default")?;
    let Positive(limit) = root.or("limit", Positive(Duration::from_secs(1000)), "default")?;
    let limit = Instant::ZERO + limit;
    let eln_source = root.or("eln_source", ElnSource::Receiver, "default")?;

    let tcp = modern::read(&root.section("tcp")?, Base::Preset(Preset::Rfc))?;
    let nodes = Nodes::read(root, &tcp)?;
    let names = FlowNames::read(root)?;
    let links = nodes::links(root, &nodes, &names, &mobility::later_links(root, &nodes)?, files)?;
    let flows = flows::read(root, &nodes, limit)?;
    let sessions = sessions::read(root, &nodes, limit, names.total())?;
    let mobility = mobility::read(root, &nodes, &links, &flows, &sessions)?;
    let base_station = stations::base_station(root, &nodes, &links, &names, &tcp)?;
    let elements = stations::elements(root, &nodes, &links, &tcp)?;
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
        flows,
        sessions,
        mobility,
        base_station,
        elements,
        lab,
        measurement,
    })
}

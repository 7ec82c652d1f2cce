//! Hosts, routers and links, and the check that they are connected.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::tcp::config::{CommonConfig, HeaderAccounting, Preset};
use lasthop_proto::time::Duration;
use lasthop_sim::network::{DamagedFrames, Impairments, Medium, QueueSpec, Rate};

use crate::bundles::Bundles;
use crate::cell::{self, Cells, End};
use crate::channel;
use crate::files::Files;
use crate::flow_names::FlowNames;
use crate::impairments::{self, Around, Keys as ImpairmentKeys};
use crate::key::Key;
use crate::link_trace::{self, Trace};
use crate::modern;
use crate::netem;
use crate::queue::{self, Sender};
use crate::reader::{Reader, Standing, Value};
use crate::shared_keys::{LinkKeys, RootKeys};
use crate::tcp::{Base, TcpSpec};
use crate::tcp_keys::Keys as TcpKeys;
use crate::values::{Line, MediumName, Or, Pair};
use crate::variation;
use crate::wifi;
use crate::{Error, Problem};

/// Maximum number of hosts and routers in a scenario.
const MOST_NODES: usize = 4096;

/// A host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Host {
    pub name: String,
    /// Initial sequence number of its endpoints.
    pub iss: u32,
    pub tcp: TcpSpec,
    /// Kind of sender for the default queue of its link, determined by the scenario's preset under any scheme.
    sender: Sender,
}

/// Hosts and routers. A node's index counts the hosts first, then the routers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Nodes {
    pub hosts: Vec<Host>,
    pub routers: Vec<String>,
}

impl Nodes {
    /// Reads all hosts and routers; `common` applies to hosts without TCP keys of their own.
    pub(crate) fn read(root: &Reader<'_>, common: &TcpSpec) -> Result<Self, Error> {
        let mut nodes = Self { hosts: Vec::new(), routers: Vec::new() };
        let common_preset = root.section(RootKeys::tcp)?.peek::<Preset>(TcpKeys::preset)?;
        for (name, reader) in root.named(RootKeys::hosts)? {
            reader.allow(HostKeys::NAMES)?;
            reader.note_table();
            let iss = reader.value(HostKeys::iss)?.0;
            let section = reader.section(HostKeys::tcp)?;
            let tcp = if section.is_present() { modern::read(&section, Base::Table(common))? } else { common.clone() };
            let preset = section.peek::<Preset>(TcpKeys::preset)?.or(common_preset);
            let modern = preset.is_some_and(|preset| preset.recovery().is_some());
            let sender = if modern { Sender::ModernHost } else { Sender::Other };
            nodes.hosts.push(Host { name, iss, tcp, sender });
        }
        for (name, reader) in root.named(RootKeys::routers)? {
            reader.allow(&[])?;
            reader.note_table();
            if nodes.find(&name).is_some() {
                let message = format!("\"{name}\" is also the name of a host; names of nodes must be unique");
                return Err(reader.fail_here(Problem::Conflict(message)));
            }
            nodes.routers.push(name);
        }
        if nodes.hosts.len() < 2 {
            let expected = "at least two hosts, e.g. [hosts.source] and [hosts.mobile]".to_owned();
            return Err(root.fail(RootKeys::hosts, Problem::Missing { expected }));
        }
        if nodes.len() > MOST_NODES {
            let message = format!("more than {MOST_NODES} hosts and routers");
            return Err(root.fail(RootKeys::hosts, Problem::Conflict(message)));
        }
        Ok(nodes)
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.len() + self.routers.len()
    }

    /// Returns all names, in the order of their indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.name.as_str()).chain(self.routers.iter().map(String::as_str))
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.names().nth(index).unwrap_or_default()
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names().position(|known| known == name)
    }

    pub(crate) fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    pub(crate) fn is_host(&self, index: usize) -> bool {
        index < self.hosts.len()
    }
}

/// A sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Iss(u32);

impl Value for Iss {
    fn expected() -> String {
        format!("a sequence number from 0 to {}", u32::MAX)
    }
    fn read(data: &crate::document::Data) -> Result<Self, String> {
        u32::try_from(u64::read(data)?).map(Self).map_err(|_| String::new())
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A link.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Link {
    pub name: String,
    /// Indices of the two nodes; "down" is from the first to the second.
    pub between: [usize; 2],
    pub medium: Medium,
    pub delay: Duration,
    /// Directions: down, up.
    pub directions: [Direction; 2],
    /// Handling of damaged frames; `None` means that of the scheme.
    pub damaged: Option<DamagedFrames>,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Direction {
    pub rate: Rate,
    pub queue: QueueSpec,
    pub errors: ErrorSpec,
    pub variation: VariationSpec,
    pub impairments: Impairments,
}

/// Links of stations other than the first: only one of all joins the host to the network.
pub(crate) struct LaterLinks {
    /// Index of the moving host.
    pub host: Option<usize>,
    /// Names of the links.
    pub names: Vec<String>,
}

/// Links over which no packets are routed at the start.
pub(crate) struct Apart<'b> {
    pub later: LaterLinks,
    /// Bundles, each of which joins nodes with one of its links.
    pub bundles: &'b Bundles,
}

impl LaterLinks {
    /// Returns whether a link is one of them.
    fn has(&self, link: &Link) -> bool {
        self.host.is_some_and(|host| link.between.contains(&host)) && self.names.contains(&link.name)
    }
}

keys! {
    /// Keys of a host.
    pub(crate) HostKeys {
        /// {} | initial sequence number
        iss: Iss = Iss(0);
        /// as `[tcp]` | TCP keys of this host; missing ones come from `[tcp]`, unless it has its own `preset`
        tcp;
    }
}

/// Reads all links and checks that they connect all nodes, without those of the later stations of a moving host, and with
/// one link of each bundle.
pub(crate) fn links(
    root: &Reader<'_>,
    nodes: &Nodes,
    flows: &FlowNames,
    Apart { later, bundles }: &Apart<'_>,
    files: &Files,
) -> Result<Vec<Link>, Error> {
    let (mut links, mut channels) = (Vec::new(), Channels::new(root)?);
    // Component of each node, while links join components to larger ones.
    let mut component: Vec<usize> = (0..nodes.len()).collect();
    for (name, reader) in root.named(RootKeys::links)? {
        netem::refuse_words(&reader)?;
        let link = link(name, &reader, nodes, (flows, files), &mut channels)?;
        if later.has(&link)
            || links.iter().any(|other: &Link| bundles.join(&other.name, &link.name) && other.between == link.between)
        {
            links.push(link);
            continue;
        }
        check_place(&reader, nodes, &links, &link, later)?;
        let is_parallel = |other: &&Link| link.between.iter().all(|node| other.between.contains(node));
        if let Some(other) = links.iter().filter(|other| !later.has(other)).find(is_parallel) {
            let ([a, b], other) = (link.between.map(|node| nodes.name(node)), &other.name);
            let message = format!(
                "\"{a}\" and \"{b}\" are already connected by \"{other}\", which all packets would take; put both links into \
                 a bundle"
            );
            return Err(reader.fail(LinkKeys::between, Problem::Conflict(message)));
        }
        // A host does not forward, so its further links connect nothing.
        let is_further = |node: &usize| nodes.is_host(*node) && links.iter().any(|other| other.between.contains(node));
        if !link.between.iter().any(is_further) {
            let [from, to] = link.between.map(|node| component[node]);
            component.iter_mut().filter(|member| **member == to).for_each(|member| *member = from);
        }
        links.push(link);
    }
    channels.cells.check_used()?;
    let first = component.first().copied().unwrap_or_default();
    if let Some(lonely) = component.iter().position(|member| *member != first) {
        let section = root.section(if nodes.is_host(lonely) { RootKeys::hosts } else { RootKeys::routers })?;
        let message = format!("no chain of links connects it to \"{}\"; hosts do not forward", nodes.name(0));
        return Err(section.fail(nodes.name(lonely), Problem::Conflict(message)));
    }
    Ok(links)
}

/// Checks that the link of a moving host is to a station.
fn check_place(
    reader: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    link: &Link,
    later: &LaterLinks,
) -> Result<(), Error> {
    let Some(host) = later.host.filter(|host| link.between.contains(host)) else { return Ok(()) };
    let at_once = |other: &&Link| other.between.contains(&host) && !later.has(other);
    match links.iter().find(at_once) {
        Some(other) => {
            let (name, other) = (nodes.name(host), &other.name);
            let message = format!(
                "host \"{name}\" already has a link (\"{other}\"), and mobility.stations must list all links of a moving host"
            );
            Err(reader.fail(LinkKeys::between, Problem::Conflict(message)))
        }
        None => Ok(()),
    }
}

fn link(
    name: String,
    reader: &Reader<'_>,
    nodes: &Nodes,
    (flows, files): (&FlowNames, &Files),
    channels: &mut Channels<'_>,
) -> Result<Link, Error> {
    reader.allow(&[LinkKeys::NAMES, ImpairmentKeys::NAMES].concat())?;
    let Pair(ends) = reader.required(LinkKeys::between)?;
    let find = |end: &str| {
        nodes.find(end).ok_or_else(|| reader.unknown_name(LinkKeys::between, "host or router", end, nodes.names()))
    };
    let between = [find(&ends[0])?, find(&ends[1])?];
    if between[0] == between[1] {
        return Err(reader.fail(LinkKeys::between, Problem::Conflict("a link needs two different ends".to_owned())));
    }
    let medium = medium(reader, nodes, between, channels)?;
    let trace = link_trace::read(reader, files, &medium)?;
    let [rate, rate_up] = rates(reader, &medium, trace.as_ref())?;
    let mut variations = variation::both(reader, files)?;
    let delay = match &trace {
        Some(trace) => trace.delay(reader, &mut variations)?,
        None => reader.required(LinkKeys::delay)?,
    };
    let [queue, queue_up] = queue::both(
        reader,
        between.map(|node| nodes.hosts.get(node).map_or(Sender::Other, |host| host.sender)),
        &medium,
        channels.cells.queue(&medium),
    )?;
    for (key, queue) in [(LinkKeys::queue, &queue), (LinkKeys::queue_up, &queue_up)] {
        queue::check(reader, key, queue, largest_packet(nodes))?;
    }
    let Or(damaged, _) = reader.value_from(LinkKeys::damaged, DAMAGED)?;
    let [errors_down, errors_up] = errors(reader, flows, files, trace.as_ref())?;
    let around = Around { files, medium: &medium, rates: [rate, rate_up], largest: largest_packet(nodes) };
    let [variation, variation_up] = variations;
    let [mut down, mut up] = impairments::both(reader, &around)?;
    if let Some(trace) = &trace {
        for (index, (own, rate)) in [(&mut down, rate), (&mut up, rate_up)].into_iter().enumerate() {
            own.impairments.rate = trace.rate(index, rate).unwrap_or_else(|| own.impairments.rate.clone());
        }
    }
    let direction = |rate, queue, errors, variation, own: impairments::Direction| {
        let variation = VariationSpec { slots: own.slots, ..variation };
        Direction { rate, queue, errors, variation, impairments: own.impairments }
    };
    let directions = [
        direction(rate, queue, errors_down, variation, down),
        direction(rate_up, queue_up, errors_up, variation_up, up),
    ];
    Ok(Link { name, between, medium, delay, directions, damaged })
}

/// Reads the rates of both directions. Those of Wi-Fi and of cells follow from their other parameters.
fn rates(reader: &Reader<'_>, medium: &Medium, trace: Option<&Trace>) -> Result<[Rate; 2], Error> {
    let (rates, note, message) = match medium {
        Medium::Wifi { wifi, .. } => (
            wifi.transmitters.map(|transmitter| Rate(transmitter.nominal_rate())),
            "on the air, without overhead",
            "the rate of Wi-Fi follows from its standard, width, streams and snr; remove it, or set wifi.mcs",
        ),
        Medium::Cell { cell, .. } => (
            cell::nominal_rates(cell),
            "of the whole cell at the mean SNR, without retransmissions",
            "the rate over a cell follows from cell.snr and the cell's blocks; remove it, or set cell.snr",
        ),
        Medium::Duplex | Medium::HalfDuplex { .. } | Medium::Shared { .. } => {
            if let Some(trace) = trace {
                return trace.nominal_rates(reader);
            }
            let rate = reader.required(LinkKeys::rate)?;
            return Ok([rate, reader.or_derived(LinkKeys::rate_up, rate, "as rate")?]);
        }
    };
    if let Some(key) = [LinkKeys::rate, LinkKeys::rate_up].into_iter().find(|key| reader.has(key)) {
        return Err(reader.fail(key, Problem::Conflict(message.to_owned())));
    }
    reader.note(LinkKeys::rate, rates[0].show(), note, Standing::Remark);
    reader.note(LinkKeys::rate_up, rates[1].show(), note, Standing::Remark);
    Ok(rates)
}

/// Channels by their numbers.
struct Channels<'r> {
    /// Names of those with `medium = "shared"`.
    shared: Vec<String>,
    wifi: wifi::Channels,
    cells: Cells<'r>,
}

impl<'r> Channels<'r> {
    fn new(root: &Reader<'r>) -> Result<Self, Error> {
        Ok(Self { shared: Vec::new(), wifi: wifi::Channels::default(), cells: Cells::new(root)? })
    }
}

/// Reads the medium.
fn medium(
    reader: &Reader<'_>,
    nodes: &Nodes,
    between: [usize; 2],
    channels: &mut Channels<'_>,
) -> Result<Medium, Error> {
    let only_with = |key: Key, media: &str| {
        let message = || format!("requires medium = {media}");
        if reader.has(key) { Err(reader.fail(key, Problem::Conflict(message()))) } else { Ok(()) }
    };
    let name = reader.value(LinkKeys::medium)?;
    if !matches!(name, MediumName::Shared | MediumName::Wifi | MediumName::Cell) {
        only_with(LinkKeys::channel, "\"shared\", \"wifi\" or \"cell\"")?;
    }
    if name != MediumName::HalfDuplex {
        only_with(LinkKeys::turnaround, "\"half-duplex\"")?;
    }
    if matches!(name, MediumName::Duplex | MediumName::Wifi | MediumName::Cell) {
        only_with(LinkKeys::frame_overhead.plain(), "\"half-duplex\"")?;
    }
    if name != MediumName::Wifi {
        only_with(LinkKeys::wifi, "\"wifi\"")?;
    }
    if name != MediumName::Cell {
        only_with(LinkKeys::cell, "\"cell\"")?;
    }
    match name {
        MediumName::Duplex => Ok(Medium::Duplex),
        MediumName::HalfDuplex => {
            let frame_overhead = reader.value(LinkKeys::frame_overhead)?;
            let turnaround = reader.get(LinkKeys::turnaround)?.unwrap_or(Duration::ZERO);
            Ok(Medium::HalfDuplex { frame_overhead, turnaround })
        }
        MediumName::Shared => {
            let frame_overhead = reader.value(LinkKeys::frame_overhead)?;
            let Line(channel) = reader.or(LinkKeys::channel, Line("radio".to_owned()), "default")?;
            let known = channels.shared.iter().position(|known| *known == channel);
            let number = known.unwrap_or_else(|| {
                channels.shared.push(channel);
                channels.shared.len() - 1
            });
            // There are no more channels than links.
            Ok(Medium::Shared { frame_overhead, channel: number as u32 })
        }
        MediumName::Wifi => channels.wifi.medium(reader),
        MediumName::Cell => {
            let end = |node| End { name: nodes.name(node), is_host: nodes.is_host(node) };
            channels.cells.medium(reader, between.map(end))
        }
    }
}

const DAMAGED: &str = "default: deliver if the scheme generates ELN at the receiver, otherwise drop";

/// Reads the error models of the two directions: `errors` for both, unless `errors_down` or `errors_up` is given. A
/// column of the link's trace replaces that of its direction.
fn errors(
    reader: &Reader<'_>,
    flows: &FlowNames,
    files: &Files,
    trace: Option<&Trace>,
) -> Result<[ErrorSpec; 2], Error> {
    if let Some(trace) = trace.filter(|trace| trace.has_losses(0) || trace.has_losses(1)) {
        let own = |index: usize, key: Key| match trace.errors(reader, index)? {
            Some(errors) => Ok(errors),
            // `errors` would apply to the other direction, too.
            None => channel::read(&reader.section(key)?, flows, files),
        };
        return Ok([own(0, LinkKeys::errors_down)?, own(1, LinkKeys::errors_up)?]);
    }
    let own = |key: Key| {
        let section = reader.section(key)?;
        if section.is_present() { channel::read(&section, flows, files).map(Some) } else { Ok(None) }
    };
    let both = reader.section(LinkKeys::errors)?;
    let (has_down, has_up) = (reader.has(LinkKeys::errors_down), reader.has(LinkKeys::errors_up));
    if both.is_present() && has_down && has_up {
        let message =
            "applies to both directions, but errors_down and errors_up are also given; remove one of the three";
        return Err(reader.fail(LinkKeys::errors, Problem::Conflict(message.to_owned())));
    }
    let common = if has_down && has_up { ErrorSpec::None } else { channel::read(&both, flows, files)? };
    Ok([own(LinkKeys::errors_down)?.unwrap_or_else(|| common.clone()), own(LinkKeys::errors_up)?.unwrap_or(common)])
}

/// Returns the size of the largest packet that any host sends, in bytes, without options.
fn largest_packet(nodes: &Nodes) -> u64 {
    // IPv4 and TCP headers.
    let headers = |config: &CommonConfig| if config.headers == HeaderAccounting::Full { 40 } else { 0 };
    let frame = |host: &Host| u64::from(host.tcp.mss()) + headers(&host.tcp.common);
    nodes.hosts.iter().map(frame).max().unwrap_or_default()
}

//! A host that moves among base stations: `[mobility]`.

use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::{self, HandoffKind, LinkId, LinkSession, Medium, NodeId, QueueLimit, SoftState};

use crate::flows::{self, Flow};
use crate::nodes::{LaterLinks, Link, Nodes};
use crate::reader::{Reader, Value};
use crate::sessions::Session;
use crate::stations::Port;
use crate::values::{Auto, Choice, List, Or, Positive, Text};
use crate::{Error, Problem};

/// Value of a key that names a variant of a type of the simulator.
macro_rules! names {
    ($($name:ident($type:ident) { $($word:literal = $variant:ident),* $(,)? })*) => {$(
        #[derive(Clone, Copy, PartialEq)]
        struct $name($type);
        impl Choice for $name {
            const CHOICES: &'static [(&'static str, Self)] = &[$(($word, Self($type::$variant))),*];
        }
    )*};
}

names! {
    KindName(HandoffKind) {
        "hard" = Hard, "forwarding" = Forwarding, "multicast" = Multicast, "hierarchical" = Hierarchical,
    }
    SoftStateName(SoftState) { "lost" = Lost, "mirrored" = Mirrored }
    SessionName(LinkSession) { "anew" = Anew, "moved" = Moved }
}

/// The moving host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mobility {
    /// Index of the host.
    host: usize,
    /// Ports of the stations to it, in order.
    pub ports: Vec<Port>,
    moves: network::Moves,
    kind: HandoffKind,
    detection: Duration,
    registration: Duration,
    route_update: Option<Duration>,
    buffer: QueueLimit,
    soft_state: SoftState,
    link_session: LinkSession,
    state_setup: Duration,
}

const KEYS: [&str; 11] = [
    "host",
    "stations",
    "moves",
    "kind",
    "detection",
    "registration",
    "route_update",
    "buffer",
    "soft_state",
    "link_session",
    "state_setup",
];

/// Maximum number of stations.
const MOST_STATIONS: usize = 256;
/// Maximum number of moves in a timetable.
const LONGEST_TIMETABLE: usize = 10_000;
/// Minimum interval of periodic moves.
const LEAST_DISTANCE: Duration = Duration::from_millis(1);

/// Returns the links to later stations in `[mobility]`.
pub(crate) fn later_links(root: &Reader<'_>, nodes: &Nodes) -> Result<LaterLinks, Error> {
    let reader = root.section("mobility")?;
    let host = match reader.peek("host")? {
        Some(Text(name)) => Some(nodes.host(&name).ok_or_else(|| {
            let hosts = nodes.hosts.iter().map(|host| host.name.as_str());
            reader.unknown_name("host", "host", &name, hosts)
        })?),
        None => None,
    };
    let List(stations) = reader.peek("stations")?.unwrap_or(List(Vec::new()));
    Ok(LaterLinks { host, names: stations.into_iter().skip(1).map(|Text(name)| name).collect() })
}

/// Reads `[mobility]`, which may be absent.
pub(crate) fn read(
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    flows: &[Flow],
    sessions: &[Session],
) -> Result<Option<Mobility>, Error> {
    let reader = root.section("mobility")?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(&KEYS)?;
    let host = flows::host(&reader, "host", nodes)?;
    let ends = flows.iter().map(|flow| [flow.from, flow.to]);
    let ends = ends.chain(sessions.iter().map(|session| [session.client, session.server]));
    if !ends.flatten().any(|end| end == host) {
        return Err(reader.refuse(
            "host",
            "a host at which a flow or a session begins or ends",
            "no flow or session does",
        ));
    }
    let List(names) = reader.required::<List<Text>>("stations")?;
    let ports = ports(&reader, nodes, links, host, &names)?;
    let shares = |port: &&Port| match links[port.link].medium {
        Medium::Shared { .. } | Medium::Wifi { .. } | Medium::Cell { .. } => true,
        Medium::Duplex | Medium::HalfDuplex { .. } => false,
    };
    if let Some(port) = ports.iter().find(shares) {
        let link = &links[port.link].name;
        let reason = format!("\"{link}\" shares a channel with other links");
        return Err(reader.refuse("stations", "links that are \"duplex\" or \"half-duplex\"", reason));
    }
    let moves = moves(&reader)?;
    let KindName(kind) = reader.or("kind", KindName(HandoffKind::Hard), "default")?;
    let detection = reader.or("detection", Duration::ZERO, "default")?;
    let registration = reader.or("registration", Duration::from_millis(10), "default")?;
    let source = "default: the links' delays from the new station to where routes change";
    let Or(route_update, _) = reader.or::<Or<Auto, Duration>>("route_update", None.into(), source)?;
    let keeps = matches!(kind, HandoffKind::Forwarding | HandoffKind::Multicast);
    if !keeps && reader.has("buffer") {
        let message = "only kind = \"forwarding\" and kind = \"multicast\" buffer packets; remove this key, or kind";
        return Err(reader.fail("buffer", Problem::Conflict(message.to_owned())));
    }
    let default = QueueLimit::Packets(50);
    let buffer = if keeps { reader.or("buffer", default, "default")? } else { default };
    let SoftStateName(soft_state) = reader.or("soft_state", SoftStateName(SoftState::Lost), "default")?;
    let SessionName(link_session) = reader.or("link_session", SessionName(LinkSession::Anew), "default")?;
    let state_setup = reader.or("state_setup", Duration::from_millis(200), "default")?;
    Ok(Some(Mobility {
        host,
        ports,
        moves,
        kind,
        detection,
        registration,
        route_update,
        buffer,
        soft_state,
        link_session,
        state_setup,
    }))
}

/// Returns the routers' ports to the host, in the order of the stations.
fn ports(reader: &Reader<'_>, nodes: &Nodes, links: &[Link], host: usize, names: &[Text]) -> Result<Vec<Port>, Error> {
    let host_name = nodes.name(host);
    let expected = || format!("links between \"{host_name}\" and a router each, e.g. [\"cell-1\", \"cell-2\"]");
    if names.is_empty() || names.len() > MOST_STATIONS {
        return Err(reader.refuse("stations", format!("1 to {MOST_STATIONS} {}", expected()), ""));
    }
    let mut ports: Vec<Port> = Vec::new();
    for Text(name) in names {
        let known = || links.iter().map(|link| link.name.as_str());
        let link = known().position(|known| known == name);
        let link = link.ok_or_else(|| reader.unknown_name("stations", "link", name, known()))?;
        let [a, b] = links[link].between;
        let router = if a == host { b } else { a };
        if a != host && b != host || nodes.is_host(router) {
            let reason = format!("\"{name}\" connects \"{}\" and \"{}\"", nodes.name(a), nodes.name(b));
            return Err(reader.refuse("stations", expected(), reason));
        }
        if ports.iter().any(|port| port.router == router) {
            let message = format!("\"{}\" is a station twice; each link needs a separate router", nodes.name(router));
            return Err(reader.fail("stations", Problem::Conflict(message)));
        }
        ports.push(Port { router, link, beyond: vec![host] });
    }
    Ok(ports)
}

fn moves(reader: &Reader<'_>) -> Result<network::Moves, Error> {
    let moves = reader.section("moves")?;
    moves.allow(&["every", "at", "mean"])?;
    let expected = "{ every = \"1 s\" }, { at = [\"2 s\", \"5 s\"] } or { mean = \"10 s\" }";
    if !moves.is_present() {
        return Err(reader.fail("moves", Problem::Missing { expected: expected.to_owned() }));
    }
    let distance = |key: &'static str, given: Option<Positive<Duration>>| match given {
        Some(Positive(span)) if span < LEAST_DISTANCE => Err(moves.refuse(key, "a time of 1 ms or more", "")),
        Some(Positive(span)) => Ok(Some(span)),
        None => Ok(None),
    };
    let every = distance("every", moves.get("every")?)?;
    let mean = distance("mean", moves.get("mean")?)?;
    match (every, moves.get::<List<Instant>>("at")?, mean) {
        (Some(every), None, None) => Ok(network::Moves::Every(every)),
        (None, Some(List(times)), None) => {
            let expected = || format!("at most {LONGEST_TIMETABLE} times, each later than the one before");
            if times.len() > LONGEST_TIMETABLE {
                return Err(moves.refuse("at", expected(), format!("of {} times", times.len())));
            }
            if let Some(pair) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
                let reason = format!("{} follows {}", pair[1].show(), pair[0].show());
                return Err(moves.refuse("at", expected(), reason));
            }
            Ok(network::Moves::At(times))
        }
        (None, None, Some(mean)) => Ok(network::Moves::Mean(mean)),
        _ => Err(reader.fail("moves", Problem::Conflict(format!("give one of the three: {expected}")))),
    }
}

impl Mobility {
    /// Returns the simulator's configuration.
    pub(crate) fn network(&self) -> network::Mobility {
        network::Mobility {
            host: NodeId(self.host),
            stations: self.ports.iter().map(|port| LinkId(port.link)).collect(),
            moves: self.moves.clone(),
            kind: self.kind,
            detection: self.detection,
            registration: self.registration,
            route_update: self.route_update,
            buffer: self.buffer,
            soft_state: self.soft_state,
            link_session: self.link_session,
            state_setup: self.state_setup,
        }
    }
}

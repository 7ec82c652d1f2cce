//! A host that moves among base stations: `[mobility]`.

use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::{self, HandoffKind, LinkId, LinkSession, Medium, NodeId, QueueLimit, SoftState};

use crate::flows::{self, Flow};
use crate::key::Key;
use crate::nodes::{LaterLinks, Link, Nodes};
use crate::reader::{Reader, Value};
use crate::sessions::Session;
use crate::shared_keys::RootKeys;
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
    /// Ports of the stations towards the host, in order.
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

keys! {
    /// Keys of a moving host.
    pub(crate) Keys {
        /// required | the mobile host, an end of a flow
        host;
        /// required | its links, each to a different router, e.g. `["cell-1", "cell-2"]`; starts at the first
        stations;
        /// required | `{ every = "1 s" }`, `{ at = ["2 s", "5 s"] }` (cyclic), or `{ mean = "10 s" }` (exponential, to
        /// any other)
        moves;
        /// {} | packets for the old station are lost until routes change (`"hierarchical"`: near the host), buffered and
        /// forwarded (`"forwarding"`), or go to all stations, of which the new one sends what the host lacks
        /// (`"multicast"`)
        kind: KindName = KindName(HandoffKind::Hard);
        /// {} | until the host notices that it must move
        detection: Duration = Duration::ZERO;
        /// {} | then until the new station accepts it
        registration: Duration = Duration::from_millis(10);
        /// {} | then until routes change; auto: the delay from the new station to the host's farthest peer, if
        /// `"hierarchical"` to the router where paths diverge
        route_update: Or<Auto, Duration> = None.into();
        /// {} | per station, if `"forwarding"` or `"multicast"`
        buffer: QueueLimit = QueueLimit::Packets(50);
        /// {} | snoop's cache is lost, or `"mirrored"` at the new station
        soft_state: SoftStateName = SoftStateName(SoftState::Lost);
        /// {} | a two-ended link restarts, or is `"moved"`
        link_session: SessionName = SessionName(LinkSession::Anew);
        /// {} | to move a split connection's state, beside its transmission
        state_setup: Duration = Duration::from_millis(200);
    }

    /// Keys of `moves`.
    MovesKeys { every, at, mean; }
}

/// Maximum number of stations.
const MOST_STATIONS: usize = 256;
/// Maximum number of moves in a timetable.
const LONGEST_TIMETABLE: usize = 10_000;
/// Minimum interval of periodic moves.
const LEAST_DISTANCE: Duration = Duration::from_millis(1);

/// Returns the links to later stations in `[mobility]`.
pub(crate) fn later_links(root: &Reader<'_>, nodes: &Nodes) -> Result<LaterLinks, Error> {
    let reader = root.section(RootKeys::mobility)?;
    let host = match reader.peek(Keys::host)? {
        Some(Text(name)) => Some(nodes.host(&name).ok_or_else(|| {
            let hosts = nodes.hosts.iter().map(|host| host.name.as_str());
            reader.unknown_name(Keys::host, "host", &name, hosts)
        })?),
        None => None,
    };
    let List(stations) = reader.peek(Keys::stations)?.unwrap_or(List(Vec::new()));
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
    let reader = root.section(RootKeys::mobility)?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(Keys::NAMES)?;
    let host = flows::host(&reader, Keys::host, nodes)?;
    let ends = flows.iter().map(|flow| [flow.from, flow.to]);
    let ends = ends.chain(sessions.iter().map(|session| [session.client, session.server]));
    if !ends.flatten().any(|end| end == host) {
        return Err(reader.refuse(
            Keys::host,
            "a host at which a flow or a session begins or ends",
            "no flow or session does",
        ));
    }
    let List(names) = reader.required::<List<Text>>(Keys::stations)?;
    let ports = ports(&reader, nodes, links, host, &names)?;
    let shares = |port: &&Port| match links[port.link].medium {
        Medium::Shared { .. } | Medium::Wifi { .. } | Medium::Cell { .. } => true,
        Medium::Duplex | Medium::HalfDuplex { .. } => false,
    };
    if let Some(port) = ports.iter().find(shares) {
        let link = &links[port.link].name;
        let reason = format!("\"{link}\" shares a channel with other links");
        return Err(reader.refuse(Keys::stations, "links that are \"duplex\" or \"half-duplex\"", reason));
    }
    let moves = moves(&reader)?;
    let KindName(kind) = reader.value(Keys::kind)?;
    let detection = reader.value(Keys::detection)?;
    let registration = reader.value(Keys::registration)?;
    let source = "default: the links' delays from the new station to where routes change";
    let Or(route_update, _) = reader.value_from(Keys::route_update, source)?;
    let keeps = matches!(kind, HandoffKind::Forwarding | HandoffKind::Multicast);
    if !keeps && reader.has(Keys::buffer) {
        let message = "only kind = \"forwarding\" and kind = \"multicast\" buffer packets; remove this key, or kind";
        return Err(reader.fail(Keys::buffer, Problem::Conflict(message.to_owned())));
    }
    let buffer = if keeps { reader.value(Keys::buffer)? } else { Keys::buffer.default() };
    let SoftStateName(soft_state) = reader.value(Keys::soft_state)?;
    let SessionName(link_session) = reader.value(Keys::link_session)?;
    let state_setup = reader.value(Keys::state_setup)?;
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
        return Err(reader.refuse(Keys::stations, format!("1 to {MOST_STATIONS} {}", expected()), ""));
    }
    let mut ports: Vec<Port> = Vec::new();
    for Text(name) in names {
        let known = || links.iter().map(|link| link.name.as_str());
        let link = known().position(|known| known == name);
        let link = link.ok_or_else(|| reader.unknown_name(Keys::stations, "link", name, known()))?;
        let [a, b] = links[link].between;
        let router = if a == host { b } else { a };
        if a != host && b != host || nodes.is_host(router) {
            let reason = format!("\"{name}\" connects \"{}\" and \"{}\"", nodes.name(a), nodes.name(b));
            return Err(reader.refuse(Keys::stations, expected(), reason));
        }
        if ports.iter().any(|port| port.router == router) {
            let message = format!("\"{}\" is a station twice; each link needs a separate router", nodes.name(router));
            return Err(reader.fail(Keys::stations, Problem::Conflict(message)));
        }
        ports.push(Port { router, link, beyond: vec![host] });
    }
    Ok(ports)
}

fn moves(reader: &Reader<'_>) -> Result<network::Moves, Error> {
    let moves = reader.section(Keys::moves)?;
    moves.allow(MovesKeys::NAMES)?;
    let expected = "{ every = \"1 s\" }, { at = [\"2 s\", \"5 s\"] } or { mean = \"10 s\" }";
    if !moves.is_present() {
        return Err(reader.fail(Keys::moves, Problem::Missing { expected: expected.to_owned() }));
    }
    let distance = |key: Key, given: Option<Positive<Duration>>| match given {
        Some(Positive(span)) if span < LEAST_DISTANCE => Err(moves.refuse(key, "a time of 1 ms or more", "")),
        Some(Positive(span)) => Ok(Some(span)),
        None => Ok(None),
    };
    let every = distance(MovesKeys::every, moves.get(MovesKeys::every)?)?;
    let mean = distance(MovesKeys::mean, moves.get(MovesKeys::mean)?)?;
    match (every, moves.get::<List<Instant>>(MovesKeys::at)?, mean) {
        (Some(every), None, None) => Ok(network::Moves::Every(every)),
        (None, Some(List(times)), None) => {
            let expected = || format!("at most {LONGEST_TIMETABLE} times, each later than the one before");
            if times.len() > LONGEST_TIMETABLE {
                return Err(moves.refuse(MovesKeys::at, expected(), format!("of {} times", times.len())));
            }
            if let Some(pair) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
                let reason = format!("{} follows {}", pair[1].show(), pair[0].show());
                return Err(moves.refuse(MovesKeys::at, expected(), reason));
            }
            Ok(network::Moves::At(times))
        }
        (None, None, Some(mean)) => Ok(network::Moves::Mean(mean)),
        _ => Err(reader.fail(Keys::moves, Problem::Conflict(format!("give one of the three: {expected}")))),
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

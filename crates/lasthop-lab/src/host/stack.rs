//! The host without its device: packets as bytes in, packets as bytes out. No I/O and no clock.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lasthop_proto::packet::{Flags, Integrity, Segment};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Switch, TcpConfig};
use lasthop_proto::time::Instant;
use lasthop_sim::sim::tick_phase;
use lasthop_wire::{Checksum, Checksums, Route, View, build, build_with_ecn, checksums, parse};

use super::end::{App, Birth, End, Ticket};
use super::icmp;
use super::outcome::{Ending, Outcome};
use super::{HostConfig, HostError};

/// Maximum number of connections, including those in TIME-WAIT.
pub(super) const MAX_ENDS: usize = 1024;
/// Maximum number of incoming connections with an incomplete handshake, unless more receivers wait. The oldest is
/// dropped.
pub(super) const MAX_HALF_OPEN: usize = 128;
/// Maximum number of receivers that wait for a connection.
const MAX_WAITING: usize = 1024;

/// A receiver that waits for a connection.
struct Waiting {
    ticket: Ticket,
    /// Peer to accept; any if `None`.
    remote: Option<SocketAddr>,
    app: App,
    config: Arc<TcpConfig>,
    since: Instant,
    limit: Instant,
}

impl Waiting {
    /// Returns whether the receiver accepts a connection with this route.
    fn suits(&self, route: Route) -> bool {
        self.remote.is_none_or(|remote| remote == route.destination)
    }
}

/// Packets that the stack sends.
pub(super) type Out = Vec<Vec<u8>>;

/// All connections of a host.
pub(super) struct Stack {
    name: String,
    addresses: Vec<IpAddr>,
    mtu: u16,
    root: Root,
    random: Stream,
    watch: Switch,
    /// Ends by the route to their peer.
    ends: BTreeMap<Route, End>,
    /// Receivers by local address and port, first come, first served.
    waiting: BTreeMap<SocketAddr, VecDeque<Waiting>>,
    /// Connections without a receiver, oldest first.
    half_open: VecDeque<Route>,
    outcomes: Vec<(Ticket, Outcome)>,
    scratch: Vec<u8>,
}

impl Stack {
    /// Creates a host without connections.
    pub fn new(config: &HostConfig) -> Self {
        let root = Root(config.seed);
        Self {
            name: config.name.clone(),
            addresses: config.addresses.clone(),
            mtu: config.mtu,
            root,
            random: root.stream(&format!("hosts/{}/iss", config.name)),
            watch: config.watch,
            ends: BTreeMap::new(),
            waiting: BTreeMap::new(),
            half_open: VecDeque::new(),
            outcomes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the number of connections, and of waiting receivers.
    #[cfg(test)]
    pub fn sizes(&self) -> (usize, usize) {
        (self.ends.len(), self.waiting.values().map(VecDeque::len).sum())
    }

    /// Opens a connection from `route.source`, on which `app` runs until `limit` at the latest.
    pub fn open(
        &mut self,
        now: Instant,
        ticket: Ticket,
        (route, app, config): (Route, App, Arc<TcpConfig>),
        limit: Instant,
        out: &mut Out,
    ) -> Result<(), HostError> {
        self.owns(route.source)?;
        if route.source.is_ipv4() != route.destination.is_ipv4() {
            return Err(HostError::Families(route.source, route.destination));
        }
        if self.ends.get(&route).is_some_and(|end| !end.is_spent()) {
            return Err(HostError::Busy(route.source, route.destination));
        }
        if self.ends.len() >= MAX_ENDS {
            return Err(HostError::Full(MAX_ENDS));
        }
        let mut end = End::active(now, self.birth(route, app.clone(), config));
        end.adopt(ticket, app, limit);
        self.ends.insert(route, end);
        self.pump(now, route, out);
        Ok(())
    }

    /// Waits at `local` for a connection, only from `remote` if given, on which `app` runs.
    pub fn listen(
        &mut self,
        now: Instant,
        ticket: Ticket,
        (local, remote, app, config): (SocketAddr, Option<SocketAddr>, App, Arc<TcpConfig>),
        limit: Instant,
    ) -> Result<(), HostError> {
        self.owns(local)?;
        if self.waiting.values().map(VecDeque::len).sum::<usize>() >= MAX_WAITING {
            return Err(HostError::Full(MAX_WAITING));
        }
        let waiting = Waiting { ticket, remote, app, config, since: now, limit };
        self.waiting.entry(local).or_default().push_back(waiting);
        Ok(())
    }

    /// Resets the connection of `ticket`, or stops waiting for it.
    pub fn abort(&mut self, now: Instant, ticket: Ticket, out: &mut Out) {
        self.stop_waiting(now, |waiting| waiting.ticket == ticket, Ending::Aborted);
        let found = self.ends.iter().find(|(_, end)| end.ticket == Some(ticket)).map(|(&route, _)| route);
        if let Some(route) = found {
            self.abort_end(now, route, Ending::Aborted, out);
        }
    }

    /// Resets every connection when the host is dropped.
    pub fn abort_all(&mut self, now: Instant, out: &mut Out) {
        self.stop_waiting(now, |_| true, Ending::Aborted);
        for route in self.ends.keys().copied().collect::<Vec<_>>() {
            self.abort_end(now, route, Ending::Aborted, out);
        }
    }

    /// Takes a packet that arrived. Ignores packets other than TCP for the host's addresses and ICMP messages that
    /// report a smaller path MTU.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8], out: &mut Out) {
        let Some(view) = parse(bytes) else {
            if let Some(too_big) = icmp::parse(bytes) {
                self.shrink_path(now, &too_big, out);
            }
            return;
        };
        let packet = &bytes[..view.total_len()];
        if !self.addresses.contains(&view.route.destination.ip()) {
            return;
        }
        let payload = &packet[view.header_len..];
        let integrity = match checksums(packet, &view, Checksum::Complete) {
            Checksums::Hold => Integrity::Intact,
            Checksums::TcpWrong => Integrity::PayloadDamaged,
            Checksums::IpWrong => return,
        };
        let route = view.route.reversed();
        if integrity == Integrity::Intact && self.ends.get(&route).is_some_and(|end| end.gives_way_to(&view.segment)) {
            self.ends.remove(&route);
        }
        if let Some(end) = self.ends.get_mut(&route) {
            end.take(now, &view, payload, integrity);
            self.pump(now, route, out);
        } else if integrity == Integrity::Intact {
            self.take_stray(now, route, &view, payload, out);
        }
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Out) {
        self.stop_waiting(now, |waiting| waiting.limit <= now, Ending::OutOfTime);
        let due = |end: &End| end.poll_deadline().is_some_and(|at| at <= now);
        let due: Vec<_> = self.ends.iter().filter(|(_, end)| due(end)).map(|(&route, _)| route).collect();
        for route in due {
            if let Some(end) = self.ends.get_mut(&route) {
                end.handle_timeout(now);
            }
            self.pump(now, route, out);
        }
    }

    /// Returns the time for the next call of [`Stack::handle_timeout`].
    pub fn poll_deadline(&self) -> Option<Instant> {
        let ends = self.ends.values().filter_map(End::poll_deadline);
        let waiting = self.waiting.values().flatten().map(|waiting| waiting.limit);
        ends.chain(waiting).min()
    }

    /// Returns the outcomes of the transfers that have ended.
    pub fn take_outcomes(&mut self) -> Vec<(Ticket, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    fn owns(&self, local: SocketAddr) -> Result<(), HostError> {
        if self.addresses.contains(&local.ip()) { Ok(()) } else { Err(HostError::NotOurs(local)) }
    }

    fn birth(&mut self, route: Route, app: App, config: Arc<TcpConfig>) -> Birth {
        let headers = if route.source.is_ipv4() { 40 } else { 60 };
        let mss = u32::from(self.mtu).saturating_sub(headers);
        let phase = tick_phase(self.root, &self.name, &config);
        let iss = Seq(self.random.below(1 << 32) as u32);
        Birth { route, app, config, iss, phase, mss, watch: self.watch }
    }

    /// Handles a segment without a connection: opens one, or replies with a reset (RFC 9293 §3.10.7.1).
    fn take_stray(&mut self, now: Instant, route: Route, view: &View, payload: &[u8], out: &mut Out) {
        let flags = view.segment.flags;
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        let mut waiting = self.waiting.get(&route.source).into_iter().flatten();
        if let (true, Some(Waiting { app, config, .. })) = (opens, waiting.find(|waiting| waiting.suits(route))) {
            let (app, config) = (app.clone(), config.clone());
            if self.make_room() {
                let mut end = End::passive(now, self.birth(route, app, config));
                end.take(now, view, payload, Integrity::Intact);
                self.ends.insert(route, end);
                self.half_open.push_back(route);
                self.pump(now, route, out);
            }
        } else if !flags.has(Flags::RST) {
            out.extend(reset(route, &view.segment, payload.len()));
        }
    }

    /// Makes space for an incoming connection. Returns whether there is space.
    fn make_room(&mut self) -> bool {
        // All connections that receivers wait for may arrive at once.
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        while self.half_open.len() >= MAX_HALF_OPEN.max(waiting) {
            if let Some(oldest) = self.half_open.pop_front() {
                self.ends.remove(&oldest);
            }
        }
        self.ends.len() < MAX_ENDS
    }

    /// Sends the packets of an end, and processes its state.
    fn pump(&mut self, now: Instant, route: Route, out: &mut Out) {
        let Some(end) = self.ends.get_mut(&route) else { return };
        end.pump(now, &mut self.scratch, |packet, payload| {
            let segment = packet.tcp().and_then(|segment| build_with_ecn(route, packet.ecn, segment, payload));
            out.extend(segment);
        });
        let adopts = end.is_established() && self.half_open.contains(&route);
        if adopts {
            self.half_open.retain(|&half_open| half_open != route);
            let Some(waiting) = self.next_waiting(route) else {
                // The receiver took another connection in the meantime.
                return self.abort_end(now, route, Ending::Aborted, out);
            };
            let Some(end) = self.ends.get_mut(&route) else { return };
            end.adopt(waiting.ticket, waiting.app, waiting.limit);
        }
        self.settle(now, route);
    }

    fn next_waiting(&mut self, route: Route) -> Option<Waiting> {
        let queue = self.waiting.get_mut(&route.source)?;
        let place = queue.iter().position(|waiting| waiting.suits(route))?;
        let first = queue.remove(place);
        if queue.is_empty() {
            self.waiting.remove(&route.source);
        }
        first
    }

    /// Takes the outcome of an end if it has one, and removes the end once it has finished.
    fn settle(&mut self, now: Instant, route: Route) {
        let Some(end) = self.ends.get_mut(&route) else { return };
        self.outcomes.extend(end.poll_outcome(now));
        if end.is_over(now) {
            self.ends.remove(&route);
            self.half_open.retain(|&half_open| half_open != route);
        }
    }

    fn abort_end(&mut self, now: Instant, route: Route, ending: Ending, out: &mut Out) {
        if let Some(end) = self.ends.get_mut(&route) {
            end.abort(ending);
            self.pump(now, route, out);
        }
    }

    fn stop_waiting(&mut self, now: Instant, which: impl Fn(&Waiting) -> bool, ending: Ending) {
        let outcomes = &mut self.outcomes;
        self.waiting.retain(|&local, queue| {
            queue.retain(|waiting| {
                let stops = which(waiting);
                if stops {
                    let nobody = SocketAddr::new(local.ip(), 0);
                    let outcome = Outcome { ending, end: now, ..Outcome::new(local, nobody, waiting.since) };
                    outcomes.push((waiting.ticket, outcome));
                }
                !stops
            });
            !queue.is_empty()
        });
    }

    fn shrink_path(&mut self, now: Instant, too_big: &icmp::TooBig, out: &mut Out) {
        let route = too_big.route;
        let headers = if route.source.is_ipv4() { 40 } else { 60 };
        if let Some(end) = self.ends.get_mut(&route)
            && end.is_outstanding(too_big.seq)
            && too_big.mtu < self.mtu
        {
            end.fit_path(now, u32::from(too_big.mtu) - headers);
            self.pump(now, route, out);
        }
    }
}

/// Returns the reset for a segment that belongs to no connection.
fn reset(route: Route, segment: &Segment, payload_len: usize) -> Option<Vec<u8>> {
    let flags = segment.flags;
    let answer = if flags.has(Flags::ACK) {
        Segment { seq: segment.ack, flags: Flags::RST, ..Segment::default() }
    } else {
        let marks = u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        let ack = segment.seq + (payload_len as u32).wrapping_add(marks);
        Segment { ack, flags: Flags::RST.with(Flags::ACK), ..Segment::default() }
    };
    build(route, &answer, &[])
}

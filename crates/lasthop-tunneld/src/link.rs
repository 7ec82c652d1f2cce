//! One peer: what repairs the way to it, how its packets are numbered, and what its path takes.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use lasthop_daemon::ab::Arm;
use lasthop_proto::link::hybrid::{
    Counters, Fate, Feedback, Frame, HopConfig, Medium, Outgoing, PacketNumber, RateRule, Repair, State, Why,
};
use lasthop_proto::node::Port;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::OVERHEAD;
use lasthop_tunnel::{Capabilities, Carrier, Mac, Start};

use crate::comparison::{Comparison, Findings};
use crate::frames::{DATA, Near};
use crate::inner::frame::ETHERNET;
use crate::inner::look::View;
use crate::inner::packet::Packet;
use crate::plan::PeerPlan;
use crate::recording::hop::{RecordedHop, Tape};

/// This end restores packets from sums.
pub const CODES: Capabilities = Capabilities(1);
/// This end takes packets that go unrepaired.
pub const BARE: Capabilities = Capabilities(2);
/// This end reads in feedback how many packets came marked.
pub const MARKS: Capabilities = Capabilities(4);
/// All that this end can do.
pub const ALL: Capabilities = Capabilities(CODES.0 | BARE.0 | MARKS.0);

/// By so much the loops of both ends may be late, without sending more slowly and without anything being held lost.
const LAG: Duration = Duration::from_millis(3);
/// The queue's target and interval (docs/models/two-ended-link.md).
const TARGET: Duration = Duration::from_millis(40);
const INTERVAL: Duration = Duration::from_millis(100);
/// A new path is taken for one of the interface's MTU until the search knows better: six probes, a second each.
const OPTIMISM: Duration = Duration::from_secs(7);
/// Sizes of transmissions that are remembered.
const MOST_SIZES: usize = 1 << 15;

/// How long a packet waits for a session at most: by then its sender has given it up, or has sent it again.
const EARLY: Duration = Duration::from_secs(1);
/// Packets that wait for a session at most.
const MOST_EARLY: usize = 512;

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// How many packets.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

impl Tally {
    /// Counts a packet of so many bytes.
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What a peer's packets came to, besides the link's own [`Counters`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// From the device, to the peer.
    pub sent: Tally,
    /// From the peer, to the device.
    pub received: Tally,
    /// Datagrams to the peer with frames of the link.
    pub frames: Tally,
    /// Those of them that are repair: packets again, copies, and sums.
    pub repair: Tally,
    /// Packets that were too big for the path.
    pub oversize: u64,
    /// Packets from the peer with a source that is not its own, or no packets at all.
    pub foreign: u64,
    /// Packets from the peer that were marked on the way, where nobody takes marks.
    pub marked_lost: u64,
    /// Times that the peer began anew.
    pub starts: u64,
    /// Frames that this end sent as they are: too large, or the peer was silent.
    pub plain: u64,
    /// Times that the peer fell silent.
    pub silences: u64,
}

/// A peer.
pub struct Link {
    /// As the configuration has it.
    pub plan: PeerPlan,
    /// Repair.
    pub hop: RecordedHop,
    /// What was counted.
    pub counters: LinkCounters,
    /// Counters of the link before it began anew.
    before: Counters,
    /// The number on the wire of the hop's packet 0.
    offset: u64,
    /// Bytes of datagrams by the hop's numbers, from `first_size` on.
    sizes: VecDeque<(u16, Arm)>,
    first_size: u64,
    /// Packets from the device that wait for a session, with the time when each came.
    early: VecDeque<(Instant, Packet)>,
    /// Whether there is a session.
    pub up: bool,
    /// Since when.
    pub since: Option<Instant>,
    /// Where it is reached.
    pub path: Option<SocketAddr>,
    /// This end's address that it sends to.
    pub local: Option<IpAddr>,
    /// When it was first sent something that it has to answer, since it was heard last before that.
    pub asked: Option<Instant>,
    /// Bytes of UDP payload that the path is known to take, and what is hoped for until then.
    size: u16,
    optimistic_until: Option<Instant>,
    /// Flows that go unrepaired, where some are to.
    comparison: Option<Comparison>,
    /// Whether the peer takes them.
    takes_bare: bool,
    /// Whether it reads of marks.
    reads_marks: bool,
    /// What was last logged of what is done against losses.
    state: State,
    carrier: (Carrier, u16),
}

impl Link {
    /// A peer that was not heard of, which is reached by that, with so many bytes of MTU.
    pub fn new(now: Instant, plan: PeerPlan, carrier: (Carrier, u16), tape: Option<Tape>) -> Self {
        Self {
            hop: RecordedHop::new(now, config(&plan, CODES, 28), LAG, &plan.name, tape),
            counters: LinkCounters::default(),
            before: Counters::default(),
            offset: 0,
            sizes: VecDeque::new(),
            first_size: 0,
            early: VecDeque::new(),
            up: false,
            since: None,
            path: None,
            local: None,
            asked: None,
            size: lasthop_tunnel::pmtu::BASE,
            optimistic_until: None,
            comparison: (plan.ab > 0).then(|| Comparison::new(plan.ab, plan.ab_keys)),
            takes_bare: false,
            reads_marks: false,
            state: State::Silent,
            carrier,
            plan,
        }
    }

    /// What the link counted since the start.
    pub fn hop_counters(&self) -> Counters {
        self.before.plus(&self.hop.counters())
    }

    /// There is a session.
    pub fn on_up(&mut self, now: Instant, capabilities: Capabilities, start: Start) {
        self.up = true;
        self.takes_bare = capabilities.0 & BARE.0 != 0;
        self.reads_marks = capabilities.0 & MARKS.0 != 0;
        self.since.get_or_insert(now);
        if start == Start::Rekeyed {
            self.offer_early(now);
            return;
        }
        self.since = Some(now);
        self.counters.starts += 1;
        self.offset += self.hop.near_own().0.0;
        // What waits was not sent: it is not dropped, nor counted twice.
        let gone = self.hop.counters();
        self.before = self.before.plus(&Counters { dropped: 0, ..gone });
        self.hop.begin_anew(now, config(&self.plan, capabilities, self.cost()));
        self.sizes.clear();
        self.first_size = 0;
        self.offer_early(now);
    }

    /// The session ended. What the peer has not acknowledged would be out of date when the next one begins.
    pub fn on_down(&mut self, now: Instant) {
        (self.up, self.since) = (false, None);
        drop(self.hop.give_back(now));
    }

    /// Keeps a packet until there is a session, for at most [`EARLY`].
    fn keep_early(&mut self, now: Instant, packet: Packet) {
        while self.early.len() >= MOST_EARLY || self.early.front().is_some_and(|(came, _)| now.since(*came) > EARLY) {
            self.early.pop_front();
        }
        self.early.push_back((now, packet));
    }

    /// Offers what came while there was no session, as far as it is not out of date.
    fn offer_early(&mut self, now: Instant) {
        for (came, packet) in std::mem::take(&mut self.early) {
            if now.since(came) <= EARLY {
                self.hop.offer(now, packet);
            }
        }
    }

    /// Packets that wait: for a session, or for being sent.
    pub fn waiting(&self) -> usize {
        self.early.len() + self.hop.sizes().waiting
    }

    /// Takes a packet from the device, with the arm that its flow is in; of a frame without IP nothing is known.
    pub fn offer(&mut self, now: Instant, packet: Packet, ip: Option<(&[u8], &View)>) {
        let packet = match self.comparing().zip(ip) {
            Some((comparison, (bytes, view))) => {
                comparison.watch(now, Port::WIRED, bytes);
                match comparison.arm(bytes, view) {
                    Arm::Treated => packet,
                    Arm::Untreated => packet.bare(),
                }
            }
            None => packet,
        };
        if self.up {
            self.hop.offer(now, packet);
        } else {
            self.keep_early(now, packet);
        }
    }

    /// A packet of the peer's goes to the device, so many bytes with all that is in front of IP.
    pub fn on_received(&mut self, now: Instant, bytes: usize, ip: Option<&[u8]>) {
        self.counters.received.count(bytes);
        if let Some((comparison, packet)) = self.comparing().zip(ip) {
            comparison.watch(now, Port::WIRELESS, packet);
        }
    }

    fn comparing(&mut self) -> Option<&mut Comparison> {
        self.comparison.as_mut().filter(|_| self.takes_bare)
    }

    /// What both arms came to, if some flows go unrepaired.
    pub fn findings(&mut self) -> Option<Findings> {
        let given_up = self.hop_counters().given_up;
        self.comparison.as_mut().map(|comparison| comparison.findings(given_up))
    }

    /// The peer is reached elsewhere.
    pub fn on_path(&mut self, now: Instant, address: SocketAddr, size: u16) {
        (self.path, self.size) = (Some(address), size);
        self.optimistic_until = Some(now + OPTIMISM);
        self.hop.on_new_path(now, self.cost() + crate::plan::ADDED);
    }

    /// The path takes another size.
    pub fn on_size(&mut self, size: u16) {
        // More than the base shows that the search is past the first, largest size; less, that the path became narrower.
        if size > lasthop_tunnel::pmtu::BASE || size < self.size {
            self.optimistic_until = None;
        }
        self.size = size;
    }

    /// Bytes in front of a datagram that an MTU counts.
    fn headers(&self) -> u16 {
        let (carrier, _) = self.carrier;
        self.path.map_or(28, |path| carrier.headers(path))
    }

    /// Bytes in front of a datagram that take time on the hop.
    fn cost(&self) -> u16 {
        match self.carrier {
            (Carrier::Udp, _) => self.headers(),
            (Carrier::Ethernet, _) => self.headers() + ETHERNET as u16,
        }
    }

    /// Bytes of a packet of the inner network, or of a frame with its length, that fit.
    pub fn mtu(&self, now: Instant) -> u16 {
        let (_, most) = self.carrier;
        let hoped = most.saturating_sub(self.headers());
        let size = if self.optimistic_until.is_some_and(|until| now < until) { hoped } else { self.size };
        size.saturating_sub(crate::plan::ADDED)
    }

    /// What numbers in its frames are restored next to.
    pub fn near(&self) -> Near {
        let (packet, symbol) = self.hop.near_own();
        let own_packet = PacketNumber(self.offset + packet.0);
        Near { symbol: self.hop.near().1, own_packet, own_symbol: symbol, offset: self.offset }
    }

    /// The number that the next datagram has on the wire.
    pub fn next_number(&self) -> u64 {
        self.offset + self.hop.near_own().0.0
    }

    /// A frame goes out as a datagram of so many bytes of UDP payload; the number that it has on the wire.
    pub fn on_frame(&mut self, outgoing: &Outgoing<Packet>, payload: usize) -> u64 {
        let PacketNumber(number) = outgoing.packet;
        if self.sizes.is_empty() {
            self.first_size = number;
        }
        let arm = if matches!(outgoing.frame, Frame::Bare(_)) { Arm::Untreated } else { Arm::Treated };
        if let Some(comparison) = self.comparison.as_mut().filter(|_| outgoing.why == Why::First) {
            comparison.packets[arm as usize].packets += 1;
        }
        self.sizes.push_back((payload as u16, arm));
        if self.sizes.len() > MOST_SIZES {
            self.sizes.pop_front();
            self.first_size += 1;
        }
        self.counters.frames.count(payload);
        if matches!(outgoing.why, Why::Resend | Why::Probe | Why::Redundancy) {
            self.counters.repair.count(payload);
        }
        self.offset + number
    }

    /// A frame as this peer can read it.
    pub fn readable(&self, frame: Frame<Packet>) -> Frame<Packet> {
        match frame {
            Frame::Feedback(feedback) if !self.reads_marks => Frame::Feedback(Feedback { marked: 0, ..feedback }),
            frame => frame,
        }
    }

    /// What is done against losses, if the breaker acts or lets go since this was asked last.
    pub fn news(&mut self, now: Instant) -> Option<State> {
        let (before, state) = (self.state, self.hop.state(now));
        self.state = state;
        ((before == State::Broken) != (state == State::Broken)).then_some(state)
    }

    /// What became of a datagram: its bytes, and whether it is lost.
    pub fn poll_fate(&mut self) -> Option<(u16, Fate)> {
        loop {
            let fate = self.hop.poll_fate()?;
            let (Fate::Arrived(PacketNumber(number)) | Fate::Lost(PacketNumber(number))) = fate;
            let index = number.checked_sub(self.first_size).map(|index| index as usize);
            if let Some(&(size, arm)) = index.and_then(|index| self.sizes.get(index)) {
                if let (Fate::Lost(_), Arm::Untreated, Some(comparison)) = (fate, arm, &mut self.comparison) {
                    comparison.packets[arm as usize].lost += 1;
                }
                return Some((size, fate));
            }
        }
    }
}

/// Where a peer is, as people write it: a socket's address, or that of an interface.
pub fn shown(address: SocketAddr) -> String {
    Mac::of(address).map_or_else(|| address.to_string(), |mac| mac.to_string())
}

/// How a link to a peer that can do `capabilities` works, behind so many bytes of outer headers.
fn config(plan: &PeerPlan, capabilities: Capabilities, headers: u16) -> HopConfig {
    let codes = plan.codes && capabilities.0 & CODES.0 != 0;
    HopConfig {
        rate: plan.rate.map_or(RateRule::Auto, RateRule::Fixed),
        repair: if codes { Repair::Adaptive } else { Repair::Repeat },
        medium: if plan.shared { Medium::Shared } else { Medium::Own },
        header: headers + (OVERHEAD + DATA) as u16,
        queue: plan.queue,
        target: TARGET,
        interval: INTERVAL,
    }
}

//! Treatment of packets by one rule.

use lasthop_daemon::ab::Reservoir;
use lasthop_daemon::flows::FlowTable;
use lasthop_daemon::observe::Loss;
use lasthop_proto::event::Event;
use lasthop_proto::node::{Disposition, Node, Output, Port, Trigger, Why, drain};
use lasthop_proto::packet::{Body, Cause, Ecn, Flags, FlowId, Integrity, LinkHeaders, Packet, Priority, Segment, Side};
use lasthop_proto::pep::snoop::{HopControl, Owner, Snoop, SnoopConfig};
use lasthop_proto::pep::tracking::{Take, Tracking};
use lasthop_proto::time::Instant;
use lasthop_wire::{View, revise};

use super::counters::RuleCounters;
use super::flow::{Flow, Guarded};
use super::held::{Held, Store, hold, hold_piece, inject, pass_part};
use super::passing::Passing;
use super::quic::treatment::QuicTreatment;
use super::rules::{Mode, Rule};
use super::verdict::{Injection, Verdict};

/// Maximum size of an IP packet on the hop if its MTU is unknown, in bytes.
const LARGEST: usize = u16::MAX as usize;

/// Packets that the mechanism emits for the packet passed to it.
#[derive(Default, Debug)]
struct Answered {
    /// The packet itself, if it is forwarded now.
    given: Option<Packet<Held>>,
    /// An acknowledgment in answer to the packet.
    answer: Option<Packet<Held>>,
}

/// State of a rule.
#[derive(Debug)]
pub(super) struct Treatment {
    mode: Mode,
    /// The mechanism; under [`Mode::Observe`] its output is discarded.
    snoop: Option<Snoop<Held>>,
    /// The mechanism under [`Mode::Quic`].
    pub quic: Option<QuicTreatment>,
    cache_bytes: u64,
    flow_control: Option<HopControl>,
    pub counters: RuleCounters,
    /// Goodputs by [`lasthop_daemon::ab::Arm`].
    pub arms: [Reservoir; 2],
}

impl Treatment {
    pub fn new(rule: &Rule, flows: usize) -> Self {
        let has_snoop = matches!(rule.mode, Mode::Snoop | Mode::Observe);
        let snoop = has_snoop.then(|| Snoop::new(snoop_config(rule, flows)));
        let quic = (rule.mode == Mode::Quic).then(|| QuicTreatment::new(flows, rule.snoop.cache_bytes));
        let counters = RuleCounters { name: rule.name.clone(), ..RuleCounters::default() };
        Self {
            mode: rule.mode,
            snoop,
            quic,
            cache_bytes: rule.snoop.cache_bytes,
            flow_control: rule.snoop.hop,
            counters,
            arms: Default::default(),
        }
    }

    /// Returns whether the treatment continues under this rule.
    pub fn is_for(&self, rule: &Rule) -> bool {
        self.counters.name == rule.name && self.mode == rule.mode
    }

    /// Applies the rule's new parameters. [`Treatment::release`] then returns the packets that they no longer hold
    /// back.
    pub fn reconfigure(&mut self, now: Instant, rule: &Rule, flows: usize) {
        (self.cache_bytes, self.flow_control) = (rule.snoop.cache_bytes, rule.snoop.hop);
        if let Some(snoop) = &mut self.snoop {
            snoop.set_config(now, snoop_config(rule, flows));
        }
        if let Some(quic) = &mut self.quic {
            quic.set_cache(rule.snoop.cache_bytes);
        }
    }

    pub fn on_flow(&mut self) {
        self.counters.flows_seen += 1;
    }

    pub fn on_packet(&mut self, port: Port, bytes: usize) {
        let port = usize::from(port.0 & 1);
        self.counters.packets[port] += 1;
        self.counters.bytes[port] += bytes as u64;
    }

    /// Counts a packet that passes unchanged because an option protects it.
    pub fn on_guarded(&mut self, guarded: Guarded) {
        self.counters.packets_guarded += u64::from(guarded != Guarded::Nothing);
    }

    /// Drops the cache of a connection, which may continue. [`Treatment::release`] then returns its held packets.
    pub fn remove(&mut self, now: Instant, id: FlowId) {
        if let Some(snoop) = &mut self.snoop {
            snoop.remove(now, id);
        }
    }

    /// Drops the cache of all connections, which continue. Datagrams that are held are sent; [`Treatment::release`] then
    /// returns held segments.
    pub fn clear(&mut self, now: Instant, out: &mut Vec<Injection>) {
        if let Some(snoop) = &mut self.snoop {
            snoop.clear();
        }
        if let Some(quic) = &mut self.quic {
            quic.clear(now, out);
        }
    }

    pub fn poll_deadline(&self) -> Option<Instant> {
        let snoop = self.snoop.as_ref().and_then(Snoop::poll_deadline);
        let quic = self.quic.as_ref().and_then(QuicTreatment::poll_deadline);
        [snoop, quic].into_iter().flatten().min()
    }

    pub fn report(&self) -> RuleCounters {
        let quic = self.quic.as_ref();
        let cached_bytes =
            self.snoop.as_ref().map_or(0, Snoop::cached_bytes) + quic.map_or(0, QuicTreatment::cached_bytes);
        let cache_evicted = self.counters.cache_evicted + quic.map_or(0, |quic| quic.cache_evicted);
        let quic = quic.map(QuicTreatment::report);
        RuleCounters { cached_bytes, cache_evicted, quic, ..self.counters.clone() }
    }

    /// Adds an opened connection to the mechanism. Unproven connections must not use its memory.
    pub fn introduce(&mut self, now: Instant, id: FlowId, owner: Owner, data_from: Side, tracking: Tracking) {
        if let Some(snoop) = &mut self.snoop {
            snoop.adopt(now, id, owner, data_from, tracking);
        }
    }

    /// Acts on the mechanism's deadline.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        flows: &mut FlowTable<Flow>,
        mtu: [Option<usize>; 2],
        out: &mut Vec<Injection>,
    ) {
        if let Some(snoop) = &mut self.snoop {
            snoop.handle_timeout(now);
        }
        if let Some(quic) = &mut self.quic {
            quic.handle_timeout(now, out);
        }
        self.release(now, flows, mtu, out);
    }

    /// Sends the mechanism's pending packets.
    pub fn release(
        &mut self,
        now: Instant,
        flows: &mut FlowTable<Flow>,
        mtu: [Option<usize>; 2],
        out: &mut Vec<Injection>,
    ) {
        self.drain(now, flows, mtu, out);
    }

    /// Returns the verdict on a packet.
    pub fn treat(
        &mut self,
        passing: &Passing<'_>,
        store: &Store,
        flows: &mut FlowTable<Flow>,
        mtu: [Option<usize>; 2],
        out: &mut Vec<Injection>,
    ) -> Verdict {
        let Passing { now, port, packet, view, checksum, .. } = *passing;
        let len = view.payload_len as u32;
        if passing.guarded != Guarded::Nothing {
            let header_len = view.header_len as u16;
            let given = parsed(passing.id, passing.from, header_len, len, view.segment, Held::NONE);
            if let Some(snoop) = &mut self.snoop {
                snoop.observe(now, port, given);
            }
            self.release(now, flows, mtu, out);
            return Verdict::Accept;
        }
        // The receiver judges the sequence number of a reset (RFC 5961 §3.2), and splitting would give it several.
        // Pieces of a segment that the receiver refuses as a whole might be acceptable, although no end sent them.
        let whole = Flags::SYN.with(Flags::RST);
        let whole = passing.take == Take::Refused || view.segment.flags.meets(whole);
        let cut = port == Port::WIRED && len > passing.size && !whole;
        let piece = if cut { passing.size } else { len };
        // Beyond the cache limit each piece has its own buffer, so that none keeps a whole super-segment in memory.
        let share = !cut || store.bytes() < self.cache_bytes;
        let held =
            if share && self.is_asked_for(port, view) { hold(packet, view, checksum, store) } else { Held::NONE };
        let (mut at, mut kept, mut revised, mut answer) = (0, 0u32, None, None);
        // A packet that is not split passes as it is, or not at all.
        let mut passed = Vec::with_capacity(if cut { len.div_ceil(piece) as usize } else { 0 });
        loop {
            let part = piece.min(len - at);
            let segment = segment_of(passing, at, part);
            let bytes = if share || self.mode != Mode::Snoop {
                held.clone()
            } else {
                hold_piece(packet, view, &segment, part, store)
            };
            let given = parsed(passing.id, passing.from, view.header_len as u16, part, segment, bytes);
            let Some(snoop) = &mut self.snoop else { return Verdict::Accept };
            let disposition = snoop.handle_packet(now, port, given);
            let answered = self.drain(now, flows, mtu, out);
            answer = answered.answer.or(answer);
            match disposition {
                Disposition::Absorbed | Disposition::Held | Disposition::Dropped => kept += 1,
                Disposition::Forwarded if cut => passed.push((at, part)),
                Disposition::Forwarded => {}
                Disposition::Changed => revised = answered.given.and_then(|packet| packet.tcp().copied()),
            }
            at += part;
            if at >= len {
                break;
            }
        }
        let hidden = |segment: &Segment| segment.options.sack.is_empty() && !view.segment.options.sack.is_empty();
        self.counters.sack_hidden += u64::from(revised.as_ref().is_some_and(hidden));
        if self.mode != Mode::Snoop {
            return Verdict::Accept;
        }
        if let Some(segment) = revised {
            return Verdict::Replace(revise(packet, view, &segment, checksum));
        }
        // Old data in the packet is harmless, but data that flow control withholds must not pass.
        if kept == 0 || !passed.is_empty() && self.flow_control.is_none() {
            return Verdict::Accept;
        }
        for &(at, part) in &passed {
            let mtu = mtu[usize::from(Port::WIRELESS.0)].unwrap_or(LARGEST);
            pass_part(passing, &segment_of(passing, at, part), part, mtu, out);
        }
        // One acknowledgment answers all pieces: several would count as duplicates.
        if let Some(answer) = answer.filter(|_| passed.is_empty()) {
            self.counters.local_acks += 1;
            inject(&answer, Port::WIRED, mtu[usize::from(Port::WIRED.0)].unwrap_or(LARGEST), out);
        }
        Verdict::Drop
    }

    /// Returns whether the mechanism may need the packet again: data towards the hop, or an acknowledgment that answers
    /// old data.
    fn is_asked_for(&self, port: Port, view: &View) -> bool {
        self.mode == Mode::Snoop && (port == Port::WIRED) == (view.payload_len > 0)
    }

    /// Drains the mechanism. Sends its packets, except those that belong to the packet passed to it last, which it
    /// returns.
    fn drain(
        &mut self,
        now: Instant,
        flows: &mut FlowTable<Flow>,
        mtu: [Option<usize>; 2],
        out: &mut Vec<Injection>,
    ) -> Answered {
        let Self { snoop: Some(snoop), counters, mode, .. } = self else { return Answered::default() };
        let mut answered = Answered::default();
        let mut send = |to: Port, packet: &Packet<Held>| {
            if *mode == Mode::Snoop {
                inject(packet, to, mtu[usize::from(to.0 & 1)].unwrap_or(LARGEST), out);
            }
        };
        drain(snoop, now, |output| match output {
            Output::Transmit(_, Why::Given, packet) => answered.given = Some(packet),
            Output::Transmit(_, Why::LocalAck, packet) => answered.answer = Some(packet),
            Output::Transmit(to, Why::Repair(trigger), packet) => {
                counters.repairs.count(trigger);
                if let (Some(flow), Some(segment)) = (flows.get_mut(packet.flow), packet.tcp()) {
                    flow.watch.on_repair();
                    // The timer does not prove a loss.
                    let end = segment.seq + packet.seq_len();
                    if trigger != Trigger::Timer && flow.watch.on_loss(segment.seq, end) == Loss::New {
                        counters.wireless_losses += 1;
                    }
                }
                send(to, &packet);
            }
            Output::Transmit(to, Why::Released | Why::Control | Why::Own, packet) => send(to, &packet),
            Output::Event(_, Event::DupAckSuppressed { .. }) => counters.dup_acks_suppressed += 1,
            Output::Event(_, Event::Absorbed { .. }) => counters.absorbed += 1,
            Output::Event(_, Event::Evicted) => counters.cache_evicted += 1,
            Output::Event(..) => {}
        });
        answered
    }
}

/// Returns the header for `len` bytes of a packet's payload starting at offset `at`.
fn segment_of(passing: &Passing<'_>, at: u32, len: u32) -> Segment {
    let mut segment = passing.view.segment;
    segment.seq += at;
    if at > 0 && !passing.repeats_cwr {
        segment.flags = segment.flags.without(Flags::CWR);
    }
    if at + len < passing.view.payload_len as u32 {
        segment.flags = segment.flags.without(Flags::FIN.with(Flags::PSH));
    }
    segment
}

/// Returns the rule's parameters, with capacity for every connection of the engine. For an observing rule, which cannot
/// withhold packets, flow control is off.
fn snoop_config(rule: &Rule, flows: usize) -> SnoopConfig {
    let hop = rule.snoop.hop.filter(|_| rule.mode == Mode::Snoop);
    SnoopConfig { connections: flows, hop, ..rule.snoop.clone() }
}

/// Converts a packet to the mechanism's form. The ECN field stays in the bytes: no mechanism reads it.
fn parsed(flow: FlowId, from: Side, header_len: u16, len: u32, segment: Segment, payload: Held) -> Packet<Held> {
    Packet {
        flow,
        from,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Ecn::NotEct,
        cause: Cause::New,
        super_segment: 0,
        header_len,
        len,
        body: Body::Tcp(segment),
        link: LinkHeaders::NONE,
        payload,
    }
}

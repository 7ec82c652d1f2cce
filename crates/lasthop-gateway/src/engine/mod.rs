//! The gateway's decisions on packets. The engine does no I/O and reads no clock: drivers pass it packets and the time,
//! and execute its decisions. Replaying a recorded sequence gives the same decisions.
//!
//! | module | contents |
//! |---|---|
//! | [`rules`] | configuration: selection and treatment of connections |
//! | [`counters`] | statistics |
//! | [`recording`] | recording and replay of an engine's inputs and decisions |

pub mod counters;
mod flow;
mod held;
mod offloaded;
mod passing;
mod quic;
pub mod recording;
pub mod rules;
mod treatment;
mod verdict;

use lasthop_daemon::ab::{Arm, ArmReport, RuleArms};
use lasthop_daemon::flows::{Client, FlowTable, Key, side};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, FlowId};
use lasthop_proto::pep::tracking::Take;
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{View, parse, parse_datagram};

use self::counters::Counters;
use self::flow::{Flow, Guarded, Stage};
use self::held::Store;
pub use self::offloaded::{Condition, Offloaded};
use self::passing::Passing;
use self::quic::flow::QuicFlow;
use self::rules::{EngineConfig, Mode, Rule};
use self::treatment::Treatment;
pub use self::verdict::{Injection, Verdict};

/// Interval between sweeps for idle connections.
const SWEEP: Duration = Duration::from_secs(1);

/// Maximum number of connections removed in one sweep, which bounds the duration of a call.
const SWEPT: usize = 64;

/// Time to the next sweep if a sweep reached [`SWEPT`].
const SWEEP_ON: Duration = Duration::from_millis(1);

/// Minimum MTU that is accepted: the datagram size that every IPv4 host must be able to receive (RFC 791).
pub(super) const LEAST_MTU: usize = 576;

/// Treatment of all connections through one gateway.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    treatments: Vec<Treatment>,
    flows: FlowTable<Flow>,
    /// Connections of QUIC.
    quic_flows: FlowTable<QuicFlow>,
    ab_keys: [u64; 2],
    sample: Stream,
    store: Store,
    /// MTU by port, where known.
    mtu: [Option<usize>; 2],
    sweep: Instant,
    unread: u64,
    damaged: u64,
    out_of_window: u64,
    unmatched: u64,
    /// True if the connection of the last packet passes untreated.
    left_alone: bool,
}

impl Engine {
    /// Creates an engine without connections. The seed selects the untreated connections of a comparison and keys the
    /// hash tables. In a gateway it must be unpredictable.
    pub fn new(config: EngineConfig, seed: u64) -> Self {
        let mut keys = Root(seed).stream("gateway/keys");
        let mut pair = || [keys.below(u64::MAX), keys.below(u64::MAX)];
        Self {
            treatments: config.rules.iter().map(|rule| Treatment::new(rule, config.flows)).collect(),
            flows: FlowTable::new(config.flows, pair()),
            ab_keys: pair(),
            quic_flows: FlowTable::new(quic_limit(&config), pair()),
            sample: Root(seed).stream("gateway/sample"),
            store: Store::default(),
            mtu: [None; 2],
            sweep: Instant::ZERO,
            unread: 0,
            damaged: 0,
            out_of_window: 0,
            unmatched: 0,
            left_alone: false,
            config,
        }
    }

    /// Applies another configuration. A connection keeps its treatment and its arm if a rule of the same name and mode
    /// remains; otherwise it moves to the first rule that now matches it, or is removed. Appends packets that are no
    /// longer held back to `out`.
    pub fn reconfigure(&mut self, now: Instant, config: EngineConfig, out: &mut Vec<Injection>) {
        let mut old: Vec<Option<Treatment>> = std::mem::take(&mut self.treatments).into_iter().map(Some).collect();
        let mut moved = vec![None; old.len()];
        for (at, rule) in config.rules.iter().enumerate() {
            let same = |had: &Option<Treatment>| had.as_ref().is_some_and(|had| had.is_for(rule));
            let kept = old.iter().position(same).and_then(|from| {
                moved[from] = Some(at);
                old[from].take()
            });
            self.treatments.push(match kept {
                Some(mut kept) => {
                    kept.reconfigure(now, rule, config.flows);
                    kept.release(now, &mut self.flows, self.mtu, out);
                    kept
                }
                None => Treatment::new(rule, config.flows),
            });
        }
        for treatment in old.iter_mut().flatten() {
            treatment.clear(now, out);
            treatment.release(now, &mut self.flows, self.mtu, out);
        }
        let mut homeless = Vec::new();
        for (id, flow) in self.flows.iter_mut() {
            if let Some(rule) = moved.get(flow.rule).copied().flatten() {
                flow.rule = rule;
            } else if let Some(rule) = config.rule_for(flow.wired(), flow.wireless()) {
                (flow.rule, flow.arm) = (rule, arm(&config.rules[rule], &flow.key, self.ab_keys));
                self.treatments[rule].on_flow();
            } else {
                homeless.push(id);
            }
        }
        for id in homeless {
            self.flows.remove(id);
        }
        self.flows.set_limit(config.flows);
        self.config = config;
        self.reconfigure_datagrams(now, &moved, out);
        while let Some(id) = self.flows.beyond_limit() {
            self.evict(now, id, out);
        }
    }

    /// Sets the size of the largest IP packet that can leave by `port`, in bytes. Local retransmissions are split to
    /// fit it; without it they are as large as the connection's segments.
    pub fn set_mtu(&mut self, port: Port, mtu: u16) {
        self.mtu[usize::from(port.0 & 1)] = Some(usize::from(mtu).max(LEAST_MTU));
    }

    /// Processes a packet that arrived at `port` ([`Port::WIRED`]: towards the lossy hop). It starts with its IP
    /// header, may be a super-segment built by receive offload, and its checksum may not be computed yet (`offloaded`).
    /// Appends the packets that the gateway is to send in addition to `out`.
    ///
    /// A packet with a wrong checksum passes and changes no state. If the driver does not know the segment size of a
    /// super-segment, the engine derives it from the options of both SYNs or, if it did not see these, from an MTU of
    /// 1500.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        port: Port,
        packet: &[u8],
        offloaded: Offloaded,
        out: &mut Vec<Injection>,
    ) -> Verdict {
        self.left_alone = false;
        let Some(view) = parse(packet) else {
            if let Some(datagram) = parse_datagram(packet) {
                return self.handle_datagram(now, port, (packet, &datagram), offloaded, out);
            }
            self.unread += 1;
            return Verdict::Accept;
        };
        if offloaded.condition(packet, &view) == Condition::Damaged {
            self.damaged += 1;
            return Verdict::Accept;
        }
        let Some(id) = self.find_or_admit(now, port, &view, out) else {
            self.unmatched += 1;
            return Verdict::Accept;
        };
        let Some(flow) = self.flows.get_mut(id) else { return Verdict::Accept };
        let from = side(&flow.first, &view.route);
        let treatment = &mut self.treatments[flow.rule];
        treatment.on_packet(port, view.total_len());
        self.left_alone = flow.arm == Arm::Untreated || self.config.rules[flow.rule].mode != Mode::Snoop;
        if flow.port_of(from) != port {
            // The packet was routed back, or the addresses are spoofed: it says nothing about the connection.
            return Verdict::Accept;
        }
        let (before, known) = (flow.stage, (flow.stage == Stage::Opening).then(|| flow.tracking.clone()));
        let take = flow.take(now, port, &view);
        if take == Take::Refused && before != Stage::Opening {
            self.out_of_window += 1;
        }
        if take != Take::Refused || before == Stage::Opening {
            flow.seen = now;
        }
        if take == Take::Opened && before != Stage::Opening {
            // A new connection with the addresses and ports of an old one.
            treatment.on_flow();
            if let Some(goodput) = std::mem::take(&mut flow.watch).goodput(self.config.measured_bytes) {
                treatment.arms[flow.arm as usize].push(goodput, &mut self.sample);
            }
        }
        let size = flow.segment_size(&view, offloaded.size, self.mtu[usize::from(port.0 & 1) ^ 1]);
        if take != Take::Refused || view.segment.flags.has(Flags::SYN) && before == Stage::Opening {
            flow.watch.on_packet(now, port, &view, size, &mut treatment.counters);
        }
        let guarded = flow.guarded(port, packet, &view);
        let repeats_cwr = flow.counts_marks();
        let opening = flow.stage == Stage::Opening && before == Stage::Opening;
        treatment.on_guarded(guarded);
        let verdict = if guarded == Guarded::Connection || flow.arm == Arm::Untreated || opening {
            Verdict::Accept
        } else {
            if let Some(known) = known {
                let side = flow.side_at(Port::WIRED);
                treatment.introduce(now, id, self.flows.owner(id), side, known);
            }
            let checksum = offloaded.checksum;
            let passing =
                Passing { now, port, packet, view: &view, checksum, id, from, take, guarded, size, repeats_cwr };
            self.treat(passing, out)
        };
        self.settle(now, id, before, out);
        verdict
    }

    fn treat(&mut self, passing: Passing<'_>, out: &mut Vec<Injection>) -> Verdict {
        let Some(rule) = self.flows.get_mut(passing.id).map(|flow| flow.rule) else { return Verdict::Accept };
        let mtu = self.mtu;
        self.treatments[rule].treat(&passing, &self.store, &mut self.flows, mtu, out)
    }

    /// Updates the connection's position in the table after a packet, and evicts connections beyond the limits.
    fn settle(&mut self, now: Instant, id: FlowId, before: Stage, out: &mut Vec<Injection>) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let stage = flow.stage;
        self.flows.touch(id, stage.standing());
        if stage != before {
            while let Some(old) = self.flows.crowded_out(id) {
                self.evict(now, old, out);
            }
        }
    }

    /// Returns the connection of a packet, and admits it if it is new. `None` if no rule matches.
    fn find_or_admit(&mut self, now: Instant, port: Port, view: &View, out: &mut Vec<Injection>) -> Option<FlowId> {
        let key = Key::of(&view.route);
        if let Some(id) = self.flows.find(&key) {
            let flow = self.flows.get_mut(id)?;
            if flow.stage != Stage::Opening || flow.port_of(side(&flow.first, &view.route)) == port {
                return Some(id);
            }
            // The packet arrived from the other side before the handshake completed: the first one was spoofed.
            self.forget(now, id, out);
        }
        let ends = [view.route.source, view.route.destination];
        let (wired, wireless) = if port == Port::WIRED { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let rule = self.config.rule_for(wired, wireless)?;
        let client = Client::of(wireless.ip());
        if let Some(old) = self.flows.surplus(client) {
            self.evict(now, old, out);
        }
        let arm = arm(&self.config.rules[rule], &key, self.ab_keys);
        let id = self.flows.insert(key, client, Flow::new(key, view.route, port, rule, arm))?;
        self.treatments[rule].on_flow();
        Some(id)
    }

    fn evict(&mut self, now: Instant, id: FlowId, out: &mut Vec<Injection>) {
        if let Some(rule) = self.forget(now, id, out) {
            self.treatments[rule].counters.flows_evicted += 1;
        }
    }

    /// Removes a connection's state and keeps its measured goodput. Returns the index of its rule.
    fn forget(&mut self, now: Instant, id: FlowId, out: &mut Vec<Injection>) -> Option<usize> {
        let flow = self.flows.remove(id)?;
        let treatment = &mut self.treatments[flow.rule];
        treatment.remove(now, id);
        treatment.release(now, &mut self.flows, self.mtu, out);
        if let Some(goodput) = flow.watch.goodput(self.config.measured_bytes) {
            treatment.arms[flow.arm as usize].push(goodput, &mut self.sample);
        }
        Some(flow.rule)
    }

    /// Returns whether the packet handled last belongs to a connection that passes unchanged: one that is observed or
    /// bypassed, or untreated for comparison.
    pub const fn leaves_alone(&self) -> bool {
        self.left_alone
    }

    /// Acts on all deadlines that have passed. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Injection>) {
        for treatment in &mut self.treatments {
            treatment.handle_timeout(now, &mut self.flows, self.mtu, out);
        }
        if now >= self.sweep {
            self.sweep(now, out);
        }
    }

    /// Removes connections that have been idle for too long.
    fn sweep(&mut self, now: Instant, out: &mut Vec<Injection>) {
        self.sweep = now + SWEEP;
        let mut left = SWEPT;
        for standing in [Stage::Opening.standing(), Stage::Established.standing()] {
            while let Some(id) = self.flows.oldest(standing)
                && self.flows.get_mut(id).is_some_and(|flow| now.since(flow.seen) >= self.config.idle)
            {
                if left == 0 {
                    self.sweep = now + SWEEP_ON;
                    return;
                }
                left -= 1;
                self.forget(now, id, out);
            }
        }
        self.sweep_datagrams(now, left, out);
    }

    /// Returns the time of the next call of [`Engine::handle_timeout`]. After such a call, and before another packet,
    /// the returned time lies after the time of the call.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let repairs = self.treatments.iter().filter_map(Treatment::poll_deadline).min();
        let sweep = (!self.flows.is_empty() || !self.quic_flows.is_empty()).then_some(self.sweep);
        [repairs, sweep].into_iter().flatten().min()
    }

    /// Returns the statistics so far.
    pub fn counters(&mut self) -> Counters {
        let mut rules: Vec<_> = self.treatments.iter().map(Treatment::report).collect();
        for (_, flow) in self.flows.iter_mut() {
            rules[flow.rule].flows_active += 1;
            rules[flow.rule].flows_guarded += u64::from(flow.is_guarded());
        }
        self.report_datagrams(|rule, _, _| rules[rule].flows_active += 1);
        let datagrams = rules.iter().filter(|rule| rule.quic.is_some()).map(|rule| rule.cached_bytes).sum::<u64>();
        let (unread, damaged, unmatched) = (self.unread, self.damaged, self.unmatched);
        let out_of_window = self.out_of_window;
        Counters {
            rules,
            unread,
            damaged,
            out_of_window,
            unmatched,
            flows: (self.flows.len() + self.quic_flows.len()) as u64,
            held_bytes: self.store.bytes() + datagrams,
        }
    }

    /// Returns the goodputs by rule and arm, of connections that have ended and of active ones.
    pub fn arms(&mut self) -> Vec<RuleArms> {
        let of = |treatment: &Treatment| RuleArms {
            name: treatment.counters.name.clone(),
            treated: ArmReport::of(&treatment.arms[Arm::Treated as usize]),
            untreated: ArmReport::of(&treatment.arms[Arm::Untreated as usize]),
        };
        let mut arms: Vec<_> = self.treatments.iter().map(of).collect();
        for (_, flow) in self.flows.iter_mut() {
            if let Some(goodput) = flow.watch.goodput(self.config.measured_bytes) {
                let report = match flow.arm {
                    Arm::Treated => &mut arms[flow.rule].treated,
                    Arm::Untreated => &mut arms[flow.rule].untreated,
                };
                report.push(goodput);
            }
        }
        self.report_datagrams(|rule, arm, goodput| {
            let arms = &mut arms[rule];
            let report = if arm == Arm::Treated { &mut arms.treated } else { &mut arms.untreated };
            goodput.into_iter().for_each(|goodput| report.push(goodput));
        });
        arms
    }
}

/// Returns the maximum number of connections of QUIC with state.
fn quic_limit(config: &EngineConfig) -> usize {
    if config.rules.iter().any(|rule| rule.mode == rules::Mode::Quic) { config.flows } else { 0 }
}

/// Returns the arm of a rule that a connection belongs to.
fn arm(rule: &Rule, key: &Key, keys: [u64; 2]) -> Arm {
    if key.uniform(keys) < rule.ab { Arm::Untreated } else { Arm::Treated }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "engine_options_tests.rs"]
mod options;

#[cfg(test)]
#[path = "engine_reports_tests.rs"]
mod reports;

#[cfg(test)]
#[path = "engine_integrity_tests.rs"]
mod integrity;

#[cfg(test)]
#[path = "engine_properties.rs"]
pub(super) mod properties;

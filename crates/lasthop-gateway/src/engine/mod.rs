//! What becomes of each packet that the gateway sees. No I/O and no clock: drivers feed it packets and the time, and carry
//! out what it says; a recorded sequence fed to it gives the same decisions.
//!
//! | module | holds |
//! |---|---|
//! | [`rules`] | what an engine is told: which connections, which treatment |
//! | [`counters`] | what it reports |
//! | [`recording`] | what an engine was told and decided, in a file, and again |

pub mod counters;
mod flow;
mod held;
mod offloaded;
mod passing;
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
use lasthop_wire::{View, parse};

use self::counters::Counters;
use self::flow::{Flow, Guarded, Stage};
use self::held::Store;
pub use self::offloaded::{Condition, Offloaded};
use self::passing::Passing;
use self::rules::{EngineConfig, Mode, Rule};
use self::treatment::Treatment;
pub use self::verdict::{Injection, Verdict};

/// How often silent connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// Most connections forgotten in one sweep, so that no call takes long.
const SWEPT: usize = 64;

/// After a sweep that left some.
const SWEEP_ON: Duration = Duration::from_millis(1);

/// Smallest MTU that is believed: what IPv4 asks of every host.
pub(super) const LEAST_MTU: usize = 576;

/// The treatment of all connections through one gateway.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    treatments: Vec<Treatment>,
    flows: FlowTable<Flow>,
    ab_keys: [u64; 2],
    sample: Stream,
    store: Store,
    /// By port, as far as known.
    mtu: [Option<usize>; 2],
    sweep: Instant,
    unread: u64,
    damaged: u64,
    out_of_window: u64,
    unmatched: u64,
    /// Whether the last packet's connection is left alone.
    left_alone: bool,
}

impl Engine {
    /// An engine without any connections. The seed decides which connections a comparison leaves untreated, and keys the
    /// tables: in a gateway it has to be one that nobody can guess.
    pub fn new(config: EngineConfig, seed: u64) -> Self {
        let mut keys = Root(seed).stream("gateway/keys");
        let mut pair = || [keys.below(u64::MAX), keys.below(u64::MAX)];
        Self {
            treatments: config.rules.iter().map(|rule| Treatment::new(rule, config.flows)).collect(),
            flows: FlowTable::new(config.flows, pair()),
            ab_keys: pair(),
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

    /// Takes another configuration. A connection keeps its treatment and its arm where a rule of the same name and mode is
    /// left; otherwise it belongs to the first rule that matches it now, or is forgotten. What was held back of it, and is so
    /// no longer, goes to the end of `out`.
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
            treatment.clear();
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
        while let Some(id) = self.flows.beyond_limit() {
            self.evict(now, id, out);
        }
    }

    /// The largest IP packet that leaves by `port`, in bytes; local retransmissions are cut to it. Without it they are as
    /// large as the connection's segments.
    pub fn set_mtu(&mut self, port: Port, mtu: u16) {
        self.mtu[usize::from(port.0 & 1)] = Some(usize::from(mtu).max(LEAST_MTU));
    }

    /// Takes a packet that came in at `port` ([`Port::WIRED`]: on its way to the lossy hop), beginning with its IP header,
    /// possibly a super-segment as receive offload builds them, its checksum possibly not computed yet (`offloaded`). What the
    /// gateway is to send besides goes to the end of `out`.
    ///
    /// A packet with a wrong checksum passes, and nothing is learned from it. Where the driver does not know how large the
    /// segments in a packet are, that is told from the options of both SYNs or, where these were not seen, from an MTU of 1500.
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
            // It came back by the way it went, or the network is not what it seems: nothing to be told from it.
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
            // The same addresses and ports, another connection.
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

    /// Sees to the connection's place in the table after a packet of it.
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

    /// The connection that a packet belongs to; `None` where no rule is for it.
    fn find_or_admit(&mut self, now: Instant, port: Port, view: &View, out: &mut Vec<Injection>) -> Option<FlowId> {
        let key = Key::of(&view.route);
        if let Some(id) = self.flows.find(&key) {
            let flow = self.flows.get_mut(id)?;
            if flow.stage != Stage::Opening || flow.port_of(side(&flow.first, &view.route)) == port {
                return Some(id);
            }
            // Somebody has made up a packet that came the other way.
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

    /// Drops a connection's state; what it measured stays.
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

    /// Whether the packet that was handled last is one of a connection that passes as it is: one that is observed, or left alone for
    /// comparison.
    pub const fn leaves_alone(&self) -> bool {
        self.left_alone
    }

    /// Acts on whatever deadline has come. Harmless when called early.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Injection>) {
        for treatment in &mut self.treatments {
            treatment.on_timeout(now, &mut self.flows, self.mtu, out);
        }
        if now >= self.sweep {
            self.sweep(now, out);
        }
    }

    /// Forgets connections that were silent for too long.
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
    }

    /// When to call [`Engine::handle_timeout`] next. After a call of it and before another packet this lies after the time of
    /// the call.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let repairs = self.treatments.iter().filter_map(Treatment::poll_deadline).min();
        let sweep = (!self.flows.is_empty()).then_some(self.sweep);
        [repairs, sweep].into_iter().flatten().min()
    }

    /// What happened so far.
    pub fn counters(&mut self) -> Counters {
        let mut rules: Vec<_> = self.treatments.iter().map(Treatment::report).collect();
        for (_, flow) in self.flows.iter_mut() {
            rules[flow.rule].flows_active += 1;
            rules[flow.rule].flows_guarded += u64::from(flow.is_guarded());
        }
        let (unread, damaged, unmatched) = (self.unread, self.damaged, self.unmatched);
        let out_of_window = self.out_of_window;
        Counters {
            rules,
            unread,
            damaged,
            out_of_window,
            unmatched,
            flows: self.flows.len() as u64,
            held_bytes: self.store.bytes(),
        }
    }

    /// Goodputs by rule and arm: of connections that ended, and of those at work now.
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
        arms
    }
}

/// Which arm of a rule a connection belongs to.
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

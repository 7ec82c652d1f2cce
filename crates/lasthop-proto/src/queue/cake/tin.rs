//! One tin of CAKE: lines of flows in deficit round robin, shared by hosts.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::super::cobalt::{Cobalt, Parameters};
use super::super::{Backlog, MTU, Queued, Sight, View, spread};
use super::{ByteTime, CakeConfig, LINES};
use crate::random::Stream;

/// List that contains a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Set {
    /// No list.
    None,
    /// List of newly active flows.
    Sparse,
    /// List of flows with a queue. The flow counts as sparse, because its line was empty when it moved there.
    SparseWait,
    /// List of flows with a queue.
    Bulk,
    /// List of flows without packets whose control has not come to rest.
    Decaying,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    item: T,
    since: i64,
    ack: Sight,
}

#[derive(Clone, Debug)]
struct Flow<T> {
    line: VecDeque<Waiting<T>>,
    bytes: u64,
    deficit: i64,
    control: Cobalt,
    set: Set,
    /// Source and destination.
    hosts: [u32; 2],
}

/// State that all tins share while a packet is dequeued: dropped packets, backlog, random numbers.
pub(super) struct Parting<'a, T> {
    pub dropped: &'a mut Vec<T>,
    /// True before the first flow is examined.
    pub first: bool,
    pub backlog: &'a mut Backlog,
    pub draws: &'a mut Stream,
}

/// A tin.
#[derive(Clone, Debug)]
pub(super) struct Tin<T> {
    /// Lines by their place. A line keeps its control state while it is empty.
    flows: BTreeMap<u32, Flow<T>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    decaying: VecDeque<u32>,
    /// Numbers of bulk flows by source, and by destination.
    loads: Loads,
    /// Number of flows in [`Set::Sparse`], [`Set::SparseWait`] and [`Set::Bulk`].
    active: usize,
    with: Parameters,
    rate: Option<ByteTime>,
    /// Bytes that a flow may send in its turn.
    flow_quantum: u32,
    /// Bytes that the tin may send in its turn.
    pub quantum: u32,
    pub deficit: i64,
    /// Time until which the tin has used its share, in nanoseconds.
    pub next: i64,
    packets: usize,
}

impl<T: Queued> Tin<T> {
    /// Returns a tin without flows; `rate` is its share in bytes per second.
    pub fn new(config: &CakeConfig, rate: Option<u64>, quantum: u32) -> Self {
        let pace = rate.map(ByteTime::at);
        let packet_time = pace.map_or(0, |pace| pace.of(MTU));
        let [target, interval] = [config.target, config.interval].map(|span| span.as_nanos() as i64);
        let raised = target.max(packet_time * 3 / 2);
        Self {
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            loads: [BTreeMap::new(), BTreeMap::new()],
            active: 0,
            with: Parameters { target: raised, interval: (interval + raised - target).max(raised * 2), packet_time },
            rate: pace,
            flow_quantum: rate.map_or(MTU, |rate| (rate >> 12).clamp(300, u64::from(MTU)) as u32),
            quantum: quantum.max(1),
            deficit: 0,
            next: 0,
            packets: 0,
        }
    }

    /// Returns the parameters of the control of its lines.
    #[cfg(test)]
    pub const fn parameters(&self) -> Parameters {
        self.with
    }

    /// Returns whether no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns whether a flow is to be served.
    pub const fn is_busy(&self) -> bool {
        self.active > 0
    }

    /// Adds a packet to the line of its flow. Returns the place of the line.
    pub fn enqueue(&mut self, now: i64, item: T, view: &View, config: &CakeConfig) -> u32 {
        let place = spread(item.flow(), LINES);
        let flow = self.flows.entry(place).or_insert_with(|| Flow {
            line: VecDeque::new(),
            bytes: 0,
            deficit: 0,
            control: Cobalt::new(),
            set: Set::None,
            hosts: view.hosts,
        });
        if flow.hosts != view.hosts {
            // Another flow in the same line.
            if flow.set == Set::Bulk {
                release(&mut self.loads, config, flow.hosts);
                occupy(&mut self.loads, config, view.hosts);
            }
            flow.hosts = view.hosts;
        }
        flow.bytes += u64::from(item.bytes());
        flow.line.push_back(Waiting { item, since: now, ack: view.ack });
        self.packets += 1;
        place
    }

    /// Removes the first acknowledgment in a line that its last one makes redundant, if there are at least two.
    pub fn filter(&mut self, place: u32) -> Option<T> {
        let flow = self.flows.get_mut(&place)?;
        let Waiting { item, ack: Sight::Plain(newest), .. } = flow.line.back()? else { return None };
        let number = item.flow();
        let redundant = |waits: &Waiting<T>| {
            waits.item.flow() == number && matches!(waits.ack, Sight::Plain(ack) if ack.lt(*newest))
        };
        let mut acks = flow.line.iter().enumerate().filter(|(_, waits)| redundant(waits)).map(|(at, _)| at);
        let (first, _) = (acks.next()?, acks.next()?);
        let ack = flow.line.remove(first)?.item;
        flow.bytes -= u64::from(ack.bytes());
        self.packets -= 1;
        Some(ack)
    }

    /// Puts a flow with a new packet into its list.
    pub fn activate(&mut self, place: u32, config: &CakeConfig, draws: &mut Stream) {
        let Some(flow) = self.flows.get_mut(&place) else { return };
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    self.decaying.retain(|other| *other != place);
                }
                flow.set = Set::Sparse;
                self.new.push_back(place);
                self.active += 1;
                flow.deficit = quantum(self.flow_quantum, &self.loads, config, flow.hosts, draws);
            }
            Set::SparseWait => {
                flow.set = Set::Bulk;
                occupy(&mut self.loads, config, flow.hosts);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// Returns the bytes in the longest line.
    pub fn longest(&self) -> u64 {
        self.flows.values().map(|flow| flow.bytes).max().unwrap_or(0)
    }

    /// Drops the first packet of the longest line.
    pub fn cut_longest(&mut self, now: i64) -> Option<T> {
        let longest = self.longest();
        let flow = self.flows.values_mut().find(|flow| flow.bytes == longest)?;
        let item = flow.line.pop_front()?.item;
        flow.bytes -= u64::from(item.bytes());
        flow.control.on_overflow(now, &self.with);
        self.packets -= 1;
        Some(item)
    }

    /// Charges the tin for a packet that is sent.
    pub fn charge(&mut self, now: i64, bytes: u32) {
        self.deficit -= i64::from(bytes);
        if let Some(rate) = self.rate {
            let time = rate.of(bytes);
            self.next = if self.next < now { self.next.saturating_add(time) } else { self.next.max(now + time) };
        }
    }

    /// Returns the list to serve next. A decaying flow comes first, once per packet to send (`first`).
    fn list(&mut self, first: bool) -> &mut VecDeque<u32> {
        if first && !self.decaying.is_empty() {
            &mut self.decaying
        } else if !self.new.is_empty() {
            &mut self.new
        } else if !self.old.is_empty() {
            &mut self.old
        } else {
            &mut self.decaying
        }
    }

    /// Returns the packet to send; `None` if the next flow has none.
    pub fn dequeue(
        &mut self,
        now: i64,
        config: &CakeConfig,
        parting: &mut Parting<'_, T>,
        tell: &mut impl FnMut(&mut T) -> bool,
    ) -> Option<T> {
        loop {
            let first = core::mem::replace(&mut parting.first, false);
            let place = *self.list(first).front()?;
            let flow = self.flows.get_mut(&place)?;
            if flow.deficit <= 0 {
                if flow.set == Set::Sparse {
                    flow.set = if flow.line.is_empty() { Set::SparseWait } else { Set::Bulk };
                    if flow.set == Set::Bulk {
                        occupy(&mut self.loads, config, flow.hosts);
                    }
                }
                flow.deficit += quantum(self.flow_quantum, &self.loads, config, flow.hosts, parting.draws);
                self.list(first).pop_front();
                self.old.push_back(place);
                continue;
            }
            while let Some(Waiting { mut item, since, .. }) = flow.line.pop_front() {
                let bytes = item.bytes();
                flow.bytes -= u64::from(bytes);
                self.packets -= 1;
                parting.backlog.remove(bytes);
                let drops = flow.control.drops(now, now - since, &self.with, || tell(&mut item), parting.draws);
                // The last packet of a line is never dropped.
                if !drops || flow.line.is_empty() {
                    flow.deficit -= i64::from(bytes);
                    return Some(item);
                }
                parting.dropped.push(item);
            }
            self.list(first).pop_front();
            self.retire(now, place, config);
            return None;
        }
    }

    /// Removes a flow without packets from its list, or lets its control decay.
    fn retire(&mut self, now: i64, place: u32, config: &CakeConfig) {
        let Some(flow) = self.flows.get_mut(&place) else { return };
        flow.control.on_empty(now, &self.with);
        if flow.set == Set::Bulk {
            release(&mut self.loads, config, flow.hosts);
        }
        if flow.set != Set::Decaying {
            self.active -= 1;
        }
        flow.set = if flow.control.is_active(now) {
            self.decaying.push_back(place);
            Set::Decaying
        } else {
            Set::None
        };
    }
}

/// Number of bulk flows by host, for sources and for destinations.
type Loads = [BTreeMap<u32, u32>; 2];

/// Counts a bulk flow at its hosts.
fn occupy(loads: &mut Loads, config: &CakeConfig, hosts: [u32; 2]) {
    for ((load, host), counts) in loads.iter_mut().zip(hosts).zip(config.isolation.hosts()) {
        if counts {
            *load.entry(host).or_insert(0) += 1;
        }
    }
}

/// Reverts [`occupy`].
fn release(loads: &mut Loads, config: &CakeConfig, hosts: [u32; 2]) {
    for ((load, host), counts) in loads.iter_mut().zip(hosts).zip(config.isolation.hosts()) {
        if counts && let Some(count) = load.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                load.remove(&host);
            }
        }
    }
}

/// Returns the bytes of a flow's turn: the quantum over the number of bulk flows of its busier host. A random number
/// rounds.
fn quantum(quantum: u32, loads: &Loads, config: &CakeConfig, hosts: [u32; 2], draws: &mut Stream) -> i64 {
    let of = |(load, host): (&BTreeMap<u32, u32>, u32)| load.get(&host).copied().unwrap_or(0);
    let counts = loads.iter().zip(hosts).map(of).zip(config.isolation.hosts());
    let load = counts.filter(|(_, counts)| *counts).map(|(load, _)| load).max().unwrap_or(0).max(1);
    (i64::from(quantum) * i64::from(65_535 / load) + draws.below(1 << 16) as i64) >> 16
}

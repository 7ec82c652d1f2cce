//! FlowQueue-CoDel (RFC 8290): a line under CoDel for each flow, served by deficit round robin, newly active lines
//! first.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::{Backlog, CoDel, CoDelConfig, Line, Queued, Ticks, Waiting, spread};
use crate::tcp::config::Switch;
use crate::time::Instant;

/// FQ-CoDel's parameters (RFC 8290 §5.2), with Linux's values as defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqCoDelConfig {
    /// Parameters of each line.
    pub codel: CoDelConfig,
    /// Maximum number of lines; further flows share them.
    pub flows: u32,
    /// Bytes that a line may send in its turn.
    pub quantum: u32,
    /// Maximum number of packets in all lines together.
    pub limit: u32,
    /// Maximum number of bytes in all lines together.
    pub memory_limit: u64,
    /// Maximum number of packets dropped at once when a limit is exceeded.
    pub drop_batch: u32,
}

impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self {
            codel: CoDelConfig { ecn: Switch::On, ..CoDelConfig::default() },
            flows: 1024,
            quantum: 1514,
            limit: 10_240,
            memory_limit: 32 << 20,
            drop_batch: 64,
        }
    }
}

/// The lines and the order of their turns.
#[derive(Clone, Debug)]
pub struct FqCoDel<T> {
    config: FqCoDelConfig,
    /// Lines by [`spread`]; a line keeps its control state while it is empty.
    flows: BTreeMap<u32, Flow<T>>,
    /// Lines that were empty when their first packet arrived.
    new: VecDeque<u32>,
    /// Lines that have had their turn.
    old: VecDeque<u32>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Flow<T> {
    line: Line<T>,
    bytes: u64,
    /// Bytes that the line may still send in its turn.
    deficit: i64,
    control: CoDel,
    /// On if the line is in one of the two lists.
    listed: Switch,
}

impl<T: Queued> FqCoDel<T> {
    /// Returns a queue without lines.
    pub fn new(config: FqCoDelConfig) -> Self {
        Self { config, flows: BTreeMap::new(), new: VecDeque::new(), old: VecDeque::new(), backlog: Backlog::default() }
    }

    /// Changes target and interval of all lines.
    pub(super) fn tune(&mut self, config: CoDelConfig) {
        self.config.codel = config;
        for flow in self.flows.values_mut() {
            flow.control.tune(config);
        }
    }

    /// Changes the maximum number of packets.
    pub(super) fn change_limit(&mut self, packets: u32) {
        self.config.limit = packets;
    }

    /// Returns the backlog of all lines.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(super) fn push(&mut self, now: Instant, item: T, dropped: &mut Vec<T>) {
        let place = spread(item.flow(), self.config.flows);
        let config = &self.config;
        let flow = self.flows.entry(place).or_insert_with(|| Flow {
            line: Line::new(),
            bytes: 0,
            deficit: 0,
            control: CoDel::new(config.codel),
            listed: Switch::Off,
        });
        self.backlog.add(item.bytes());
        flow.bytes += u64::from(item.bytes());
        flow.line.push_back(Waiting { item, since: Ticks::at(now) });
        if !flow.listed.is_on() {
            flow.listed = Switch::On;
            flow.deficit = i64::from(config.quantum);
            self.new.push_back(place);
        }
        while self.backlog.packets > self.config.limit || self.backlog.bytes > self.config.memory_limit {
            self.cut_fattest(dropped);
        }
    }

    /// Drops packets from the head of the line with the most bytes, until half of its bytes or a whole batch of packets
    /// is dropped.
    fn cut_fattest(&mut self, dropped: &mut Vec<T>) {
        let mut fattest: Option<&mut Flow<T>> = None;
        for flow in self.flows.values_mut() {
            if fattest.as_ref().is_none_or(|most| flow.bytes > most.bytes) {
                fattest = Some(flow);
            }
        }
        let Some(flow) = fattest else { return };
        let (threshold, mut cut, mut drops) = (flow.bytes / 2, 0, 0);
        while let Some(first) = flow.line.pop_front() {
            let bytes = first.item.bytes();
            self.backlog.remove(bytes);
            cut += u64::from(bytes);
            drops += 1;
            dropped.push(first.item);
            if drops >= self.config.drop_batch || cut >= threshold {
                break;
            }
        }
        flow.bytes -= cut;
        flow.control.strengthen(drops);
    }

    pub(super) fn pop(
        &mut self,
        now: Instant,
        dropped: &mut Vec<T>,
        tell: &mut impl FnMut(&mut T) -> bool,
    ) -> Option<T> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let place = *list.front()?;
            let flow = self.flows.get_mut(&place)?;
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.config.quantum);
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            let before = self.backlog.bytes;
            let item = flow.control.pop(now, &mut flow.line, &mut self.backlog, dropped, tell);
            flow.bytes -= before - self.backlog.bytes;
            if let Some(item) = item {
                flow.deficit -= i64::from(item.bytes());
                return Some(item);
            }
            // A line that runs empty in its first turn moves to the old ones, so that it cannot starve them by
            // returning at once.
            list.pop_front();
            if from_new && !self.old.is_empty() {
                self.old.push_back(place);
            } else {
                flow.listed = Switch::Off;
            }
        }
    }
}

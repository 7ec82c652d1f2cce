//! Fates of packets, determined during a run: a record is held back until its packet's fate is known.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::{HashMap, VecDeque};

use lasthop_proto::packet::Packet;
use lasthop_sim::trace::{DropReason, Record, Trace, What};

use crate::fate::{Fate, Key, key, same, take};

/// Waiting records, in order. The records of packets in flight wait, as do all records after the oldest of these.
#[derive(Default)]
pub struct FateWindow {
    waiting: VecDeque<Waiting>,
    /// Number of the first waiting record.
    first: usize,
    underway: HashMap<(u16, Key), VecDeque<usize>>,
}

struct Waiting {
    record: Record,
    /// `None` while the packet is in flight.
    fate: Option<Fate>,
}

impl FateWindow {
    /// Takes the next record.
    pub fn push(&mut self, record: Record) {
        let number = self.first + self.waiting.len();
        let fate = match &record.what {
            What::Sent(packet) => {
                self.underway.entry((record.point, key(packet))).or_default().push_back(number);
                None
            }
            What::Received(packet) => {
                let fate = |_| Fate::NotDropped;
                self.end(Trace::far_end(record.point), packet, DropReason::Channel, fate);
                Some(Fate::NotDropped)
            }
            What::Dropped(packet, reason) => {
                let merged = self.end(record.point, packet, *reason, Fate::DroppedLater);
                Some(if merged { Fate::Merged } else { Fate::NotDropped })
            }
            What::Event(_) => Some(Fate::NotDropped),
        };
        self.waiting.push_back(Waiting { record, fate });
    }

    /// Evaluates a record that is not kept: if it shows that a packet arrived elsewhere, the kept record of that packet
    /// need not wait any more.
    pub fn settle(&mut self, record: &Record) {
        if let What::Received(packet) = &record.what {
            self.end(Trace::far_end(record.point), packet, DropReason::Channel, |_| Fate::NotDropped);
        }
    }

    /// Returns the number of waiting records.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Records that the journey of `packet` from `point` has ended; returns false if it was not sent.
    fn end(&mut self, point: u16, packet: &Packet, reason: DropReason, fate: impl Fn(DropReason) -> Fate) -> bool {
        let Self { waiting, first, underway } = self;
        let place = (point, key(packet));
        let Some(queue) = underway.get_mut(&place) else { return false };
        let sent_at = |number: usize| match waiting.get(number - *first).map(|waiting| &waiting.record.what) {
            Some(What::Sent(sent)) => same(sent, packet),
            _ => false,
        };
        let Some(sent) = take(queue, sent_at, reason) else { return false };
        if queue.is_empty() {
            underway.remove(&place);
        }
        if let Some(waiting) = waiting.get_mut(sent - *first) {
            waiting.fate = Some(fate(reason));
        }
        true
    }

    /// Returns the next record whose fate is known.
    pub fn pop(&mut self) -> Option<(Record, Fate)> {
        let fate = self.waiting.front()?.fate?;
        let Waiting { record, .. } = self.waiting.pop_front()?;
        self.first += 1;
        Some((record, fate))
    }

    /// Returns all waiting records at the end of the run: packets in flight were not dropped.
    pub fn drain(&mut self) -> impl Iterator<Item = (Record, Fate)> {
        self.underway.clear();
        self.first += self.waiting.len();
        self.waiting.drain(..).map(|Waiting { record, fate }| (record, fate.unwrap_or_default()))
    }
}

//! Reassembly: in-order data advances `rcv_nxt`, other data waits in runs.

use super::{MAX_RUNS, Receiver};
use crate::packet::{SackBlock, SackBlocks};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::Instant;

impl Receiver {
    /// Handles the usual case: the next segment, with nothing queued behind it.
    #[inline]
    pub(super) fn take_in_order(&mut self, now: Instant, len: u32) {
        self.rcv_nxt += len;
        self.received += u64::from(len);
        self.unread += u64::from(len);
        self.highest = self.highest.max(self.rcv_nxt);
        self.latest = None;
        self.damaged = self.damaged.filter(|run| run.right.gt(self.rcv_nxt));
        self.delay_ack(now);
    }

    /// Stores data that is new and before `edge`, and advances `rcv_nxt` over in-order data.
    pub(super) fn place(&mut self, edge: Seq, seq: Seq, len: u32, fin: Switch) {
        let (left, right) = (seq.max(self.rcv_nxt), (seq + len).min(edge));
        if fin.is_on() && self.fin.is_none() && (seq + len).le(edge) {
            self.fin = Some(seq + len);
        }
        if left.lt(right) {
            self.highest = self.highest.max(right);
            let block = SackBlock { left, right };
            if left == self.rcv_nxt && self.runs.is_empty() {
                self.latest = Some(block);
                self.deliver_to(right);
            } else {
                self.latest = self.insert(block);
            }
            self.damaged = self.damaged.filter(|run| run.left.lt(left) || run.right.gt(right));
        } else {
            self.latest = self.run_at(seq);
        }
        self.deliver();
    }

    /// Adds a run and merges it with those it touches; returns the resulting run, if it was kept.
    pub(super) fn insert(&mut self, block: SackBlock) -> Option<SackBlock> {
        if let Some(last) = self.runs.last_mut()
            && last.right == block.left
        {
            // The usual case: data that follows the highest run.
            last.right = block.right;
            return Some(*last);
        }
        let from = self.runs.iter().take_while(|run| run.right.lt(block.left)).count();
        let touching = self.runs[from..].iter().take_while(|run| run.left.le(block.right)).count();
        let mut merged = block;
        if touching > 0 {
            merged.left = merged.left.min(self.runs[from].left);
            merged.right = merged.right.max(self.runs[from + touching - 1].right);
            self.runs[from] = merged;
            if touching > 1 {
                self.runs.drain(from + 1..from + touching);
            }
        } else if self.runs.len() < MAX_RUNS || block.left == self.rcv_nxt {
            self.runs.insert(from, merged);
        } else {
            return None;
        }
        Some(merged)
    }

    pub(super) fn run_at(&self, seq: Seq) -> Option<SackBlock> {
        self.runs.iter().find(|run| run.left.le(seq) && run.right.gt(seq)).copied()
    }

    /// Advances `rcv_nxt` over in-order data.
    fn deliver(&mut self) {
        if let Some(first) = self.runs.first()
            && first.left == self.rcv_nxt
        {
            let right = first.right;
            self.deliver_to(right);
            self.runs.remove(0);
            if self.runs.is_empty()
                && let Some(history) = &mut self.history
            {
                **history = SackBlocks::NONE;
            }
        }
        if self.fin == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
        }
    }

    /// Advances to `right`, up to which all data is present.
    fn deliver_to(&mut self, right: Seq) {
        let bytes = u64::from(right.since(self.rcv_nxt));
        self.rcv_nxt = right;
        self.received += bytes;
        self.unread += bytes;
        self.damaged = self.damaged.filter(|run| run.right.gt(right));
    }

    /// Records corrupted data with an intact header, which is used for ELN only.
    pub fn on_damaged(&mut self, seq: Seq, len: u32) {
        let (left, right) = (seq.max(self.rcv_nxt), (seq + len).min(self.right_edge()));
        if left.lt(right) && self.damaged.is_none() {
            self.damaged = Some(SackBlock { left, right });
        }
    }

    /// Returns whether the next expected byte arrived corrupted (ELN).
    pub fn next_was_damaged(&self) -> Switch {
        let hit = self.damaged.is_some_and(|run| run.left.le(self.rcv_nxt) && run.right.gt(self.rcv_nxt));
        if hit { Switch::On } else { Switch::Off }
    }
}

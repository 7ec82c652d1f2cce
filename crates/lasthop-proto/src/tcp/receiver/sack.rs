//! Reports of out-of-order and duplicate data in acknowledgments.

use super::Receiver;
use crate::packet::{SackBlock, SackBlocks};
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// Blocks in the order in which Linux reports them: each arrival moves the block that it creates or extends to the
/// front, whether or not an acknowledgment follows.
#[derive(Clone, Default, Debug)]
pub(super) struct Table {
    blocks: SackBlocks,
}

/// Index from which a block might not fit into an acknowledgment with timestamps and a duplicate.
const EXPECTED: usize = 2;

impl Table {
    /// Returns the blocks, most recent first.
    pub fn blocks(&self) -> SackBlocks {
        self.blocks
    }

    /// Returns whether adding this block displaces one that an acknowledgment has yet to report.
    pub fn crowds(&self, block: SackBlock) -> bool {
        self.place(block).unwrap_or(self.blocks.as_slice().len()) >= EXPECTED
    }

    /// Returns the index of the first block that `block` touches.
    fn place(&self, block: SackBlock) -> Option<usize> {
        self.blocks.as_slice().iter().position(|old| touch(*old, block))
    }

    /// Adds a block that arrived.
    pub fn add(&mut self, block: SackBlock) {
        let first = match self.place(block) {
            Some(place) => join(self.blocks.as_slice()[place], block),
            None => block,
        };
        let mut blocks = SackBlocks::default();
        blocks.push(first);
        let place = self.place(block);
        for (index, &old) in self.blocks.as_slice().iter().enumerate() {
            if Some(index) == place {
                continue;
            }
            // Merged blocks are reported once.
            if place.is_some() && touch(old, first) {
                let joined = join(blocks.as_slice()[0], old);
                blocks.replace_first(joined);
            } else {
                blocks.push(old);
            }
        }
        self.blocks = blocks;
    }

    /// Removes blocks below `rcv_nxt`, which are in order now.
    pub fn forget_before(&mut self, rcv_nxt: Seq) {
        if self.blocks.is_empty() {
            return;
        }
        let mut blocks = SackBlocks::default();
        self.blocks.as_slice().iter().filter(|block| block.left.gt(rcv_nxt)).for_each(|&block| blocks.push(block));
        self.blocks = blocks;
    }
}

fn touch(a: SackBlock, b: SackBlock) -> bool {
    a.left.le(b.right) && b.left.le(a.right)
}

fn join(a: SackBlock, b: SackBlock) -> SackBlock {
    SackBlock { left: if b.left.lt(a.left) { b.left } else { a.left }, right: a.right.max(b.right) }
}

impl Receiver {
    /// Records the parts of `seq` to `end` that are already present, to report them as duplicates (RFC 2883). Only one
    /// block of duplicates can be reported: the first, with those that touch it.
    pub(super) fn note_duplicates(&mut self, seq: Seq, end: Seq) {
        if !(self.config.receiver.dsack.is_on() && self.sack.is_on()) {
            return;
        }
        let mut found: Option<SackBlock> = None;
        let mut note = |part: SackBlock| {
            if part.left.lt(part.right) {
                found = match found {
                    None => Some(part),
                    Some(first) if touch(first, part) => Some(join(first, part)),
                    first => first,
                };
            }
        };
        if seq.lt(self.rcv_nxt) {
            note(SackBlock { left: seq, right: if end.lt(self.rcv_nxt) { end } else { self.rcv_nxt } });
        }
        for run in self.runs.iter().take_while(|run| run.left.lt(end)) {
            note(SackBlock { left: seq.max(run.left), right: if end.lt(run.right) { end } else { run.right } });
        }
        self.duplicate = found.or(self.duplicate);
    }

    /// Returns whether there is anything to report selectively.
    #[inline]
    pub fn has_blocks(&self) -> bool {
        !self.runs.is_empty() || self.duplicate.is_some() || self.has_early_report() || self.awaits_fin()
    }

    /// Returns the first number of duplicate data that the next segment reports.
    pub fn duplicate(&self) -> Option<Seq> {
        self.duplicate.map(|block| block.left)
    }

    /// Prepares the blocks of a data segment. Segmentation offload repeats the options of a batch on each segment.
    #[inline]
    pub fn begin_segment(&mut self, joined: Switch) {
        if !joined.is_on() {
            self.reported = None;
        } else if self.reported.is_some() {
            self.duplicate = self.reported;
        }
    }

    /// Returns the bytes that SACK blocks will take in the next segment, padding included.
    pub fn blocks_len(&self) -> u8 {
        if !self.has_blocks() {
            return 0;
        }
        let listed = self.table().map_or(0, |table| table.as_slice().len()) + usize::from(self.duplicate.is_some());
        match (listed as u8).min(self.most_blocks) {
            0 => 0,
            count => 4 + 8 * count,
        }
    }

    /// Returns whether the FIN is known and waits for data before it.
    #[inline]
    pub(super) fn awaits_fin(&self) -> bool {
        self.fin.is_some_and(|fin| self.rcv_nxt.le(fin))
    }

    /// Writes the SACK blocks of the segment being sent into `blocks`: duplicates first (RFC 2883 §4), then the run of
    /// the segment that caused it, then those reported most recently (RFC 2018 §4).
    pub fn put_sack_blocks(&mut self, blocks: &mut SackBlocks) {
        // Blocks are written in place: copying freshly written data stalls the processor.
        *blocks = SackBlocks::NONE;
        if let Some(early) = self.take_early_report() {
            *blocks = early;
            return;
        }
        self.reported = self.duplicate.take();
        if let Some(duplicate) = self.reported {
            blocks.push(duplicate);
        }
        let most = usize::from(self.most_blocks);
        if let Some(table) = self.table() {
            for block in table.as_slice() {
                if blocks.as_slice().len() < most {
                    blocks.push(*block);
                }
            }
            return;
        }
        if self.runs.is_empty() {
            return;
        }
        let first = self.latest.take().filter(|run| run.left.gt(self.rcv_nxt));
        let history = self.history.get_or_insert_default();
        let reported = **history;
        **history = SackBlocks::NONE;
        if let Some(first) = first {
            if blocks.as_slice().len() < most {
                blocks.push(first);
            }
            history.push(first);
        }
        for &old in reported.as_slice() {
            let stale = old.left.lt(self.rcv_nxt);
            let covered = history.as_slice().iter().any(|new| new.left.le(old.left) && old.right.le(new.right));
            if stale || covered {
                continue;
            }
            if blocks.as_slice().len() < most {
                blocks.push(old);
            }
            if history.as_slice().len() < most {
                history.push(old);
            }
        }
    }
}

//! The sender's record of SACK blocks.

use alloc::vec::Vec;

use crate::packet::{SackBlock, SackBlocks};
use crate::seq::Seq;

/// Maximum number of stored runs. With more holes in one window, precision is lost, not correctness: a run that is not
/// stored counts as not received.
const MAX_RUNS: usize = 512;

/// Disjoint runs of SACKed bytes above the cumulative acknowledgment, in order.
#[derive(Clone, Default, Debug)]
pub struct Scoreboard {
    runs: Vec<SackBlock>,
}

impl Scoreboard {
    /// Processes the blocks of an acknowledgment, ignoring data outside `snd_una..snd_max`. Returns the number of bytes
    /// not known as received before.
    pub fn update(&mut self, snd_una: Seq, snd_max: Seq, blocks: &SackBlocks) -> u32 {
        self.acknowledge(snd_una);
        let mut fresh = 0;
        for block in blocks.as_slice() {
            // By distance from `snd_una`: numbers half the space away are neither before nor after.
            let from_una = |seq: Seq| seq.0.wrapping_sub(snd_una.0);
            let sane = from_una(block.left) < from_una(block.right) && from_una(block.right) <= from_una(snd_max);
            if sane {
                fresh += self.insert(*block);
            }
        }
        fresh
    }

    /// Removes everything below `snd_una`.
    pub fn acknowledge(&mut self, snd_una: Seq) {
        let gone = self.runs.iter().take_while(|run| run.right.le(snd_una)).count();
        if gone > 0 {
            self.runs.drain(..gone);
        }
        if let Some(first) = self.runs.first_mut() {
            first.left = first.left.max(snd_una);
        }
    }

    /// Adds a run and merges it with those it touches. Returns the number of bytes that it adds.
    fn insert(&mut self, block: SackBlock) -> u32 {
        if let Some(last) = self.runs.last_mut()
            && last.left.le(block.left)
            && block.left.le(last.right)
            && last.right.le(block.right)
        {
            // Most news is growth of the highest run.
            let fresh = block.right.since(last.right);
            last.right = block.right;
            return fresh;
        }
        let from = self.runs.iter().take_while(|run| run.right.lt(block.left)).count();
        let touching = self.runs[from..].iter().take_while(|run| run.left.le(block.right)).count();
        if touching == 0 {
            if self.runs.len() >= MAX_RUNS {
                return 0;
            }
            self.runs.insert(from, block);
            return block.right.since(block.left);
        }
        let merged = &self.runs[from..from + touching];
        if let [run] = merged
            && run.left.le(block.left)
            && block.right.le(run.right)
        {
            // Most blocks are repetitions.
            return 0;
        }
        let known: u32 = merged.iter().map(|run| run.right.since(run.left)).sum();
        let left = block.left.min(merged[0].left);
        let right = block.right.max(merged[touching - 1].right);
        self.runs[from] = SackBlock { left, right };
        if touching > 1 {
            self.runs.drain(from + 1..from + touching);
        }
        right.since(left) - known
    }

    /// Removes everything (after a retransmission timeout, RFC 2018 §8).
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Returns the runs, in order.
    pub fn runs(&self) -> &[SackBlock] {
        &self.runs
    }

    /// Returns the byte after the highest one SACKed.
    pub fn highest(&self) -> Option<Seq> {
        self.runs.last().map(|run| run.right)
    }

    /// Returns the hole that contains the highest byte not SACKed: its first byte and the byte after its last.
    pub fn highest_hole(&self, snd_una: Seq, snd_max: Seq) -> Option<(Seq, Seq)> {
        let mut end = snd_max;
        for run in self.runs.iter().rev() {
            if run.right.lt(end) {
                return Some((run.right, end));
            }
            end = run.left;
        }
        snd_una.lt(end).then_some((snd_una, end))
    }

    /// Returns the first hole at or after `from` that has SACKed bytes above it: its first byte and the byte after its
    /// last.
    pub fn next_hole(&self, from: Seq) -> Option<(Seq, Seq)> {
        let mut start = from;
        for run in &self.runs {
            if start.lt(run.left) {
                return Some((start, run.left));
            }
            start = start.max(run.right);
        }
        None
    }

    /// Evaluates `IsLost` of RFC 6675 §4: whether `dup_thresh` discontiguous runs, or more than `(dup_thresh - 1) *
    /// smss` SACKed bytes, lie above `seq`.
    pub fn is_lost(&self, seq: Seq, dup_thresh: u32, smss: u32) -> bool {
        let above = self.runs.iter().rev().take_while(|run| run.left.gt(seq));
        let (mut runs, mut bytes) = (0, 0);
        for run in above {
            runs += 1;
            bytes += run.right.since(run.left);
            if runs >= dup_thresh || bytes > (dup_thresh - 1) * smss {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &[(u32, u32)]) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &(left, right) in list {
            blocks.push(SackBlock { left: Seq(left), right: Seq(right) });
        }
        blocks
    }

    #[test]
    fn merges_counts_and_finds_holes() {
        let mut board = Scoreboard::default();
        assert_eq!(board.update(Seq(0), Seq(100), &blocks(&[(10, 20), (30, 40)])), 20);
        assert_eq!(board.update(Seq(0), Seq(100), &blocks(&[(15, 32)])), 10);
        assert_eq!(board.runs(), [SackBlock { left: Seq(10), right: Seq(40) }]);
        assert_eq!(board.next_hole(Seq(0)), Some((Seq(0), Seq(10))));
        assert_eq!(board.next_hole(Seq(10)), None);
        assert_eq!(board.update(Seq(25), Seq(100), &blocks(&[(60, 70)])), 10);
        assert_eq!(board.next_hole(Seq(25)), Some((Seq(40), Seq(60))));
    }

    #[test]
    fn refuses_what_was_never_sent_or_is_reversed() {
        let mut board = Scoreboard::default();
        assert_eq!(board.update(Seq(50), Seq(100), &blocks(&[(90, 110), (40, 45), (80, 70), (60, 60)])), 0);
        let far = 100 + (1 << 31) - 1;
        assert_eq!(board.update(Seq(100), Seq(100), &blocks(&[(far, far + 10_000), (100, 101)])), 0);
        assert!(board.runs().is_empty());
    }

    #[test]
    fn works_across_the_wrap() {
        let una = Seq(u32::MAX - 5);
        let mut board = Scoreboard::default();
        let mut wrapped = SackBlocks::default();
        wrapped.push(SackBlock { left: una + 2, right: una + 12 });
        assert_eq!(board.update(una, una + 100, &wrapped), 10);
        assert_eq!(board.next_hole(una), Some((una, una + 2)));
    }
}

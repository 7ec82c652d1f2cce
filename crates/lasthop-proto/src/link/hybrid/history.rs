//! Record of arrivals far behind the latest one, on a path that reorders more packets than a report covers.

use alloc::vec::Vec;

/// Number of packets that a report covers, besides the latest one.
const BLOCK: u64 = 128;

/// Number of blocks that are recorded.
const BLOCKS: usize = 64;

/// Number of reports on a block after a packet of it has arrived: one of them may be lost.
const REPORTS: u8 = 2;

/// A block of packets with consecutive numbers.
#[derive(Clone, Copy, Default, Debug)]
struct Block {
    /// Number of the block: that of its first packet divided by [`BLOCK`].
    number: u64,
    /// Bit i: packet i of the block arrived.
    received: u128,
    /// Number of reports that are due.
    due: u8,
}

impl Block {
    /// Returns the distance of the block's last packet from the one before `largest`. Reports on the latest packets cover
    /// younger blocks.
    fn back(&self, largest: u64) -> Option<u16> {
        u16::try_from(largest.checked_sub((self.number + 1) * BLOCK)?).ok()
    }

    fn is_due(&self, largest: u64) -> bool {
        self.due > 0 && self.back(largest).is_some()
    }
}

/// Arrivals by block.
#[derive(Clone, Default, Debug)]
pub(super) struct History {
    blocks: Vec<Block>,
    /// Index of the block that is considered first for the next report.
    turn: usize,
}

impl History {
    /// Records an arrival. `behind` is true if a later packet had arrived before.
    pub fn on_packet(&mut self, packet: u64, behind: bool) {
        if self.blocks.is_empty() {
            self.blocks.resize(BLOCKS, Block::default());
        }
        let number = packet / BLOCK;
        let block = &mut self.blocks[(number % BLOCKS as u64) as usize];
        if block.number > number {
            return;
        }
        if block.number < number {
            *block = Block { number, received: 0, due: 0 };
        }
        block.received |= 1 << (packet % BLOCK);
        if behind {
            block.due = REPORTS;
        }
    }

    /// Returns the next block to report on, when `largest` is the latest packet that arrived: the distance of the block's
    /// last packet from the one before `largest`, and a bit for each packet of the block, the last one first.
    pub fn poll_report(&mut self, largest: u64) -> Option<(u16, u128)> {
        let count = self.blocks.len();
        let index = (self.turn..self.turn + count).map(|index| index % count.max(1));
        let index = index.into_iter().find(|index| self.blocks[*index].is_due(largest))?;
        let block = &mut self.blocks[index];
        block.due -= 1;
        self.turn = index + 1;
        Some((block.back(largest)?, block.received.reverse_bits()))
    }

    /// Returns whether a report is due, when `largest` is the latest packet that arrived.
    pub fn is_due(&self, largest: u64) -> bool {
        self.blocks.iter().any(|block| block.is_due(largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packet 130, in the block from 128 to 255, arrives after packet 1000. The packet before 1000 is 744 after the last
    /// of the block, whose bit is the first: that of 130 has the index 125.
    #[test]
    fn late_packets_are_reported_twice() {
        let mut history = History::default();
        history.on_packet(1000, false);
        assert_eq!(history.poll_report(1000), None);
        history.on_packet(130, true);
        assert_eq!(history.poll_report(255), None, "the report on the latest packets covers the block");
        assert!(history.is_due(256) && !history.is_due(255));
        for _ in 0..2 {
            assert_eq!(history.poll_report(1000), Some((744, 1 << 125)));
        }
        assert_eq!(history.poll_report(1000), None);
    }

    #[test]
    fn forgotten_blocks_are_not_reported() {
        let mut history = History::default();
        history.on_packet(64 * 128, false);
        history.on_packet(5, true);
        assert_eq!(history.poll_report(64 * 128), None);
    }
}

//! Outstanding data: captured, and not acknowledged.

use std::collections::VecDeque;

use crate::half::Refused;
use crate::path::Sample;

/// Maximum number of outstanding pieces in one direction. Older ones are dropped.
const MOST: usize = 65_536;

/// A piece of captured data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Number of the piece's first byte.
    pub seq: u64,
    /// Number after the piece's last byte.
    pub end: u64,
    /// Time at which the piece last passed.
    pub time: i64,
    /// Number of the packet in which the piece last passed.
    pub number: u64,
    /// Bytes sent on this path up to its end.
    pub volume: u64,
    /// Bytes on the wire.
    pub wire: u32,
    /// Timestamp of the sender.
    pub stamp: Option<u32>,
    /// Number of times that the piece passed.
    pub passed: u32,
    /// True if the piece was selectively acknowledged.
    pub sacked: bool,
    /// True if the piece is assumed to have arrived, because of a duplicate acknowledgment.
    pub guessed: bool,
    /// Latest loss of the piece: index into the direction's losses.
    pub loss: Option<usize>,
    /// Arrivals before and after this piece.
    pub around: Option<Around>,
    /// Bytes of payload of the packet in which the piece last passed.
    pub packet_len: u32,
    /// True if the piece arrived beyond the receiver's window.
    pub refused: Option<Refused>,
    /// True if the piece begins where the packet of its first transmission did.
    pub begins: bool,
    /// IPv4 identification of the piece's last transmission.
    pub identification: Option<u16>,
    /// True if the receiver, at which the capture was taken, may have had the packet and delayed its acknowledgment
    /// when it last passed.
    pub may_be_held: bool,
}

/// Arrivals that bound the time of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Around {
    /// Last arrival before.
    pub before: Option<Sample>,
    /// First arrival after.
    pub after: Option<Sample>,
    /// Bytes between these two arrivals that did not arrive.
    pub missing: u64,
    /// Nanoseconds between the transmissions of the first and the last of the packets that were lost in a row with this
    /// one ([`crate::loss::put_rows`]).
    pub row: i64,
}

/// Outstanding pieces of one direction, in order of sequence numbers.
#[derive(Clone, Debug, Default)]
pub struct OnTheWay {
    pieces: VecDeque<Sent>,
    forgotten: u64,
}

impl OnTheWay {
    /// Returns whether there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of pieces beyond the limit.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Frees the memory.
    pub fn clear(&mut self) {
        self.pieces = VecDeque::new();
    }

    /// Returns the index of the first piece that ends after `seq`.
    pub fn at(&self, seq: u64) -> usize {
        self.pieces.partition_point(|piece| piece.end <= seq)
    }

    /// Returns the piece at an index.
    pub fn get(&self, index: usize) -> Option<&Sent> {
        self.pieces.get(index)
    }

    /// Returns the piece at an index.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Sent> {
        self.pieces.get_mut(index)
    }

    /// Removes the first piece.
    pub fn pop(&mut self) -> Option<Sent> {
        self.pieces.pop_front()
    }

    /// Removes the last piece.
    pub fn pop_back(&mut self) -> Option<Sent> {
        self.pieces.pop_back()
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Adds a piece that overlaps no other.
    pub fn insert(&mut self, piece: Sent) {
        match self.pieces.back() {
            Some(last) if last.end > piece.seq => {
                let index = self.at(piece.seq);
                self.pieces.insert(index, piece);
            }
            _ => self.pieces.push_back(piece),
        }
        if self.pieces.len() > MOST {
            self.pieces.pop_front();
            self.forgotten += 1;
        }
    }

    /// Splits the piece that contains `seq`, so that one begins there.
    pub fn cut(&mut self, seq: u64) {
        let index = self.at(seq);
        let Some(piece) = self.pieces.get_mut(index).filter(|piece| piece.seq < seq) else { return };
        let mut front = *piece;
        let share = (seq - piece.seq) as f64 / (piece.end - piece.seq) as f64;
        front.wire = (f64::from(piece.wire) * share) as u32;
        front.end = seq;
        piece.seq = seq;
        piece.begins = false;
        piece.wire -= front.wire;
        front.volume = piece.volume.saturating_sub(u64::from(piece.wire));
        self.pieces.insert(index, front);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seq: u64, end: u64) -> Sent {
        Sent {
            seq,
            end,
            time: 0,
            number: 1,
            volume: end,
            wire: (end - seq) as u32,
            stamp: None,
            passed: 1,
            sacked: false,
            guessed: false,
            loss: None,
            around: None,
            packet_len: (end - seq) as u32,
            refused: None,
            begins: true,
            identification: None,
            may_be_held: false,
        }
    }

    #[test]
    fn pieces_are_cut_and_stay_in_order() {
        let mut sent = OnTheWay::default();
        for (seq, end) in [(100, 200), (300, 400), (200, 300)] {
            sent.insert(piece(seq, end));
        }
        sent.cut(250);
        sent.cut(300);
        sent.cut(50);
        let edges: Vec<_> = (0..4)
            .map(|index| sent.get(index).map(|piece| (piece.seq, piece.end, piece.volume, piece.wire)).unwrap())
            .collect();
        assert_eq!(edges, [(100, 200, 200, 100), (200, 250, 250, 50), (250, 300, 300, 50), (300, 400, 400, 100)]);
        assert_eq!((sent.at(249), sent.at(250), sent.at(400)), (1, 2, 4));
    }
}

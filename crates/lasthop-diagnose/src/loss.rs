//! Losses and their properties.

use serde::Serialize;

use crate::sent::Around;

/// Maximum number of recorded losses of one direction. Later ones are only counted.
pub const MOST_LOSSES: usize = 50_000;
/// Maximum number of earlier losses that are searched for a report of duplicate data.
const LOOK_BACK: usize = 512;

/// Way in which a sender detected a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Acknowledgments of later data.
    Fast,
    /// A probe after two round trips of silence (RFC 8985 §7).
    Probe,
    /// The retransmission timer.
    Timeout,
}

/// Part of the path on which a packet was lost, relative to the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Between the sender and the capture.
    Before,
    /// Between the capture and the receiver.
    Beyond,
}

/// Last cause of a reduction of the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// No reduction yet.
    None,
    /// Loss with this index.
    Loss(usize),
    /// A congestion mark.
    Mark,
}

/// Reason for which a retransmission was needless.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needless {
    /// The receiver reported the data as duplicate (RFC 2883).
    ReportedTwice,
    /// The acknowledgment echoes the timestamp of the first transmission (RFC 3522).
    EchoesTheFirst,
    /// The acknowledgment arrived sooner than an acknowledgment of the retransmission could.
    AnsweredTooSoon,
    /// The sender retransmitted before it could know the fate of the packet.
    SentTooSoon,
    /// The receiver, where the capture was taken, delayed its acknowledgment.
    AcknowledgmentDelayed,
    /// Acknowledgments cover the earlier packets one by one: the receiver lacked none of them.
    AcknowledgedInOrder,
    /// A duplicate acknowledgment answers the retransmission (RFC 9293 §3.10.7.4).
    AnsweredTwice,
    /// The packet had reached the receiver, where the capture was taken.
    Captured,
    /// The packet was not retransmitted: the IPv4 identification shows that the packet was reordered.
    Overtaken,
}

/// A retransmitted packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    /// Number of the lost packet in the capture; for a packet lost before the capture, that of the packet that revealed
    /// the loss.
    pub number: u64,
    /// Number of the packet that retransmitted its data.
    pub repaired_by: u64,
    /// Time at which the packet passed, or at which it was noticed to be missing.
    pub time: i64,
    /// First sequence number, as on the wire.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Bytes on the wire.
    pub wire: u32,
    /// Bytes sent on this path up to its end.
    pub volume: u64,
    /// Number of times that the data had passed.
    pub passed: u32,
    /// Way in which the sender detected the loss.
    pub repair: Repair,
    /// Part of the path.
    pub side: Side,
    /// Arrivals before and after the loss.
    pub around: Around,
    /// Bytes of payload of the whole packet, of which `len` may be only a part.
    pub packet_len: u32,
    /// True if the IPv4 identification shows that the packet that filled the gap was sent before the one that revealed
    /// it.
    pub sent_before: Option<bool>,
}

/// A loss, or a needless retransmission.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// Observed retransmission.
    pub seen: Seen,
    /// Reason why the packet was not lost.
    pub needless: Option<Needless>,
    /// Nanoseconds for which the loss reduced the congestion window.
    pub charged: i64,
}

/// Losses of one direction.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    list: Vec<Loss>,
    left_out: u64,
    /// Nanoseconds for which marks reduced the congestion window.
    after_marks: i64,
}

impl Losses {
    /// Returns the losses in the order in which they were noticed.
    pub fn list(&self) -> &[Loss] {
        &self.list
    }

    /// Returns the number of losses beyond the limit.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the nanoseconds for which marks reduced the congestion window.
    pub const fn after_marks(&self) -> i64 {
        self.after_marks
    }

    /// Adds a loss, and returns its index.
    pub fn add(&mut self, seen: Seen) -> Option<usize> {
        if self.list.len() >= MOST_LOSSES {
            self.left_out += 1;
            return None;
        }
        self.list.push(Loss { seen, needless: None, charged: 0 });
        Some(self.list.len() - 1)
    }

    /// Adds a loss, or extends the newest one if this is another piece of the same packet, which has at most `mss`
    /// bytes. Returns whether it extended a loss, and the index of the loss.
    pub fn add_part(&mut self, seen: Seen, mss: u32) -> (bool, Option<usize>) {
        let last = self.list.last_mut().filter(|last| {
            let before = &last.seen;
            if seen.side == Side::Before {
                // The sizes of the missing packets are unknown.
                return false;
            }
            let is_next = before.seq.wrapping_add(before.len) == seen.seq;
            let is_same = (before.number, before.side) == (seen.number, seen.side);
            is_next && is_same && last.needless.is_none() && before.len.saturating_add(seen.len) <= mss
        });
        let Some(last) = last else { return (false, self.add(seen)) };
        last.seen.len += seen.len;
        last.seen.wire = last.seen.wire.saturating_add(seen.wire);
        last.seen.volume = seen.volume;
        (true, Some(self.list.len() - 1))
    }

    /// Withdraws losses if the packet that filled the gap was sent before the one that revealed it. Returns their
    /// number, and the packets that revealed the gaps.
    pub fn overtaken(&mut self) -> (u64, Vec<u64>) {
        let mut numbers = Vec::new();
        let mut count = 0;
        for loss in &mut self.list {
            if loss.needless.is_none() && loss.seen.sent_before == Some(true) {
                loss.needless = Some(Needless::Overtaken);
                count += 1;
                numbers.push(loss.seen.number);
            }
        }
        (count, numbers)
    }

    /// Adds the nanoseconds for which the congestion window was reduced to their cause.
    pub fn charge(&mut self, to: Reduction, nanos: i64) {
        match to {
            Reduction::Loss(index) => {
                if let Some(loss) = self.list.get_mut(index) {
                    loss.charged = loss.charged.saturating_add(nanos);
                }
            }
            Reduction::Mark => self.after_marks = self.after_marks.saturating_add(nanos),
            Reduction::None => {}
        }
    }

    /// Marks a loss as needless retransmission.
    pub fn mark_needless(&mut self, index: usize, why: Needless) {
        if let Some(loss) = self.list.get_mut(index) {
            loss.needless.get_or_insert(why);
        }
    }

    /// Handles a receiver's report of duplicate data: the newest retransmission of these bytes was needless. Returns
    /// whether there was one. A report may cover several packets; of retransmissions of the same bytes, it covers one.
    pub fn needless(&mut self, seq: u32, len: u32, why: Needless) -> bool {
        let from = self.list.len().saturating_sub(LOOK_BACK);
        let overlap = |one: (u32, u32), other: (u32, u32)| {
            one.0.wrapping_sub(other.0) < other.1 || other.0.wrapping_sub(one.0) < one.1
        };
        let mut left = i64::from(len);
        let mut marked: Vec<(u32, u32)> = Vec::new();
        for loss in self.list[from..].iter_mut().rev().filter(|loss| loss.needless.is_none()) {
            let range = (loss.seen.seq, loss.seen.len);
            if !overlap(range, (seq, len)) || marked.iter().any(|&before| overlap(range, before)) {
                continue;
            }
            loss.needless = Some(why);
            marked.push(range);
            left -= i64::from(loss.seen.len);
            if left <= 0 {
                break;
            }
        }
        left < i64::from(len)
    }
}

/// Finds rows of losses, which are packets sent back to back. A receiver's blocks name only a few of many ranges that
/// arrived between losses, so a packet that was not retransmitted later is not lost.
pub fn put_rows(losses: &mut [Seen]) {
    let mut order: Vec<&mut Seen> = losses.iter_mut().filter(|seen| seen.side == Side::Beyond).collect();
    order.sort_by_key(|seen| seen.volume);
    for row in order.chunk_by_mut(|one, next| next.volume.checked_sub(u64::from(next.wire)) == Some(one.volume)) {
        let lasted = row[row.len() - 1].time.saturating_sub(row[0].time);
        row.iter_mut().for_each(|seen| seen.around.row = lasted);
    }
}

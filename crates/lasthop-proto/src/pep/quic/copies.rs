//! Copies of the datagrams sent to the hop, and the budget for resending them.

use alloc::collections::VecDeque;

use crate::packet::Packet;
use crate::time::Instant;

/// Maximum number of datagrams of a flow with a copy.
const MOST_COPIES: usize = 1024;

/// Number of datagrams of a size after which the path is known to carry it: path MTU probes are not resent.
const PROVEN: u8 = 3;

/// Bytes that may be resent for each 100 bytes of the flow.
const SHARE: u64 = 10;

/// A datagram sent to the hop.
#[derive(Clone, Debug)]
pub(super) struct Sent<P> {
    /// Estimated time at which its transmission began.
    pub departs: Instant,
    /// Number of frames that waited in front of the hop.
    pub waiting: usize,
    /// Time at which it was last resent.
    pub resent_at: Option<Instant>,
    pub packet: Packet<P>,
}

/// The last datagrams of a flow, numbered in order.
#[derive(Clone, Debug)]
pub(super) struct Copies<P> {
    first: u64,
    sent: VecDeque<Sent<P>>,
    bytes: u64,
    /// Bytes of the flow towards the hop.
    pub total: u64,
    /// Bytes resent.
    pub resent: u64,
    /// The largest size, and the number of datagrams of that size.
    largest: (u32, u8),
    /// The largest size that is known to pass.
    proven: u32,
}

impl<P> Copies<P> {
    pub fn new() -> Self {
        Self { first: 0, sent: VecDeque::new(), bytes: 0, total: 0, resent: 0, largest: (0, 0), proven: 0 }
    }

    /// Returns the number of bytes stored.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns the number of the next datagram.
    pub fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Stores a datagram, and discards the oldest ones beyond `limit` bytes.
    pub fn push(&mut self, limit: u64, sent: Sent<P>) {
        let len = sent.packet.len;
        self.total += u64::from(len);
        if len == self.largest.0 {
            self.largest.1 = self.largest.1.saturating_add(1);
        } else if len > self.largest.0 {
            self.largest = (len, 1);
        }
        if self.largest.1 >= PROVEN {
            self.proven = self.largest.0;
        }
        self.bytes += u64::from(sent.packet.wire_len());
        let departs = self.sent.back().map_or(sent.departs, |last| last.departs.max(sent.departs));
        self.sent.push_back(Sent { departs, ..sent });
        while self.bytes > limit || self.sent.len() > MOST_COPIES {
            self.discard_first();
        }
    }

    fn discard_first(&mut self) {
        if let Some(gone) = self.sent.pop_front() {
            self.first += 1;
            self.bytes -= u64::from(gone.packet.wire_len());
        }
    }

    /// Discards all copies. The numbers go on.
    pub fn clear(&mut self) {
        self.first = self.next();
        self.sent.clear();
        self.bytes = 0;
    }

    pub fn get(&self, number: u64) -> Option<&Sent<P>> {
        self.sent.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Sent<P>> {
        self.sent.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Returns the number of the datagram that began transmission closest to `at`; `None` if there is none or all are
    /// later by more than a packet.
    pub fn closest(&self, at: Instant) -> Option<u64> {
        let after = self.sent.partition_point(|sent| sent.departs <= at);
        let before = after.checked_sub(1)?;
        let distance =
            |index: usize| self.sent.get(index).map(|sent| sent.departs.since(at).max(at.since(sent.departs)));
        let index = match (distance(before), distance(after)) {
            (Some(early), Some(late)) if late < early => after,
            _ => before,
        };
        Some(self.first + index as u64)
    }

    /// Returns whether the budget and the path permit resending the datagram with this number.
    pub fn may_resend(&self, number: u64) -> bool {
        self.get(number).is_some_and(|sent| {
            let spent = self.resent + u64::from(sent.packet.len);
            sent.packet.len <= self.proven && spent * 100 <= self.total * SHARE
        })
    }
}

impl<P: Clone> Copies<P> {
    /// Returns a copy to send, if [`Self::may_resend`] permits it.
    pub fn resend(&mut self, now: Instant, number: u64) -> Option<Packet<P>> {
        if !self.may_resend(number) {
            return None;
        }
        let sent = self.get_mut(number)?;
        sent.resent_at = Some(now);
        let packet = sent.packet.clone();
        self.resent += u64::from(packet.len);
        Some(packet)
    }
}

//! Losses shown by duplicate acknowledgments that report no arrivals ([`Reports::Unseen`]).
//!
//! Each duplicate stems from a packet that arrived above the hole at the last acknowledgment, or from a spurious copy.
//! The counts below tell these apart.

use super::super::cache::Origin;
use super::super::snoop_config::SnoopConfig;
use super::link_rtt::FLOOR;
use super::{Outbox, Repair, Reports, given_up};
use crate::node::Trigger;
use crate::packet::Payload;
use crate::seq::Seq;
use crate::time::Instant;

/// Counts of duplicate acknowledgments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duplicates {
    /// Number of packets known to have arrived above the hole: one per duplicate.
    above: u32,
    /// Number of duplicates that packets sent before the last local retransmission may still cause.
    expected: u32,
    /// Number of duplicates that spurious copies may still cause.
    spurious: u32,
    /// Acknowledgment above which these end.
    spurious_end: Seq,
}

impl Duplicates {
    pub const fn new(start: Seq) -> Self {
        Self { above: 0, expected: 0, spurious: 0, spurious_end: start }
    }

    /// Records that `copies` spurious copies are in flight, while data ends at `high`.
    pub fn expect_spurious(&mut self, copies: u32, high: Seq) {
        if copies > 0 {
            self.spurious = self.spurious.saturating_add(copies);
            self.spurious_end = high;
        }
    }

    /// Forgets spurious copies of data that was in flight before all of it was acknowledged.
    pub fn end_spurious(&mut self, ack: Seq) {
        if self.spurious_end.lt(ack) {
            (self.spurious, self.spurious_end) = (0, ack);
        }
    }

    /// Returns whether a duplicate was caused by a spurious copy, and counts it.
    fn take_spurious(&mut self) -> bool {
        let is_spurious = self.spurious > 0;
        self.spurious = self.spurious.saturating_sub(1);
        is_spurious
    }

    /// Returns whether exactly one packet is known to have arrived above the hole.
    pub fn is_single(&self) -> bool {
        self.above == 1
    }

    /// Returns the number of packets known to have arrived above the hole.
    pub fn above(&self) -> u32 {
        self.above
    }
}

impl<P: Payload> Repair<P> {
    /// Records that `copies` spurious copies are in flight.
    pub(super) fn expect_spurious(&mut self, copies: u32) {
        self.duplicates.expect_spurious(copies, self.stream.high);
    }

    /// Moves on to the hole at `ack`, after an acknowledgment has removed `packets`.
    pub(super) fn repair_next_hole(&mut self, now: Instant, ack: Seq, packets: u32, out: &mut Outbox<P>) {
        // All packets removed beyond the hole itself had arrived. The remaining duplicates stem from packets above the
        // next hole, so the next hole belongs to the same burst ([a]). Without this check, packets still queued would
        // be declared lost.
        self.duplicates.above = self.duplicates.above.saturating_sub(packets.saturating_sub(1));
        self.duplicates.expected = 0;
        let burst = self.duplicates.above > 0
            && packets > 0
            && self.detection.reports == Reports::Unseen
            && !self.is_left_to_sender(now);
        match self.cache.front() {
            Some(front) if burst && front.covers(ack) && !front.sent_again() => {
                self.resend(now, 0, Trigger::Duplicates, out);
                self.expect_duplicates();
            }
            _ => self.duplicates.above = 0,
        }
    }

    /// Handles a duplicate acknowledgment without a report. Returns whether the loss that it indicates is being repaired
    /// here.
    pub(super) fn on_duplicate(&mut self, now: Instant, config: &SnoopConfig, ack: Seq, out: &mut Outbox<P>) -> bool {
        let Some(front) = self.cache.front() else { return false };
        if !front.covers(ack) || front.origin == Origin::Resent || given_up(front, config) {
            return false;
        }
        if self.duplicates.take_spurious() {
            return true;
        }
        self.duplicates.above = self.duplicates.above.saturating_add(1);
        if front.local == 0 {
            if self.duplicates.above < config.dupack_threshold {
                return false;
            }
            self.resend(now, 0, Trigger::Duplicates, out);
            self.expect_duplicates();
            return true;
        }
        // The hop preserves order, so a duplicate beyond those that earlier packets can cause stems from a packet
        // behind the retransmission, which is therefore lost. The same holds if duplicates still arrive a round trip
        // later.
        let age = now.since(front.last_sent);
        if age >= self.rtt.round_trip(config) || (self.duplicates.expected == 0 && age >= FLOOR) {
            self.resend(now, 0, Trigger::Duplicates, out);
            self.expect_duplicates();
        } else {
            self.duplicates.expected = self.duplicates.expected.saturating_sub(1);
        }
        true
    }

    /// Starts to count the duplicates that packets sent before a retransmission of the oldest packet may cause.
    pub(super) fn expect_duplicates(&mut self) {
        let others = (self.cache.len() as u32).saturating_sub(1);
        self.duplicates.expected = others.saturating_sub(self.duplicates.above);
    }
}

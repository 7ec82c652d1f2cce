//! Holes by what the mobile host says has arrived: SACK blocks, or the SMART number ([`crate::scheme::LocalDetection::Smart`]).

use super::super::cache::Whereabouts;
use super::super::snoop_config::SnoopConfig;
use super::{Outbox, Repair, given_up};
use crate::packet::{Body, Cause, Packet, SackBlocks, Segment};
use crate::seq::Seq;
use crate::time::Instant;

/// Whether this mobile host tells what arrived above a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Masks {
    Unseen,
    Seen,
}

impl<P: Clone> Repair<P> {
    /// Marks what the SMART number or the SACK blocks say has arrived; whether they said anything.
    pub(super) fn take_masks(&mut self, now: Instant, ack: Seq, segment: &Segment) -> bool {
        let mut said = false;
        if let Some(smart) = segment.options.smart {
            self.masks = Masks::Seen;
            if smart.ge(ack) && smart.lt(self.high) {
                said = true;
                let index = self.cache.index_after(smart);
                if self.cache.get_mut(index).is_some_and(|packet| packet.covers(smart)) {
                    self.mark(now, index);
                }
            }
        }
        let old = core::mem::replace(&mut self.blocks, segment.options.sack);
        for block in segment.options.sack.as_slice() {
            if !(ack.lt(block.left) && block.left.lt(block.right) && block.right.le(self.high)) {
                continue;
            }
            self.masks = Masks::Seen;
            said = true;
            // A block usually is an earlier one grown at its right end: only the growth is news.
            let known = old.as_slice().iter().find(|old| old.left == block.left && old.right.le(block.right));
            let mut index = match known {
                Some(old) if old.right.gt(old.left) => self.cache.index_after(old.right),
                _ => self.cache.index_from(block.left),
            };
            while let Some(packet) = self.cache.get_mut(index)
                && packet.end.le(block.right)
            {
                if packet.seq.ge(block.left) {
                    self.mark(now, index);
                }
                index += 1;
            }
        }
        said
    }

    fn mark(&mut self, now: Instant, index: usize) {
        if let Some(packet) = self.cache.get_mut(index) {
            let before = core::mem::replace(&mut packet.whereabouts, Whereabouts::Arrived);
            let seq = packet.seq;
            if let Some(hop) = &mut self.hop
                && before == Whereabouts::OnHop
            {
                hop.landed(packet.packet.len.into());
                if !packet.sent_again() {
                    hop.sample(now, packet.last_sent, seq, self.high);
                }
                // What comes behind a repair that is lost shows the loss, so that the timer is for when nothing comes.
                self.progress = now;
            }
            self.highest_marked = Some(self.highest_marked.map_or(seq, |highest| highest.max(seq)));
        }
    }

    /// Resends every unmarked packet below the highest marked one: at once, then at most once per link round trip.
    pub(super) fn resend_holes(&mut self, now: Instant, config: &SnoopConfig, out: &mut Outbox<P>) {
        let Some(highest) = self.highest_marked else { return };
        // Where flow control keeps the order in view, a retransmission is lost once something sent later has arrived.
        let due = match &self.hop {
            Some(hop) => hop.outrun(self.recheck),
            None => now >= self.recheck,
        };
        if !due && self.scanned_to.ge(highest) {
            return;
        }
        let mut index = if due { 0 } else { self.cache.index_from(self.scanned_to) };
        let mut recheck = if due { Instant::FAR_FUTURE } else { self.recheck };
        let round_trip = self.rtt.round_trip(config);
        while let Some(packet) = self.cache.get_mut(index)
            && packet.seq.lt(highest)
        {
            if packet.whereabouts == Whereabouts::OnHop {
                let under_way = packet.sent_again()
                    && match &self.hop {
                        Some(hop) => !hop.outrun(packet.last_sent),
                        None => now.since(packet.last_sent) < round_trip,
                    };
                let resent = if under_way {
                    packet.last_sent
                } else {
                    self.resend(now, index, Cause::LocalHole, out);
                    now
                };
                recheck = recheck.min(if self.hop.is_some() { resent } else { resent + round_trip });
            }
            index += 1;
        }
        self.recheck = recheck;
        self.scanned_to = self.scanned_to.max(highest);
    }

    /// Whether all holes that the mobile host has are repaired here, so that the sender need not know.
    pub(super) fn repairs_all(&self, config: &SnoopConfig, ack: Seq) -> bool {
        self.cache.front().is_some_and(|front| front.covers(ack) && front.local > 0 && !given_up(front, config))
            && self.highest_marked.is_none_or(|highest| self.cache.is_whole_below(highest))
            && (self.hop.is_some() || !self.cache.any_resent())
    }
}

/// Takes the SACK blocks out of an acknowledgment that must pass: they show holes that are being repaired here.
pub(super) fn hide_blocks<P>(packet: &mut Packet<P>) {
    if let Body::Tcp(segment) = &mut packet.body {
        let before = segment.options.wire_len();
        segment.options.sack = SackBlocks::default();
        let saved = before - segment.options.wire_len();
        packet.header_len = packet.header_len.saturating_sub(saved);
    }
}

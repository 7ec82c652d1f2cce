//! Holes shown by the mobile host's reports of arrivals: SACK blocks, or the SMART number
//! ([`crate::pep::snoop::LocalDetection::Smart`]).

use super::super::cache::{Cached, Origin, Whereabouts};
use super::super::snoop_config::{Begin, SnoopConfig};
use super::{Repair, Reports, given_up, is_too_soon};
use crate::packet::{Body, Packet, Payload, SackBlock, SackBlocks, Segment};
use crate::seq::Seq;
use crate::time::Instant;

/// Maximum number of cached packets that one acknowledgment examines. Bounds its cost.
const MOST_STEPS: u32 = 256;

impl<P: Payload> Repair<P> {
    /// Marks packets that the SMART number or the SACK blocks report as arrived. Returns whether there was a report,
    /// and the number of packets newly marked.
    pub(super) fn take_reports(&mut self, now: Instant, ack: Seq, segment: &Segment) -> (bool, u32) {
        let (mut said, mut marked, mut steps) = (false, 0, MOST_STEPS);
        if let Some(smart) = segment.options.smart {
            self.detection.reports = Reports::Seen;
            if smart.ge(ack) && smart.lt(self.stream.high) {
                said = true;
                let index = self.cache.index_after(smart);
                if self.cache.get_mut(index).is_some_and(|packet| packet.covers(smart)) {
                    marked += self.mark(now, index);
                }
            }
        }
        let old = core::mem::take(&mut self.detection.blocks);
        for block in segment.options.sack.as_slice() {
            if !(ack.lt(block.left) && block.left.lt(block.right) && block.right.le(self.stream.high)) {
                continue;
            }
            self.detection.reports = Reports::Seen;
            said = true;
            // A block usually is an earlier one extended at its right end: only the extension is new.
            let known = old.as_slice().iter().find(|old| old.left == block.left && old.right.le(block.right));
            let mut index = match known {
                Some(old) if old.right.gt(old.left) => self.cache.index_after(old.right),
                _ => self.cache.index_from(block.left),
            };
            let mut looked_at = block.right;
            while let Some(packet) = self.cache.get_mut(index)
                && packet.end.le(block.right)
            {
                if steps == 0 {
                    // The rest follows with the next acknowledgment, which contains the block again.
                    looked_at = packet.seq;
                    break;
                }
                steps -= 1;
                if packet.seq.ge(block.left) {
                    marked += self.mark(now, index);
                }
                index += 1;
            }
            self.detection.blocks.push(SackBlock { left: block.left, right: looked_at });
        }
        (said, marked)
    }

    /// Marks a packet as arrived. Returns 1 if that is new, otherwise 0.
    fn mark(&mut self, now: Instant, index: usize) -> u32 {
        let Some(packet) = self.cache.get_mut(index) else { return 0 };
        let before = core::mem::replace(&mut packet.whereabouts, Whereabouts::Arrived);
        let seq = packet.seq;
        self.detection.highest_marked = Some(self.detection.highest_marked.map_or(seq, |highest| highest.max(seq)));
        if before == Whereabouts::Arrived {
            return 0;
        }
        if before == Whereabouts::OnHop {
            self.sizes.arrived(packet.len, packet.last_sent);
            self.detection.order.arrive(packet, is_too_soon(&self.rtt, now, packet));
            if !packet.sent_again() {
                self.rtt.first_sample(now.since(packet.last_sent));
            }
        }
        if let Some(hop) = &mut self.hop {
            if before == Whereabouts::OnHop {
                hop.landed(packet.len.into());
            } else {
                hop.unheld(packet.len);
            }
            if before == Whereabouts::OnHop && !packet.sent_again() {
                hop.sample(now, packet.crossing(), seq, self.stream.high);
            }
        }
        self.on_arrival(now);
        1
    }

    /// Takes back reported arrivals that turned out to be wrong. A mobile host short of memory may discard data that it
    /// has reported (RFC 2018 §8), as Linux does (`tcp_prune_ofo_queue`). This shows when the oldest packet counts as
    /// arrived, and nothing is acknowledged. Then only its last blocks still count.
    pub(super) fn handle_reneging(&mut self) {
        let (Some(front), Some(last_ack)) = (self.cache.front(), self.stream.last_ack) else { return };
        if front.whereabouts != Whereabouts::Arrived || !front.covers(last_ack) {
            return;
        }
        for index in 0..MOST_STEPS as usize {
            let Some(packet) = self.cache.get_mut(index) else { break };
            let named = |block: &SackBlock| packet.seq.ge(block.left) && packet.end.le(block.right);
            if packet.whereabouts == Whereabouts::Arrived && !self.detection.blocks.as_slice().iter().any(named) {
                packet.whereabouts = Whereabouts::OnHop;
                let len = packet.len;
                if let Some(hop) = &mut self.hop {
                    hop.sent(len);
                }
            }
        }
    }

    /// Returns whether all of the mobile host's holes are repaired here, so that the sender need not know of them. If
    /// repair begins with a silence, the sender's timer has resent some of them too.
    pub(super) fn repairs_all(&self, config: &SnoopConfig, ack: Seq) -> bool {
        let in_hand = |front: &Cached<P>| front.local > 0 || self.may_be_late(front);
        self.cache.front().is_some_and(|front| front.covers(ack) && in_hand(front) && !given_up(front, config))
            && self.detection.highest_marked.is_none_or(|highest| self.cache.is_whole_below(highest))
            && (self.hop.is_some() || config.begin == Begin::AfterSilence || !self.cache.any_resent())
    }

    /// Checks, when the oldest packet has arrived, whether one that left later had arrived before it.
    pub(super) fn detect_reordering(&mut self, now: Instant) {
        let (Some(front), Some(last_ack), Some(_)) = (self.cache.front(), self.stream.last_ack, &self.hop) else {
            return;
        };
        if self.detection.reports == Reports::Unseen || !front.covers(last_ack) || front.origin == Origin::Resent {
            return;
        }
        match front.local {
            0 if self.detection.order.is_lost_by_order(front) => self.detection.reordering.waited(now),
            // Packets resent by the timer are handled elsewhere.
            1 if front.unproven == 0 && is_too_soon(&self.rtt, now, front) => {
                self.detection.reordering.needless(now, &self.rtt)
            }
            _ => {}
        }
    }

    /// Returns whether a packet may only be reordered, and is retransmitted after the reordering delay.
    fn may_be_late(&self, cached: &Cached<P>) -> bool {
        self.hop.is_some() && self.schedule.reordered.is_some() && self.detection.order.is_lost_by_order(cached)
    }
}

/// Removes the SACK blocks from an acknowledgment that must pass: they report holes that are being repaired here.
pub(super) fn hide_blocks<P>(packet: &mut Packet<P>) {
    if let Body::Tcp(segment) = &mut packet.body {
        let before = segment.options.wire_len();
        segment.options.sack = SackBlocks::default();
        let saved = before - segment.options.wire_len();
        packet.header_len = packet.header_len.saturating_sub(saved);
    }
}

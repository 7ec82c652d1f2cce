//! Holes shown by the mobile host's reports of arrivals: SACK blocks, or the SMART number
//! ([`crate::pep::snoop::LocalDetection::Smart`]).

use super::super::cache::{Cached, Origin, Whereabouts};
use super::super::snoop_config::{Begin, SnoopConfig};
use super::{Outbox, Repair, given_up, is_too_soon};
use crate::node::Trigger;
use crate::packet::{Body, Packet, Payload, SackBlock, SackBlocks, Segment};
use crate::seq::Seq;
use crate::time::Instant;

/// Indicates whether this mobile host reports arrivals above a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Masks {
    Unseen,
    Seen,
}

/// Losses that remain after the allowed repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// Some are left.
    More,
    /// None are known yet.
    Nothing,
}

/// Maximum number of cached packets that one acknowledgment examines. Bounds its cost.
const MOST_STEPS: u32 = 256;

impl<P: Payload> Repair<P> {
    /// Marks packets that the SMART number or the SACK blocks report as arrived. Returns whether there was a report,
    /// and the number of packets newly marked.
    pub(super) fn take_masks(&mut self, now: Instant, ack: Seq, segment: &Segment) -> (bool, u32) {
        let (mut said, mut marked, mut steps) = (false, 0, MOST_STEPS);
        if let Some(smart) = segment.options.smart {
            self.masks = Masks::Seen;
            if smart.ge(ack) && smart.lt(self.stream.high) {
                said = true;
                let index = self.cache.index_after(smart);
                if self.cache.get_mut(index).is_some_and(|packet| packet.covers(smart)) {
                    marked += self.mark(now, index);
                }
            }
        }
        let old = core::mem::take(&mut self.blocks);
        for block in segment.options.sack.as_slice() {
            if !(ack.lt(block.left) && block.left.lt(block.right) && block.right.le(self.stream.high)) {
                continue;
            }
            self.masks = Masks::Seen;
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
            self.blocks.push(SackBlock { left: block.left, right: looked_at });
        }
        (said, marked)
    }

    /// Marks a packet as arrived. Returns 1 if that is new, otherwise 0.
    fn mark(&mut self, now: Instant, index: usize) -> u32 {
        let Some(packet) = self.cache.get_mut(index) else { return 0 };
        let before = core::mem::replace(&mut packet.whereabouts, Whereabouts::Arrived);
        let seq = packet.seq;
        self.highest_marked = Some(self.highest_marked.map_or(seq, |highest| highest.max(seq)));
        if before == Whereabouts::Arrived {
            return 0;
        }
        if before == Whereabouts::OnHop {
            self.sizes.arrived(packet.len, packet.last_sent);
            self.order.arrive(packet, is_too_soon(&self.rtt, now, packet));
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
        self.heard(now);
        1
    }

    /// Takes back reported arrivals that turned out to be wrong. A mobile host short of memory may discard data that it
    /// has reported (RFC 2018 §8), as Linux does (`tcp_prune_ofo_queue`). This shows when the oldest packet counts as
    /// arrived, and nothing is acknowledged. Then only its last blocks still count.
    pub(super) fn take_back_marks(&mut self) {
        let (Some(front), Some(last_ack)) = (self.cache.front(), self.stream.last_ack) else { return };
        if front.whereabouts != Whereabouts::Arrived || !front.covers(last_ack) {
            return;
        }
        for index in 0..MOST_STEPS as usize {
            let Some(packet) = self.cache.get_mut(index) else { break };
            let named = |block: &SackBlock| packet.seq.ge(block.left) && packet.end.le(block.right);
            if packet.whereabouts == Whereabouts::Arrived && !self.blocks.as_slice().iter().any(named) {
                packet.whereabouts = Whereabouts::OnHop;
                let len = packet.len;
                if let Some(hop) = &mut self.hop {
                    hop.sent(len);
                }
            }
        }
    }

    /// Resends packets that are lost by transmission order, oldest first and at most `most`. The rest is sent with the
    /// next arrivals, or spaced.
    pub(super) fn resend_lost(&mut self, now: Instant, most: u32, out: &mut Outbox<P>) -> Lost {
        let mut index = match self.walk.take() {
            Some(from) => self.cache.index_from(from),
            None if self.order.has_news() => {
                self.order.look();
                0
            }
            None => return Lost::Nothing,
        };
        let (patience, mut wait) = (self.reordering.patience(now, &self.rtt), Instant::FAR_FUTURE);
        let (mut left, mut steps) = (most, MOST_STEPS);
        while let Some(packet) = self.cache.get_mut(index) {
            let overtaken = packet.whereabouts == Whereabouts::OnHop && self.order.has_overtaken(packet);
            let due = packet.last_sent + patience;
            if overtaken && due > now {
                // It may only be late.
                wait = wait.min(due);
            }
            let lost =
                overtaken && due <= now || packet.whereabouts == Whereabouts::OnHop && self.order.has_timed_out(packet);
            if steps == 0 || (lost && left == 0) {
                self.walk = Some(packet.seq);
                break;
            }
            steps -= 1;
            if lost {
                left -= 1;
                let trigger = if self.order.has_timed_out(packet) { Trigger::Timer } else { Trigger::Hole };
                if trigger == Trigger::Hole && self.order.has_surely_overtaken(packet) {
                    self.reordering.repaired(now, packet.seq, &self.rtt);
                }
                self.resend(now, index, trigger, out);
            }
            let Some(packet) = self.cache.get_mut(index) else { break };
            match packet.whereabouts {
                Whereabouts::Arrived => {}
                // All later packets have not been sent yet.
                Whereabouts::Held => break,
                Whereabouts::OnHop => {
                    self.order.under_way(packet);
                    // A packet sent once is in order: all later packets left after it.
                    if !packet.sent_again() && !overtaken {
                        break;
                    }
                }
            }
            index += 1;
        }
        if wait != Instant::FAR_FUTURE {
            self.late = Some(self.late.map_or(wait, |late| late.min(wait)));
        }
        if self.walk.is_some() {
            let next = now + self.spacing();
            self.pace = Some(self.pace.map_or(next, |pace| pace.min(next)));
        }
        if self.walk.is_some() && left == 0 { Lost::More } else { Lost::Nothing }
    }

    /// Returns whether all of the mobile host's holes are repaired here, so that the sender need not know of them. If
    /// repair begins with a silence, the sender's timer has resent some of them too.
    pub(super) fn repairs_all(&self, config: &SnoopConfig, ack: Seq) -> bool {
        let in_hand = |front: &Cached<P>| front.local > 0 || self.may_be_late(front);
        self.cache.front().is_some_and(|front| front.covers(ack) && in_hand(front) && !given_up(front, config))
            && self.highest_marked.is_none_or(|highest| self.cache.is_whole_below(highest))
            && (self.hop.is_some() || config.begin == Begin::AfterSilence || !self.cache.any_resent())
    }

    /// Checks, when the oldest packet has arrived, whether one that left later had arrived before it.
    pub(super) fn watch_order(&mut self, now: Instant) {
        let (Some(front), Some(last_ack), Some(_)) = (self.cache.front(), self.stream.last_ack, &self.hop) else {
            return;
        };
        if self.masks == Masks::Unseen || !front.covers(last_ack) || front.origin == Origin::Resent {
            return;
        }
        match front.local {
            0 if self.order.has_overtaken(front) => self.reordering.waited(now),
            // Packets resent by the timer are handled elsewhere.
            1 if front.unproven == 0 && is_too_soon(&self.rtt, now, front) => self.reordering.needless(now, &self.rtt),
            _ => {}
        }
    }

    /// Returns whether a packet may only be reordered, and is retransmitted after the reordering delay.
    fn may_be_late(&self, cached: &Cached<P>) -> bool {
        self.hop.is_some() && self.late.is_some() && self.order.has_overtaken(cached)
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

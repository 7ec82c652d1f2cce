//! Acknowledgments from the mobile host: what they remove from the cache, and which of them the sender sees.

use super::super::cache::{Cached, Pace};
use super::super::snoop_config::{LocalDetection, SnoopConfig, TcpAwareness};
use super::reports::hide_blocks;
use super::{Burst, LEAST_REPAIRS, MOST_REPAIRS, Outbox, Repair, Reports, is_too_soon};
use crate::event::Event;
use crate::packet::{Flags, FlowId, Packet, Payload, Segment};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Time since the last arrival during which the base station may suppress acknowledgments and answer for the mobile
/// host.
const CERTAIN: Duration = Duration::from_secs(1);

/// Verdict on a packet from the mobile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum AckVerdict {
    /// Forward it.
    Forward,
    /// Suppress it.
    Hold,
    /// Forward it and drop the state: everything up to the FIN is acknowledged.
    Forget,
    /// Forward it and restart from it: the mobile host repeatedly acknowledges less than recorded.
    GoBack,
}

/// Position of the connection in the stream of data towards the mobile host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Last acknowledgment; `None` before the first.
    pub last_ack: Option<Seq>,
    /// One past the highest byte seen.
    pub high: Seq,
    /// Window field of the last acknowledgment.
    pub window: u16,
}

impl Stream {
    /// Returns whether the mobile host's window is closed. What is cached beyond its acknowledgment is then at most a
    /// probe.
    pub fn is_closed(&self) -> bool {
        self.last_ack.is_some() && self.window == 0
    }
}

impl<P: Payload> Repair<P> {
    /// Processes an acknowledgment and returns the verdict that applies if its signals are known.
    pub(super) fn judge_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &mut Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        let ack = segment.ack;
        self.answers.acknowledged(ack, self.stream.high);
        self.stream.high = self.stream.high.max(ack);
        let pure = packet.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        if let Some(last_ack) = self.stream.last_ack
            && ack.lt(last_ack)
        {
            return self.on_old_ack(now, config, packet.flow, pure, last_ack, out);
        }
        self.answers.stale = 0;
        if !segment.flags.has(Flags::SYN) {
            self.clamp_receive_window(packet);
        }
        let advanced = self.stream.last_ack != Some(ack);
        self.detection.order.kept = self.detection.reordering.kept(now);
        self.detection.order.begin();
        // RFC 5681 §2. Acknowledgments of a closed window answer probes and indicate no loss.
        let repeats = !advanced && pure && segment.window == self.stream.window && self.stream.window != 0;
        let duplicate = repeats && self.stream.high.gt(ack);
        self.stream.window = segment.window;
        if !duplicate && config.awareness == TcpAwareness::Aware {
            // After data from the mobile host, an older acknowledgment would look like a replay.
            self.answers.set(pure.then_some(&*packet));
        }
        self.rtt.opened(self.tracking.crossing(self.side));
        let mut arrived = 0;
        if advanced {
            arrived = self.advance(now, ack, out);
            if self.tracking.has_ended(self.side) && ack == self.tracking.next(self.side) {
                return AckVerdict::Forget;
            }
        }
        let smart = config.detection == LocalDetection::Smart;
        self.detection.reordering.heed(now, segment, &self.rtt);
        let (reported, marked) = if smart { self.take_reports(now, ack, segment) } else { (false, 0) };
        if self.is_left_to_sender(now) {
            return AckVerdict::Forward;
        }
        if self.detection.reports == Reports::Seen {
            let repairs = LEAST_REPAIRS + (arrived + marked).min(MOST_REPAIRS);
            self.schedule.burst = Burst::Allowed { since: now, repairs };
            self.resend_burst(now, out);
        }
        let is_spurious = smart && self.detection.copies.explain(segment);
        if is_spurious && self.repairs_alone(now) {
            self.on_returned_copy(now);
        }
        if repeats && is_spurious && !reported && config.awareness == TcpAwareness::Aware {
            return AckVerdict::Hold;
        }
        if duplicate {
            let repaired = if reported || (self.detection.reports == Reports::Seen && smart) {
                self.repairs_all(config, ack)
            } else {
                self.on_duplicate(now, config, ack, out)
            };
            if repaired && self.hides_losses(config) {
                return AckVerdict::Hold;
            }
            // With a timestamp older than the sender has seen, the answer would look like a replay.
            self.answers.restamp(segment.options.timestamps);
        } else if reported && pure && self.hides_losses(config) && self.repairs_all(config, ack) {
            hide_blocks(packet);
        }
        AckVerdict::Forward
    }

    /// Returns whether losses that are repaired here are hidden from the sender.
    fn hides_losses(&self, config: &SnoopConfig) -> bool {
        let tells =
            config.tells_congestion == Switch::On && self.hop.is_none() && self.detection.reports == Reports::Seen;
        config.awareness == TcpAwareness::Aware && !(tells && self.rtt.is_nearly_full())
    }

    fn on_old_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        flow: FlowId,
        pure: bool,
        last_ack: Seq,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        if !pure || config.awareness == TcpAwareness::Unaware || !self.is_certain(now) {
            return AckVerdict::Forward;
        }
        if self.answers.is_wrong() {
            return AckVerdict::GoBack;
        }
        out.events.push_back((flow, Event::Absorbed { seq: last_ack }));
        AckVerdict::Hold
    }

    /// Returns whether a reordered acknowledgment carries nothing that the sender needs: it is old, or the losses that
    /// it reports are repaired here.
    pub fn suppresses_reordered(&self, now: Instant, config: &SnoopConfig, ack: Seq) -> bool {
        let is_old = self.stream.last_ack.is_some_and(|last_ack| ack.lt(last_ack));
        config.awareness == TcpAwareness::Aware && self.is_certain(now) && (is_old || self.repairs_all(config, ack))
    }

    /// Discards the stored acknowledgment, so that it is not used to answer the sender.
    pub fn forget_answer(&mut self) {
        self.answers.forget();
    }

    /// Records that something has arrived.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.arrivals.progress(now);
        (self.backoff.doublings, self.schedule.unanswered) = (0, 0);
        self.schedule.silence = if self.holds() { Some(now + self.rtt.silence()) } else { self.overdue(now) };
    }

    /// Returns whether the mobile host's last acknowledgment may still be repeated to the sender. The time is limited,
    /// so that incorrect state cannot silence a connection.
    pub(super) fn is_certain(&self, now: Instant) -> bool {
        now.since(self.arrivals.progress) < CERTAIN && !self.is_left_to_sender(now)
    }

    /// Advances the cumulative acknowledgment to `ack` and returns the number of packets that this removes.
    fn advance(&mut self, now: Instant, ack: Seq, out: &mut Outbox<P>) -> u32 {
        // A single duplicate may have been caused by a spurious copy. If it was, so is the next one, and so on: each
        // spurious copy would trigger another.
        let doubtful = self.duplicates.is_single() && self.cache.front().is_some_and(|front| front.local > 0);
        if self.timed_out_early(now) {
            self.backoff.recover = ack;
        }
        self.detect_reordering(now);
        let packets = self.cache.acknowledge(ack);
        self.stream.last_ack = Some(ack);
        if let Some(front) = self.cache.front()
            && front.covers(ack)
        {
            // The sender has split the packet, and this piece has arrived.
            let piece = ack.since(front.seq);
            if piece > 0 {
                self.sizes.arrived(piece, now);
            }
        }
        self.on_arrival(now);
        self.duplicates.end_spurious(ack);
        self.expect_spurious(u32::from(doubtful));
        self.take_out(now, Pace::Acknowledgment, out);
        self.detection.acknowledged(ack);
        self.repair_next_hole(now, ack, packets, out);
        packets
    }

    /// Removes a part of the acknowledged data from the cache.
    pub(super) fn take_out(&mut self, now: Instant, pace: Pace, out: &mut Outbox<P>) {
        let (order, rtt, sizes) = (&mut self.detection.order, &self.rtt, &mut self.sizes);
        let arrived = |cached: &Cached<P>| {
            sizes.arrived(cached.len, cached.last_sent);
            order.arrive(cached, is_too_soon(rtt, now, cached));
        };
        let taken = self.cache.take_out(pace, &mut out.places, arrived);
        if let Some(hop) = &mut self.hop {
            hop.landed(taken.landed);
            hop.unheld(u32::try_from(taken.held).unwrap_or(u32::MAX));
        }
        if let Some(crossing) = taken.sample {
            self.rtt.sample(now.since(crossing.sent));
            if let (Some(hop), Some(ack)) = (&mut self.hop, self.stream.last_ack)
                && taken.landed > 0
            {
                hop.sample(now, crossing, ack, self.stream.high);
            }
        }
        self.expect_spurious(taken.unproven);
    }
}

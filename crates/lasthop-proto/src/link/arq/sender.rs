//! Sending half of an end: numbers frames, stores them until they are acknowledged, retransmits them.

use alloc::collections::VecDeque;

use super::rto::Rto;
use super::{ArqConfig, Header, Outbox, Protocol, control};
use crate::node::{Disposition, Port, Trigger, Why};
use crate::packet::headers::LinkHeader;
use crate::packet::{Cause, Packet, Priority};
use crate::time::Instant;

/// An unacknowledged frame.
#[derive(Clone, Debug)]
struct Frame<P> {
    /// The packet as first sent; `None` once the frame is given up.
    packet: Option<Packet<P>>,
    /// Transmission time if the frame was sent once: its acknowledgment then yields a round-trip sample.
    sent: Option<Instant>,
    /// Expiry of the frame's timer. For a given-up frame at the front of the window: time of the next notice to the
    /// other end.
    due: Instant,
    /// Number of retransmissions because this frame was missing; those made while going back to an earlier frame do not
    /// count.
    retransmissions: u32,
    /// Number of expiries of the frame's timer, as counted by [`Rto`].
    doublings: u8,
}

/// Frames in flight and packets that wait for the window.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    rto: Rto,
    /// Number of the first of `frames`.
    una: u16,
    frames: VecDeque<Frame<P>>,
    waiting: VecDeque<Packet<P>>,
    /// Time before which no frame is due: a lower bound, made exact when it is reached.
    deadline: Instant,
    dropped: u64,
    given_up: u64,
}

impl<P> Sender<P> {
    pub fn new(config: &ArqConfig) -> Self {
        Self {
            rto: Rto::new(config.timer),
            una: 0,
            frames: VecDeque::new(),
            waiting: VecDeque::new(),
            deadline: Instant::FAR_FUTURE,
            dropped: 0,
            given_up: 0,
        }
    }

    pub fn unacknowledged(&self) -> usize {
        self.frames.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns the deadline, [`Instant::FAR_FUTURE`] for none.
    pub fn poll_deadline(&self) -> Instant {
        self.deadline
    }
}

impl<P: Clone + Default> Sender<P> {
    /// Accepts a packet to be sent over the hop.
    pub fn on_packet(
        &mut self,
        now: Instant,
        config: &ArqConfig,
        packet: Packet<P>,
        out: &mut Outbox<P>,
    ) -> Disposition {
        if self.frames.len() < usize::from(config.window) {
            self.send(now, config, packet, Why::Given, out);
            Disposition::Changed
        } else if self.waiting.len() < config.queue as usize {
            self.waiting.push_back(packet);
            Disposition::Held
        } else {
            self.dropped += 1;
            Disposition::Dropped
        }
    }

    /// Records that all frames before `next` arrived, or were skipped.
    pub fn on_ack(&mut self, now: Instant, config: &ArqConfig, next: u16, out: &mut Outbox<P>) {
        let count = usize::from(next.wrapping_sub(self.una));
        if count == 0 || count > self.frames.len() {
            return;
        }
        // Frames behind a hole arrived long before: take a sample only if none of them was retransmitted.
        let mut sample = Some(now);
        for frame in self.frames.drain(..count) {
            sample = sample.and(frame.sent);
        }
        self.una = next;
        if let Some(sent) = sample {
            self.rto.sample(now.since(sent));
        }
        if self.frames.is_empty() {
            self.deadline = Instant::FAR_FUTURE;
        }
        self.skip(now, config, out);
        while self.frames.len() < usize::from(config.window) {
            let Some(packet) = self.waiting.pop_front() else { break };
            self.send(now, config, packet, Why::Released, out);
        }
    }

    /// Handles the other end's request for a frame.
    pub fn on_nack(&mut self, now: Instant, config: &ArqConfig, number: u16, out: &mut Outbox<P>) {
        let index = usize::from(number.wrapping_sub(self.una));
        let Some(frame) = self.frames.get(index) else { return };
        // The NACK may be older than the last permitted retransmission: giving up is left to the timer.
        if frame.packet.is_some() && !is_exhausted(config, frame) {
            self.resend(now, config, index, Trigger::Request, out);
        }
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant, config: &ArqConfig, out: &mut Outbox<P>) {
        if now < self.deadline || self.deadline == Instant::FAR_FUTURE {
            return;
        }
        // First, so that the other end knows before it receives the following frames.
        self.give_up(now, config, out);
        for index in 0..self.frames.len() {
            let frame = &mut self.frames[index];
            if frame.due <= now {
                frame.doublings = self.rto.back_off(frame.doublings);
                self.resend(now, config, index, Trigger::Timer, out);
            }
        }
        self.deadline = self.frames.iter().map(|frame| frame.due).min().unwrap_or(Instant::FAR_FUTURE);
    }

    fn send(&mut self, now: Instant, config: &ArqConfig, packet: Packet<P>, why: Why, out: &mut Outbox<P>) {
        // At most 2^15 frames are stored.
        let number = self.una.wrapping_add(self.frames.len() as u16);
        let header_len = packet.header_len.saturating_add(config.header);
        // A new frame that overtook another would be taken for a loss.
        let priority = Priority::Normal;
        let mut packet = Packet { header_len, priority, ..packet };
        Header::Data(number).put(&mut packet.link);
        out.push_back((Port::WIRELESS, why, packet.clone()));
        let due = now + self.rto.timeout(0);
        self.deadline = self.deadline.min(due);
        self.frames.push_back(Frame { packet: Some(packet), sent: Some(now), due, retransmissions: 0, doublings: 0 });
    }

    /// Retransmits a frame; with go-back-N, those behind it too.
    fn resend(&mut self, now: Instant, config: &ArqConfig, index: usize, trigger: Trigger, out: &mut Outbox<P>) {
        let cause = if trigger == Trigger::Request { Cause::LinkNack } else { Cause::LinkTimer };
        let end = match config.protocol {
            Protocol::GoBackN => self.frames.len(),
            Protocol::StopAndWait | Protocol::SelectiveRepeat => index + 1,
        };
        let asked_for = &mut self.frames[index].retransmissions;
        *asked_for = asked_for.saturating_add(1);
        for frame in self.frames.range_mut(index..end) {
            let Some(packet) = &frame.packet else { continue };
            let packet = Packet { priority: Priority::Urgent, cause, ..packet.clone() };
            out.push_back((Port::WIRELESS, Why::Repair(trigger), packet));
            frame.sent = None;
            frame.due = now + self.rto.timeout(frame.doublings);
            self.deadline = self.deadline.min(frame.due);
        }
    }

    /// Gives up frames whose timers expired after the last permitted retransmission, and notifies the other end; again,
    /// if earlier notices seem to be lost.
    fn give_up(&mut self, now: Instant, config: &ArqConfig, out: &mut Outbox<P>) {
        let mut tell = false;
        for frame in self.frames.iter_mut().filter(|frame| frame.due <= now) {
            if frame.packet.is_some() {
                if !is_exhausted(config, frame) {
                    continue;
                }
                (frame.packet, frame.sent) = (None, None);
                self.given_up += 1;
            }
            frame.doublings = self.rto.back_off(frame.doublings);
            frame.due = Instant::FAR_FUTURE;
            tell = true;
        }
        if tell {
            self.skip(now, config, out);
        }
    }

    /// Tells the other end not to wait for given-up frames at the front of the window, if there are any. The timer of
    /// the first one repeats this until it is acknowledged.
    fn skip(&mut self, now: Instant, config: &ArqConfig, out: &mut Outbox<P>) {
        let count = self.frames.iter().take_while(|frame| frame.packet.is_none()).count();
        if let Some(first) = self.frames.front_mut().filter(|_| count > 0) {
            out.push_back(control(config, Header::Skip(self.una.wrapping_add(count as u16))));
            first.due = now + self.rto.timeout(first.doublings);
            self.deadline = self.deadline.min(first.due);
        }
    }
}

fn is_exhausted<P>(config: &ArqConfig, frame: &Frame<P>) -> bool {
    config.max_retransmissions.is_some_and(|most| frame.retransmissions >= most)
}

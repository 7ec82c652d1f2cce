//! The sending half of an end: numbers frames, keeps them until they are acknowledged, sends them again.

use alloc::collections::VecDeque;

use super::rto::Rto;
use super::{ArqConfig, Header, Outbox, Protocol, control};
use crate::link::headers::LinkHeader;
use crate::node::{Disposition, Port, Trigger, Why};
use crate::packet::{Cause, Packet, Priority};
use crate::time::Instant;

/// A frame that is not acknowledged.
#[derive(Clone, Debug)]
struct Frame<P> {
    /// As sent first; `None` once it is given up.
    packet: Option<Packet<P>>,
    /// When it was sent, if that was once: then its acknowledgment gives a round-trip sample.
    sent: Option<Instant>,
    /// When its timer expires. At the front of the window, for a frame given up: when the other end is told again.
    due: Instant,
    /// Retransmissions that this frame itself asked for; those made while going back to an earlier one do not count.
    retransmissions: u32,
    /// Times that its timer expired, as [`Rto`] counts them.
    doublings: u8,
}

/// Frames on their way and packets that wait for the window.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    rto: Rto,
    /// Number of the first of `frames`.
    una: u16,
    frames: VecDeque<Frame<P>>,
    waiting: VecDeque<Packet<P>>,
    /// No frame is due before: a lower bound, made exact when it has come.
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

    /// [`Instant::FAR_FUTURE`] for never.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl<P: Clone + Default> Sender<P> {
    /// A packet to bring over the hop.
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

    /// All frames before `next` arrived, or were skipped.
    pub fn on_ack(&mut self, now: Instant, config: &ArqConfig, next: u16, out: &mut Outbox<P>) {
        let count = usize::from(next.wrapping_sub(self.una));
        if count == 0 || count > self.frames.len() {
            return;
        }
        // What lay behind a hole arrived long before: a sample only if none of them had to be sent again.
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

    /// The other end misses a frame.
    pub fn on_nack(&mut self, now: Instant, config: &ArqConfig, number: u16, out: &mut Outbox<P>) {
        let index = usize::from(number.wrapping_sub(self.una));
        let Some(frame) = self.frames.get(index) else { return };
        // The NACK may be older than the last permitted retransmission: it is for the timer to give up.
        if frame.packet.is_some() && !is_exhausted(config, frame) {
            self.resend(now, config, index, Trigger::Request, out);
        }
    }

    /// Acts on the timers that have expired.
    pub fn on_timeout(&mut self, now: Instant, config: &ArqConfig, out: &mut Outbox<P>) {
        if now < self.deadline || self.deadline == Instant::FAR_FUTURE {
            return;
        }
        // First, so that the other end knows before it gets the frames that follow.
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
        // At most 2^15 frames are kept.
        let number = self.una.wrapping_add(self.frames.len() as u16);
        let header_len = packet.header_len.saturating_add(config.header);
        // One new frame that overtook another would pass for a loss.
        let priority = Priority::Normal;
        let mut packet = Packet { header_len, priority, ..packet };
        Header::Data(number).put(&mut packet.link);
        out.push_back((Port::WIRELESS, why, packet.clone()));
        let due = now + self.rto.timeout(0);
        self.deadline = self.deadline.min(due);
        self.frames.push_back(Frame { packet: Some(packet), sent: Some(now), due, retransmissions: 0, doublings: 0 });
    }

    /// Sends a frame again; with go-back-N, those behind it too.
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

    /// Gives up the frames whose timers expired after the last permitted retransmission, and tells the other end;
    /// again, if it does not seem to have heard of earlier ones.
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

    /// Tells the other end not to wait for the frames at the front of the window that were given up, if there are
    /// any. The timer of the first sees to it that this is repeated until it is acknowledged.
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

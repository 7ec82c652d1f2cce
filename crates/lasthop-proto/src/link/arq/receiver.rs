//! Receiving half of an end: acknowledges frames, requests missing ones, and passes packets on.

use alloc::collections::VecDeque;

use super::{ArqConfig, Delivery, FLOOR, Header, MAX_WINDOW, Outbox, Protocol, control};
use crate::node::{Disposition, Port, Why};
use crate::packet::{Packet, Priority};
use crate::time::{Duration, Instant};

/// State of a number at or after the expected one.
#[derive(Clone, Debug)]
enum Slot<P> {
    /// The frame is missing.
    Missing {
        /// Time of the last request.
        nacked: Instant,
    },
    /// The frame waits for a gap to be filled.
    Held(Packet<P>),
    /// The packet was passed on ([`Delivery::Immediate`]).
    Passed,
}

/// Frames that arrived out of order.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    /// First missing number; all numbers before it arrived, or were skipped.
    expected: u16,
    /// States of the numbers starting at `expected`. If there are any, the first number is missing. Go-back-N has only
    /// that first state.
    slots: VecDeque<Slot<P>>,
    /// Number of slots that are [`Slot::Held`].
    held: usize,
    /// Time before which no NACK is repeated: a lower bound, made exact when it is reached.
    deadline: Instant,
}

impl<P> Receiver<P> {
    pub fn new() -> Self {
        Self { expected: 0, slots: VecDeque::new(), held: 0, deadline: Instant::FAR_FUTURE }
    }

    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the deadline, or [`Instant::FAR_FUTURE`] if none is set.
    pub fn poll_deadline(&self) -> Instant {
        self.deadline
    }
}

impl<P: Default> Receiver<P> {
    /// Processes a frame with a packet.
    pub fn on_data(
        &mut self,
        now: Instant,
        config: &ArqConfig,
        number: u16,
        packet: Packet<P>,
        out: &mut Outbox<P>,
    ) -> Disposition {
        let offset = number.wrapping_sub(self.expected);
        if offset == 0 {
            self.slots.pop_front();
            self.expected = self.expected.wrapping_add(1);
            hand_on(config, packet, Why::Given, out);
            self.advance(config, out);
            Disposition::Changed
        } else if offset < config.window {
            self.on_gap(now, config, usize::from(offset), packet, out)
        } else if offset >= MAX_WINDOW {
            // It arrived before: the acknowledgment was lost.
            self.acknowledge(config, out);
            Disposition::Absorbed
        } else {
            Disposition::Dropped
        }
    }

    /// Records that no frame before `next` will be sent any more.
    pub fn on_skip(&mut self, config: &ArqConfig, next: u16, out: &mut Outbox<P>) {
        let count = next.wrapping_sub(self.expected);
        if count <= config.window {
            for _ in 0..usize::from(count).min(self.slots.len()) {
                self.pop(config, out);
            }
            self.expected = next;
            self.advance(config, out);
        } else if count >= MAX_WINDOW {
            self.acknowledge(config, out);
        }
    }

    /// Requests frames again that are still missing.
    pub fn handle_timeout(&mut self, now: Instant, config: &ArqConfig, out: &mut Outbox<P>) {
        let Some(span) = nack_again(config) else { return };
        if now < self.deadline || self.deadline == Instant::FAR_FUTURE {
            return;
        }
        self.deadline = Instant::FAR_FUTURE;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Slot::Missing { nacked } = slot else { continue };
            if *nacked + span <= now {
                *nacked = now;
                out.push_back(nack(config, self.expected, index));
            }
            self.deadline = self.deadline.min(*nacked + span);
        }
    }

    /// Processes a frame `index` after the expected one.
    fn on_gap(
        &mut self,
        now: Instant,
        config: &ArqConfig,
        index: usize,
        packet: Packet<P>,
        out: &mut Outbox<P>,
    ) -> Disposition {
        let missing_to = match config.protocol {
            Protocol::GoBackN => 1,
            Protocol::StopAndWait | Protocol::SelectiveRepeat => index,
        };
        while self.slots.len() < missing_to {
            out.push_back(nack(config, self.expected, self.slots.len()));
            self.slots.push_back(Slot::Missing { nacked: now });
            self.deadline = self.deadline.min(nack_again(config).map_or(Instant::FAR_FUTURE, |span| now + span));
        }
        if config.protocol == Protocol::GoBackN {
            return Disposition::Dropped;
        }
        if self.slots.len() == index {
            self.slots.push_back(Slot::Missing { nacked: now });
        }
        let slot = &mut self.slots[index];
        if !matches!(slot, Slot::Missing { .. }) {
            return Disposition::Absorbed;
        }
        match config.delivery {
            Delivery::InOrder => {
                *slot = Slot::Held(packet);
                self.held += 1;
                Disposition::Held
            }
            Delivery::Immediate => {
                *slot = Slot::Passed;
                hand_on(config, packet, Why::Given, out);
                Disposition::Changed
            }
        }
    }

    /// Advances after the expected frame has arrived or was skipped: passes on frames that waited for it, and
    /// acknowledges.
    fn advance(&mut self, config: &ArqConfig, out: &mut Outbox<P>) {
        while self.slots.front().is_some_and(|slot| !matches!(slot, Slot::Missing { .. })) {
            self.pop(config, out);
            self.expected = self.expected.wrapping_add(1);
        }
        if self.slots.is_empty() {
            self.deadline = Instant::FAR_FUTURE;
        }
        self.acknowledge(config, out);
    }

    /// Removes the first slot, and passes on the packet if one waits there.
    fn pop(&mut self, config: &ArqConfig, out: &mut Outbox<P>) {
        if let Some(Slot::Held(packet)) = self.slots.pop_front() {
            self.held -= 1;
            hand_on(config, packet, Why::Released, out);
        }
    }

    fn acknowledge(&self, config: &ArqConfig, out: &mut Outbox<P>) {
        out.push_back(control(config, Header::Ack(self.expected)));
    }
}

/// Returns the time between two NACKs of a frame, or `None` if there is only one.
fn nack_again(config: &ArqConfig) -> Option<Duration> {
    config.nack_again.map(|span| span.max(FLOOR))
}

/// Returns the NACK of the frame `index` after `expected`.
fn nack<P: Default>(config: &ArqConfig, expected: u16, index: usize) -> (Port, Why, Packet<P>) {
    // Less than the window.
    control(config, Header::Nack(expected.wrapping_add(index as u16)))
}

/// Passes a packet on as it was before the hop. The priority of a retransmission applied to the hop only.
fn hand_on<P>(config: &ArqConfig, packet: Packet<P>, why: Why, out: &mut Outbox<P>) {
    let header_len = packet.header_len.saturating_sub(config.header);
    let mut packet = Packet { header_len, priority: Priority::Normal, ..packet };
    packet.link.pop();
    out.push_back((Port::WIRED, why, packet));
}

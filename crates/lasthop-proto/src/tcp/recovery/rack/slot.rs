//! Storage of RACK's state: none before the first data, so that an end that never sends stays small.

use alloc::boxed::Box;

use super::{Peer, Rack};
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::recovery::LossRecovery;
use crate::tcp::stream::Stream;
use crate::time::Instant;

/// Storage of [`Rack`], once there is data to send.
#[derive(Clone, Default, Debug)]
pub struct Slot {
    rack: Option<Box<Rack>>,
    peer: Peer,
    /// Seed of the congestion control's random draws.
    seed: u64,
}

impl Slot {
    /// Returns an empty one. Random draws of the congestion control derive from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Returns the state, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&Rack> {
        self.rack.as_deref()
    }

    /// Returns the state mutably, if there is one.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut Rack> {
        self.rack.as_deref_mut()
    }

    /// Notes that the peer does not support SACK (RFC 2018 §2).
    pub fn do_without_sack(&mut self) {
        self.peer = Peer::Blind;
    }

    /// Creates the state, if necessary, before data is sent.
    #[inline]
    pub fn begin(&mut self, s: &Stream, now: Instant) -> &mut Rack {
        let (peer, seed) = (self.peer, self.seed);
        self.rack.get_or_insert_with(|| fresh(s, now, peer, seed))
    }

    /// Returns a segment to retransmit.
    #[inline]
    pub fn next_hole(&mut self, s: &Stream, now: Instant) -> Option<(Seq, Seq, Cause)> {
        let rack = self.begin(s, now);
        if rack.has_hole() { rack.next_hole(s, now) } else { None }
    }

    /// Returns whether the congestion window permits new data.
    #[inline]
    pub fn may_send_new(&mut self, s: &Stream, now: Instant) -> bool {
        self.begin(s, now).may_send_new(s, now)
    }

    /// Notes that a segment is being sent.
    #[inline]
    pub fn on_sent(&mut self, s: &Stream, now: Instant, seq: Seq, end: Seq) {
        // The SYN carries no data.
        if let Some(rack) = self.rack.as_deref_mut() {
            rack.on_sent(s, now, seq, end);
        }
    }
}

/// Creates the state: once per connection, and out of the hot path.
#[cold]
#[inline(never)]
fn fresh(s: &Stream, now: Instant, peer: Peer, seed: u64) -> Box<Rack> {
    Box::new(Rack::new(s, now, peer, seed))
}

impl LossRecovery for Slot {
    fn on_duplicate(&mut self, _s: &mut Stream, _c: &mut SendControl, _now: Instant, _ack: &Ack) {}

    fn on_new_ack(&mut self, _s: &mut Stream, _c: &mut SendControl, _now: Instant, _ack: &Ack) {}

    fn on_timeout(&mut self, _s: &mut Stream, _c: &mut SendControl) {}

    fn predictable(&self) -> bool {
        false
    }
}

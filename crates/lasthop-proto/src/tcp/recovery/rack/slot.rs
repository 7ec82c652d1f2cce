//! Where RACK's state is kept: nowhere before the first data, so that an end that never sends stays small.

use alloc::boxed::Box;

use super::{Peer, Rack};
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::recovery::LossRecovery;
use crate::tcp::send_state::{Ack, SendState};
use crate::time::Instant;

/// [`Rack`], once there is something to send.
#[derive(Clone, Default, Debug)]
pub struct Slot {
    rack: Option<Box<Rack>>,
    peer: Peer,
}

impl Slot {
    /// The state, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&Rack> {
        self.rack.as_deref()
    }

    /// The state to change, if there is one.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut Rack> {
        self.rack.as_deref_mut()
    }

    /// The peer reports nothing selectively (RFC 2018 §2).
    pub fn do_without_sack(&mut self) {
        self.peer = Peer::Blind;
    }

    /// Data is about to be sent.
    #[inline]
    pub fn begin(&mut self, s: &SendState, now: Instant) -> &mut Rack {
        let peer = self.peer;
        self.rack.get_or_insert_with(|| fresh(s, now, peer))
    }
}

/// Once a connection, and out of the way of what each segment does.
#[cold]
#[inline(never)]
fn fresh(s: &SendState, now: Instant, peer: Peer) -> Box<Rack> {
    Box::new(Rack::new(s, now, peer))
}

impl LossRecovery for Slot {
    fn on_duplicate(&mut self, _s: &mut SendState, _now: Instant, _ack: &Ack) {}

    fn on_new_ack(&mut self, _s: &mut SendState, _now: Instant, _ack: &Ack) {}

    fn on_timeout(&mut self, _s: &mut SendState) {}

    #[inline]
    fn next_hole(&mut self, s: &SendState, now: Instant) -> Option<(Seq, Seq, Cause)> {
        let rack = self.begin(s, now);
        if rack.has_hole() { rack.next_hole(s, now) } else { None }
    }

    #[inline]
    fn may_send_new(&mut self, s: &SendState, now: Instant) -> Option<bool> {
        Some(self.begin(s, now).may_send_new(s, now))
    }

    #[inline]
    fn on_sent(&mut self, s: &SendState, now: Instant, seq: Seq, end: Seq) {
        // The SYN is no data.
        if let Some(rack) = self.rack.as_deref_mut() {
            rack.on_sent(s, now, seq, end);
        }
    }

    fn predictable(&self) -> bool {
        false
    }
}

//! Loss recovery: decides what to resend, and when. One file per algorithm, selected at run time by
//! [`config::Recovery`].

mod eln;
mod newreno;
pub mod rack;
mod reno;
mod rfc6675;
mod sack1;
mod smart;

use alloc::boxed::Box;

use self::eln::Eln;
use self::newreno::NewReno;
use self::rack::Rack;
use self::reno::Reno;
use self::rfc6675::Rfc6675;
use self::sack1::Sack1;
use self::smart::Smart;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::{self, SackAlgorithm, TcpConfig};
use crate::tcp::stream::Stream;
use crate::time::Instant;

/// Interface between the sender and a loss recovery.
///
/// A recovery acts on [`SendControl`]: it moves windows, sets the segment to resend, and limits what else may be sent
/// before the next acknowledgment.
pub trait LossRecovery {
    /// Handles an acknowledgment older than `snd_una`.
    fn on_old_ack(&mut self, _s: &mut Stream, _c: &mut SendControl) {}

    /// Handles an acknowledgment equal to `snd_una` that counts as a duplicate; `c.dupacks` has not been updated yet.
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack);

    /// Handles an acknowledgment of new data; `snd_una` has not been updated yet.
    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack);

    /// Handles an expiry of the retransmission timer; windows and `snd_nxt` have not been updated yet.
    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl);

    /// Returns a hole to resend as far as windows allow, ahead of new data: its first byte, the byte after its last,
    /// and the cause.
    fn next_hole(&mut self, _s: &Stream, _c: &SendControl) -> Option<(Seq, Seq, Cause)> {
        None
    }

    /// Returns whether the congestion window permits new data, or `None` to apply the sender's own comparison.
    fn may_send_new(&mut self, _s: &Stream, _c: &SendControl) -> Option<bool> {
        None
    }

    /// Notes that a segment `seq..end` is being sent; `snd_max` has not been updated yet.
    fn on_sent(&mut self, _s: &Stream, _now: Instant, _seq: Seq, _end: Seq) {}

    /// Returns whether the contents of SACK blocks make a duplicate, even with data or a new window (RFC 6675 §2).
    fn judges_by_sack(&self) -> bool {
        false
    }

    /// Returns whether 4.4BSD's header-prediction path may be taken.
    fn predictable(&self) -> bool {
        true
    }
}

/// The loss recovery in use. The larger ones are boxed, and created with the first data, so that an end that never
/// sends stays small.
#[derive(Clone, Debug)]
pub enum Recovery {
    /// RFC 5681 §3.2.
    Reno(Reno),
    /// RFC 6582.
    NewReno(NewReno),
    /// \[a\] §III-B.
    Smart(Option<Box<Smart>>),
    /// Fall and Floyd.
    Sack1(Option<Box<Sack1>>),
    /// RFC 6675.
    Rfc6675(Option<Box<Rfc6675>>),
    /// \[a\] §III-B.
    Eln(Eln),
    /// RFC 8985. It receives acknowledgments and timers directly, not through [`LossRecovery`].
    Rack(rack::Slot),
}

impl Recovery {
    /// Returns the recovery that `config` selects.
    pub fn new(config: &TcpConfig, seed: u64) -> Self {
        match config.recovery {
            config::Recovery::Reno => Self::Reno(Reno::default()),
            config::Recovery::NewReno => Self::NewReno(NewReno::default()),
            config::Recovery::Smart => Self::Smart(None),
            config::Recovery::Sack => match config.sack_algorithm {
                SackAlgorithm::Sack1 => Self::Sack1(None),
                SackAlgorithm::Rfc6675 => Self::Rfc6675(None),
            },
            config::Recovery::Eln => Self::Eln(Eln::on_threshold()),
            config::Recovery::ElnRxmt => Self::Eln(Eln::on_first()),
            config::Recovery::Rack => Self::Rack(rack::Slot::new(seed)),
        }
    }

    /// Returns whether the algorithm influences what is sent, and has to be notified of it. If not, the calls below
    /// cost nothing.
    #[inline]
    fn steers(&self) -> bool {
        // Called several times for each segment: few cases compile to comparisons, more to a jump table.
        match self {
            Self::Reno(_) | Self::NewReno(_) | Self::Eln(_) => false,
            Self::Sack1(recovery) => recovery.as_ref().is_some_and(|recovery| recovery.in_recovery()),
            Self::Rfc6675(_) | Self::Smart(_) | Self::Rack(_) => self.others_steer(),
        }
    }

    #[inline(never)]
    fn others_steer(&self) -> bool {
        if let Self::Rfc6675(recovery) = self {
            recovery.as_ref().is_some_and(|recovery| recovery.in_recovery())
        } else {
            true
        }
    }

    /// Calls [`LossRecovery::next_hole`].
    #[inline]
    pub fn next_hole(&mut self, s: &Stream, c: &SendControl, now: Instant) -> Option<(Seq, Seq, Cause)> {
        match self {
            Self::Rack(slot) => slot.next_hole(s, now),
            _ if self.steers() => self.get().next_hole(s, c),
            _ => None,
        }
    }

    /// Calls [`LossRecovery::may_send_new`].
    #[inline]
    pub fn may_send_new(&mut self, s: &Stream, c: &SendControl, now: Instant) -> Option<bool> {
        match self {
            Self::Rack(slot) => Some(slot.may_send_new(s, now)),
            _ if self.steers() => self.get().may_send_new(s, c),
            _ => None,
        }
    }

    /// Returns RACK's state, if it exists.
    #[inline]
    pub fn rack(&self) -> Option<&Rack> {
        if let Self::Rack(slot) = self { slot.get() } else { None }
    }

    /// Returns RACK's state mutably, if it exists.
    #[inline]
    pub fn rack_mut(&mut self) -> Option<&mut Rack> {
        if let Self::Rack(slot) = self { slot.get_mut() } else { None }
    }

    /// Creates RACK's state, as data is about to be written.
    pub fn begin(&mut self, s: &Stream, now: Instant) {
        if let Self::Rack(slot) = self {
            slot.begin(s, now);
        }
    }

    /// Notes that the peer does not support SACK, so that RACK does without it.
    pub fn do_without_sack(&mut self) {
        if let Self::Rack(slot) = self {
            slot.do_without_sack();
        }
    }

    /// Calls [`LossRecovery::on_sent`].
    #[inline]
    pub fn on_sent(&mut self, s: &Stream, now: Instant, seq: Seq, end: Seq) {
        match self {
            Self::Rack(slot) => slot.on_sent(s, now, seq, end),
            _ if self.steers() => self.get().on_sent(s, now, seq, end),
            _ => {}
        }
    }

    /// Returns the algorithm.
    #[inline]
    pub fn get(&mut self) -> &mut dyn LossRecovery {
        match self {
            Self::Reno(recovery) => recovery,
            Self::NewReno(recovery) => recovery,
            Self::Smart(recovery) => &mut **recovery.get_or_insert_with(fresh),
            Self::Sack1(recovery) => &mut **recovery.get_or_insert_with(fresh),
            Self::Rfc6675(recovery) => &mut **recovery.get_or_insert_with(fresh),
            Self::Eln(recovery) => recovery,
            Self::Rack(slot) => slot,
        }
    }
}

/// Returns the initial state of an algorithm: once per connection, and out of the hot path.
#[cold]
#[inline(never)]
fn fresh<T: Default>() -> Box<T> {
    Box::default()
}

//! Loss recovery: what to resend, and when. One file an algorithm, chosen at run time by
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
use super::send_state::{Ack, SendState};
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::{self, SackAlgorithm, TcpConfig};
use crate::time::Instant;

/// What the sender asks of a loss recovery.
///
/// A recovery acts by calling `SendState`: it moves windows, sets the segment to resend, and limits what else may go out
/// before the next acknowledgment.
pub trait LossRecovery {
    /// An acknowledgment older than `snd_una`.
    fn on_old_ack(&mut self, _s: &mut SendState) {}

    /// An acknowledgment equal to `snd_una` that counts as a duplicate; `s.dupacks` has not been moved yet.
    fn on_duplicate(&mut self, s: &mut SendState, now: Instant, ack: &Ack);

    /// An acknowledgment of new data; `snd_una` has not been moved yet.
    fn on_new_ack(&mut self, s: &mut SendState, now: Instant, ack: &Ack);

    /// The retransmission timer expired; windows and `snd_nxt` have not been moved yet.
    fn on_timeout(&mut self, s: &mut SendState);

    /// A hole to resend as far as windows allow, ahead of new data: its first byte, the byte after its last, and why.
    fn next_hole(&mut self, _s: &SendState, _now: Instant) -> Option<(Seq, Seq, Cause)> {
        None
    }

    /// Whether the congestion window lets new data go out. Without an answer the sender's own comparison holds.
    fn may_send_new(&mut self, _s: &SendState, _now: Instant) -> Option<bool> {
        None
    }

    /// A segment `seq..end` is being sent; `snd_max` has not been moved yet.
    fn on_sent(&mut self, _s: &SendState, _now: Instant, _seq: Seq, _end: Seq) {}

    /// Whether what SACK blocks report makes a duplicate, even with data or a new window (RFC 6675 §2).
    fn judges_by_sack(&self) -> bool {
        false
    }

    /// Whether the header-prediction path of 4.4BSD may be taken.
    fn predictable(&self) -> bool {
        true
    }
}

/// The loss recovery in use. The larger ones are boxed, and begin with the first data: an end that never sends stays small.
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
    /// RFC 8985. Acknowledgments and timers go to it whole, past [`LossRecovery`].
    Rack(rack::Slot),
}

impl Recovery {
    /// The recovery that `config` names.
    pub fn new(config: &TcpConfig) -> Self {
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
            config::Recovery::Rack => Self::Rack(rack::Slot::default()),
        }
    }

    /// Whether the algorithm has a say in what is sent, and wants to know of it. Where it has not, the calls below cost
    /// nothing.
    #[inline]
    fn steers(&self) -> bool {
        // Asked several times for each segment: few cases are told apart by comparing, more by a jump through a table.
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

    /// [`LossRecovery::next_hole`].
    #[inline]
    pub fn next_hole(&mut self, s: &SendState, now: Instant) -> Option<(Seq, Seq, Cause)> {
        match self {
            Self::Rack(slot) => slot.next_hole(s, now),
            _ if self.steers() => self.get().next_hole(s, now),
            _ => None,
        }
    }

    /// [`LossRecovery::may_send_new`].
    #[inline]
    pub fn may_send_new(&mut self, s: &SendState, now: Instant) -> Option<bool> {
        match self {
            Self::Rack(slot) => slot.may_send_new(s, now),
            _ if self.steers() => self.get().may_send_new(s, now),
            _ => None,
        }
    }

    /// RACK's state, once it has one.
    #[inline]
    pub fn rack(&self) -> Option<&Rack> {
        if let Self::Rack(slot) = self { slot.get() } else { None }
    }

    /// RACK's state, to change.
    #[inline]
    pub fn rack_mut(&mut self) -> Option<&mut Rack> {
        if let Self::Rack(slot) = self { slot.get_mut() } else { None }
    }

    /// Data is about to be written: RACK has a state from now on.
    pub fn begin(&mut self, s: &SendState, now: Instant) {
        if let Self::Rack(slot) = self {
            slot.begin(s, now);
        }
    }

    /// The peer reports nothing selectively: RACK does without such reports.
    pub fn do_without_sack(&mut self) {
        if let Self::Rack(slot) = self {
            slot.do_without_sack();
        }
    }

    /// [`LossRecovery::on_sent`].
    #[inline]
    pub fn on_sent(&mut self, s: &SendState, now: Instant, seq: Seq, end: Seq) {
        match self {
            Self::Rack(slot) => slot.on_sent(s, now, seq, end),
            _ if self.steers() => self.get().on_sent(s, now, seq, end),
            _ => {}
        }
    }

    /// The algorithm behind the name.
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

/// The state of an algorithm that begins: once a connection, and out of the way of what each acknowledgment does.
#[cold]
#[inline(never)]
fn fresh<T: Default>() -> Box<T> {
    Box::default()
}

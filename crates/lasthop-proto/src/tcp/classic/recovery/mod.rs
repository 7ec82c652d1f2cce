//! Loss recoveries of the classic sender: each decides what to resend, and when. One file per algorithm, selected at run
//! time by [`ClassicRecovery`].

mod eln;
mod newreno;
mod reno;
mod rfc6675;
mod sack1;
mod scoreboard;
mod smart;

use alloc::boxed::Box;

use self::eln::Eln;
use self::newreno::NewReno;
use self::reno::Reno;
use self::rfc6675::Rfc6675;
use self::sack1::Sack1;
use self::smart::Smart;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::{ClassicConfig, ClassicRecovery, SackAlgorithm};
use crate::tcp::stream::Stream;
use crate::time::Instant;

/// Interface between the classic sender and a loss recovery.
///
/// A recovery acts on [`SendControl`]: it moves windows, sets the segment to resend, and limits what else may be sent
/// before the next acknowledgment.
pub trait LossRecovery {
    /// Handles an acknowledgment older than `snd_una`.
    fn on_old_ack(&mut self, _c: &mut SendControl) {}

    /// Handles an acknowledgment equal to `snd_una` that counts as a duplicate; `c.dupacks` has not been updated yet.
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack);

    /// Handles an acknowledgment of new data; `snd_una` has not been updated yet.
    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack);

    /// Handles an expiry of the retransmission timer; windows and `snd_nxt` have not been updated yet.
    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl);

    /// Returns whether the contents of SACK blocks make a duplicate, even with data or a new window (RFC 6675 §2).
    fn judges_by_sack(&self) -> bool {
        false
    }

    /// Returns whether 4.4BSD's header-prediction path may be taken.
    fn predictable(&self) -> bool {
        true
    }
}

/// Interface of a recovery that knows which segments have arrived, and chooses those to resend itself.
pub trait Selective {
    /// Returns a hole to resend if windows permit it, ahead of new data: its first byte, the byte after its last, and
    /// the cause.
    fn next_hole(&mut self, s: &Stream, c: &SendControl) -> Option<(Seq, Seq, Cause)>;

    /// Returns the window for new data, in bytes beyond `snd_una`, or `None` if none may be sent.
    fn window(&self, _s: &Stream, c: &SendControl) -> Option<u32> {
        Some(c.window())
    }

    /// Records that a segment `seq..end` is being sent; `snd_max` has not been updated yet.
    fn on_sent(&mut self, s: &Stream, now: Instant, seq: Seq, end: Seq);
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
}

impl Recovery {
    /// Returns the recovery that `config` selects.
    pub fn new(config: &ClassicConfig) -> Self {
        match config.recovery {
            ClassicRecovery::Reno => Self::Reno(Reno::default()),
            ClassicRecovery::NewReno => Self::NewReno(NewReno::default()),
            ClassicRecovery::Smart => Self::Smart(None),
            ClassicRecovery::Sack => match config.sack_algorithm {
                SackAlgorithm::Sack1 => Self::Sack1(None),
                SackAlgorithm::Rfc6675 => Self::Rfc6675(None),
            },
            ClassicRecovery::Eln => Self::Eln(Eln::on_threshold()),
            ClassicRecovery::ElnRxmt => Self::Eln(Eln::on_first()),
        }
    }

    /// Returns the loss recovery if it chooses the data to resend now. Sack1 and RFC 6675 do so while they repair a
    /// loss.
    #[inline]
    pub fn selective(&mut self) -> Option<&mut dyn Selective> {
        // Called several times for each segment: few cases compile to comparisons, more to a jump table.
        match self {
            Self::Reno(_) | Self::NewReno(_) | Self::Eln(_) => None,
            Self::Sack1(sack1) => match sack1 {
                Some(sack1) if sack1.in_recovery() => Some(&mut **sack1),
                _ => None,
            },
            Self::Rfc6675(_) | Self::Smart(_) => self.other_selective(),
        }
    }

    #[inline(never)]
    fn other_selective(&mut self) -> Option<&mut dyn Selective> {
        match self {
            Self::Rfc6675(Some(rfc6675)) if rfc6675.in_recovery() => Some(&mut **rfc6675),
            Self::Smart(smart) => Some(&mut **smart.get_or_insert_with(fresh)),
            _ => None,
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
        }
    }
}

/// Returns the initial state of an algorithm: once per connection, and out of the hot path.
#[cold]
#[inline(never)]
fn fresh<T: Default>() -> Box<T> {
    Box::default()
}

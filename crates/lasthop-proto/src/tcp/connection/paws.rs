//! Protection against wrapped sequence numbers (RFC 7323 §5): a segment whose timestamp is older than one seen is an old copy.

use super::Connection;
use crate::packet::{Flags, Segment};
use crate::seq::Seq;
use crate::tcp::config::{PawsRule, Switch};

/// How much older than the newest a timestamp may be (Linux `TCP_PAWS_WINDOW`), in ticks: by the rounding of a clock that is read
/// twice.
const ROUNDING: u32 = 1;

impl Connection {
    /// Whether the timestamp of a segment that takes up so much sequence space says that it is a copy of long ago.
    pub(super) fn is_replay(&self, segment: &Segment, seq_len: u32) -> bool {
        let Some(ts) = segment.options.timestamps else { return false };
        if !self.timestamps.is_on() || segment.flags.has(Flags::RST) || !Seq(ts.val).lt(Seq(self.ts_recent)) {
            return false;
        }
        match self.config.paws {
            PawsRule::Rfc7323 => true,
            PawsRule::Linux => {
                let behind = Seq(self.ts_recent).since(Seq(ts.val));
                behind > ROUNDING && !(seq_len == 0 && self.is_overtaken_duplicate(segment, behind))
            }
        }
    }

    /// Whether this acknowledgment without data is a duplicate that another one has overtaken (Linux `tcp_disordered_ack`): its
    /// selective acknowledgments are worth reading, and it moves nothing else. Its timestamp is `behind` the newest, in
    /// milliseconds.
    fn is_overtaken_duplicate(&self, segment: &Segment, behind: u32) -> bool {
        let window = u32::from(segment.window) << self.peer_shift;
        let s = self.sender.state();
        segment.flags.has(Flags::ACK)
            && segment.seq == self.receiver.rcv_nxt()
            && segment.ack == s.snd_una
            && !self.sender.may_update_window(segment.seq, segment.ack, window)
            && u64::from(behind) * 1_000_000 <= s.rtt.rto().as_nanos().saturating_mul(6) / 5
    }

    /// RFC 7323 §4.3: the echo is that of the earliest segment not acknowledged yet, so that delayed acknowledgments count into the
    /// peer's samples.
    pub(super) fn note_timestamp(&mut self, segment: &Segment) {
        if let Some(ts) = segment.options.timestamps
            && segment.seq.le(self.receiver.last_ack_sent())
            && (self.timestamps == Switch::Off || Seq(ts.val).ge(Seq(self.ts_recent)))
        {
            self.ts_recent = ts.val;
        }
    }
}

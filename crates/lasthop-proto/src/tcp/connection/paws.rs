//! Protection against wrapped sequence numbers (RFC 7323 §5): a segment whose timestamp is older than one seen is an
//! old copy.

use super::Connection;
use crate::packet::{Flags, Segment};
use crate::seq::Seq;
use crate::tcp::config::{PawsRule, Switch};

/// Maximum age of a timestamp relative to the latest (Linux `TCP_PAWS_WINDOW`), in ticks: the rounding of a clock that
/// is read twice.
const ROUNDING: u32 = 1;

impl Connection {
    /// Returns whether the timestamp of a segment that occupies `seq_len` of sequence space marks it as an old copy.
    pub(super) fn is_replay(&self, segment: &Segment, seq_len: u32) -> bool {
        let Some(ts) = segment.options.timestamps else { return false };
        if !self.timestamps.is_on() || segment.flags.has(Flags::RST) || !Seq(ts.val).lt(Seq(self.ts_recent)) {
            return false;
        }
        match self.config.common.paws {
            PawsRule::Rfc7323 => true,
            PawsRule::Linux => {
                let behind = Seq(self.ts_recent).since(Seq(ts.val));
                behind > ROUNDING && !(seq_len == 0 && self.is_overtaken_duplicate(segment, behind))
            }
        }
    }

    /// Returns whether this acknowledgment without data is a reordered duplicate (Linux `tcp_disordered_ack`): its
    /// selective acknowledgments are evaluated, and nothing else. Its timestamp is `behind` the latest, in
    /// milliseconds.
    fn is_overtaken_duplicate(&self, segment: &Segment, behind: u32) -> bool {
        let window = u32::from(segment.window) << self.peer_shift;
        let s = self.sender.stream();
        segment.flags.has(Flags::ACK)
            && segment.seq == self.receiver.rcv_nxt()
            && segment.ack == s.snd_una()
            && !s.may_update_window(segment.seq, segment.ack, window)
            && u64::from(behind) * 1_000_000 <= s.rtt().rto().as_nanos().saturating_mul(6) / 5
    }

    /// Returns whether the timestamp of a segment is newer than any before.
    pub(super) fn is_newer(&self, segment: &Segment) -> bool {
        segment.options.timestamps.is_some_and(|ts| Seq(ts.val).gt(Seq(self.ts_recent)))
    }

    /// Records the timestamp to echo. RFC 7323 §4.3: it is that of the earliest unacknowledged segment, so that delayed
    /// acknowledgments count in the peer's samples.
    pub(super) fn note_timestamp(&mut self, segment: &Segment) {
        if let Some(ts) = segment.options.timestamps
            && segment.seq.le(self.receiver.last_ack_sent())
            && (self.timestamps == Switch::Off || Seq(ts.val).ge(Seq(self.ts_recent)))
        {
            self.ts_recent = ts.val;
        }
    }
}

//! Segments of the stream: their limits, and the rules by which new data may leave.

use super::Stream;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// First sequence number.
    pub seq: Seq,
    /// Payload bytes.
    pub len: u32,
    /// On if the segment is the SYN.
    pub syn: Switch,
    /// On if the FIN follows the segment's payload.
    pub fin: Switch,
    /// On if the segment carries PSH.
    pub push: Switch,
    /// On if the segment belongs to the same batch as the one before (Linux: to the same buffer).
    pub joined: Switch,
    /// First or repeated transmission of its sequence numbers.
    pub turn: Turn,
    /// Reason for sending the segment, for measurement.
    pub cause: Cause,
}

/// First or repeated transmission of sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// First transmission.
    First,
    /// Retransmission.
    Again,
    /// Probe of a closed window.
    Probe,
}

impl Transmission {
    /// Returns the number after the segment's last one.
    pub fn end(&self) -> Seq {
        self.seq + self.len + u32::from(self.syn.is_on()) + u32::from(self.fin.is_on())
    }
}

/// Data at `snd_nxt` that a window admits as one segment.
#[derive(Clone, Copy, Debug)]
pub struct NewData {
    /// Payload bytes; 0 if only the FIN is left, or nothing may leave.
    pub len: u32,
    /// Number of bytes in the send buffer, starting at `snd_nxt`.
    pub in_buffer: u32,
    /// Number of bytes that the window admits, starting at `snd_nxt`.
    pub room: u32,
    /// True if the FIN follows.
    fin: bool,
    /// True if the data was sent before a timeout.
    pub again: bool,
}

impl Stream {
    /// Returns the SYN, unless it has been sent.
    #[inline(never)]
    pub fn next_syn(&self) -> Option<Transmission> {
        if self.snd_nxt != self.iss {
            return None;
        }
        let (cause, turn) =
            if self.tries.data == 0 { (Cause::Handshake, Turn::First) } else { (Cause::Timeout, Turn::Again) };
        let (seq, off) = (self.iss, Switch::Off);
        Some(Transmission { seq, len: 0, syn: Switch::On, fin: off, push: off, joined: off, turn, cause })
    }

    /// Returns the segment that starts at `seq` and ends at `end` at the latest.
    pub fn segment(&self, seq: Seq, end: Seq, cause: Cause) -> Transmission {
        let data_end = 1 + self.queued;
        let data = data_end.saturating_sub(self.pos(seq)).min(u64::from(self.payload())) as u32;
        let len = data.min(end.since(seq));
        let fin = self.is_closed() && self.pos(seq) + u64::from(len) == data_end && end.gt(seq + len);
        let fin = if fin { Switch::On } else { Switch::Off };
        let turn = if seq.lt(self.snd_max) { Turn::Again } else { Turn::First };
        Transmission { seq, len, syn: Switch::Off, fin, push: Switch::Off, joined: Switch::Off, turn, cause }
    }

    /// Returns the data at `snd_nxt` within a window of `window` bytes beyond `snd_una`, or `None` if it is full.
    #[inline(always)]
    pub fn new_data(&self, window: u32) -> Option<NewData> {
        let used = self.snd_nxt.since(self.snd_una);
        let pos = self.pos(self.snd_nxt);
        let data_end = 1 + self.queued;
        if used >= window && used > 0 && self.snd_wnd > 0 && pos < data_end {
            return None;
        }
        let in_buffer = data_end.min(self.buffered_end()).saturating_sub(pos) as u32;
        let room = window.saturating_sub(used);
        let len = self.within_buffer(pos, self.within_record(pos, in_buffer.min(room).min(self.payload())));
        let last = pos + u64::from(len) == data_end;
        let fin = self.is_closed() && last && pos <= data_end && (len > 0 || in_buffer == 0);
        Some(NewData { len, in_buffer, room, fin, again: self.snd_nxt.lt(self.snd_max) })
    }

    /// Returns whether Nagle's rule and the sender's silly-window rule permit `new` (RFC 9293 §3.8.6.2.1).
    #[inline(always)]
    pub fn permits(&self, new: &NewData) -> bool {
        let NewData { len, in_buffer, fin, again, .. } = *new;
        len == self.payload() && len > 0
            || len > 0 && len == in_buffer && (self.is_idle() || !self.holds_small()) && (fin || !self.is_corked())
            || len > 0 && len >= self.max_snd_wnd / 2 && !self.is_corked()
            || len > 0 && len < in_buffer && self.ends_part(self.pos(self.snd_nxt) + u64::from(len))
            || len > 0 && again
            || fin && (!self.fin_sent() || again)
    }

    /// Returns whether a record or a buffer ends at `pos`.
    fn ends_part(&self, pos: u64) -> bool {
        self.is_record_end(pos) || self.is_buffer_end(pos)
    }

    /// Returns whether `new` fills its window although more data follows: nothing else leaves before an acknowledgment.
    #[inline(always)]
    pub fn is_last_in_window(&self, new: &NewData) -> bool {
        let more = self.pos(self.snd_nxt) + u64::from(new.len) < 1 + self.queued;
        new.len >= new.room && self.snd_wnd > 0 && more
    }

    /// Returns the segment with `new`, which leaves.
    #[inline(always)]
    pub fn take_new(&mut self, new: &NewData) -> Transmission {
        let NewData { len, again, .. } = *new;
        if len > 0 && len < self.payload() && !again {
            self.small_end = self.snd_nxt + len;
        }
        let cause = match (again, len) {
            (true, _) => Cause::Timeout,
            (false, 0) => Cause::Handshake,
            (false, _) => Cause::New,
        };
        let fin = if new.fin { Switch::On } else { Switch::Off };
        let turn = if again { Turn::Again } else { Turn::First };
        Transmission {
            seq: self.snd_nxt,
            len,
            syn: Switch::Off,
            fin,
            push: Switch::Off,
            joined: Switch::Off,
            turn,
            cause,
        }
    }
}

//! Waits after the end of a connection at a Linux end, where a short record has replaced the socket
//! (`tcp_timewait_state_process`): TIME-WAIT, and FIN-WAIT-2 after the application has released the connection.

use super::{Connection, Reset, State};
use crate::packet::{Flags, Packet, Segment};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::Instant;

impl Connection {
    /// Returns whether a short record has replaced the socket.
    pub(super) fn is_recorded(&self) -> bool {
        self.ending.record_window.is_some()
    }

    /// Records the window that all later acknowledgments carry.
    pub(super) fn record(&mut self) {
        if self.receiver.is_linux() {
            self.ending.record_window = Some(self.receiver.current_window());
            // Answers count from here.
            self.challenges.sent = 0;
        }
    }

    /// Processes a segment for a short record.
    pub(super) fn on_record(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let (expected, end) = (self.receiver.rcv_nxt(), segment.seq + packet.seq_len());
        let echoed = segment.options.timestamps.filter(|_| self.timestamps.is_on());
        let is_replay = echoed.is_some_and(|timestamps| Seq(timestamps.val).lt(Seq(self.ts_recent)));
        let (has_ack, rst) = (segment.flags.has(Flags::ACK), segment.flags.has(Flags::RST));
        if self.state == State::FinWait2 {
            let window = u32::from(self.ending.record_window.unwrap_or(0)) << self.receiver.window_shift;
            if is_replay || !in_window(segment.seq, end, expected, expected + window) {
                if !rst {
                    self.answer_for_record(now, packet, segment);
                }
            } else if rst {
                self.on_reset();
            } else if segment.flags.has(Flags::SYN) && !segment.seq.lt(expected) {
                self.end_record(segment, end);
            } else if !has_ack || !end.gt(expected) || end == segment.seq {
                // A duplicate.
            } else if !segment.flags.has(Flags::FIN) || end != expected + 1 {
                self.end_record(segment, end);
            } else {
                self.hand_over(now, packet, segment, Switch::On);
                self.after_data(now);
                self.ts_recent = echoed.map_or(self.ts_recent, |timestamps| timestamps.val);
                self.receiver.ack_now();
            }
            return;
        }
        if !is_replay && segment.seq == expected && (end == segment.seq || rst) {
            if rst {
                self.on_reset();
                return;
            }
            self.ts_recent = echoed.map_or(self.ts_recent, |timestamps| timestamps.val);
            self.ending.time_wait = now + self.config.common.time_wait;
        } else if !rst {
            if is_replay || has_ack {
                self.ending.time_wait = now + self.config.common.time_wait;
            }
            self.answer_for_record(now, packet, segment);
        }
    }

    fn answer_for_record(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        if packet.seq_len() > 0 && !segment.flags.has(Flags::SYN) || self.may_answer(now) {
            self.receiver.ack_now();
        }
    }

    /// Resets the peer, which sends data to an application that has left.
    fn end_record(&mut self, segment: &Segment, end: Seq) {
        self.reset = Some(Reset::to(segment, end));
        self.finish(crate::event::Event::Aborted);
    }
}

/// Returns whether a segment lies in a window (`tcp_in_window`).
fn in_window(seq: Seq, end: Seq, left: Seq, right: Seq) -> bool {
    seq == left || end.gt(left) && seq.lt(right) || seq == right && seq == end
}

//! Contract of the two senders.

use crate::host_queue::Queued;
use crate::tcp::ack::Incoming;
use crate::tcp::config::Switch;
use crate::tcp::info::TcpInfo;
use crate::tcp::stream::{Quota, Stream, Transmission};
use crate::time::Instant;

/// Contract of a sender: it decides what leaves and when, repairs losses and controls congestion. The sequence numbers
/// and the peer's window are in the [`Stream`], which [`Sender`](super::Sender) passes to each call.
///
/// The handshake is not part of it, except that the SYN is recorded and repeated like other segments.
pub(in crate::tcp) trait Sending {
    /// Returns congestion window and slow-start threshold, in bytes.
    fn window(&self, s: &Stream) -> (u32, u32);

    /// Fills in the values of `info` that this sender knows.
    fn describe(&self, s: &Stream, info: &mut TcpInfo) {
        let (window, ssthresh) = self.window(s);
        let mss = s.mss().max(1);
        info.snd_cwnd = window / mss;
        info.snd_ssthresh = Some(ssthresh / mss);
    }

    /// Records that the peer does not send selective acknowledgments (RFC 2018 §2).
    fn do_without_sack(&mut self) {}

    /// Records a smaller segment size before the handshake is complete.
    fn on_mss(&mut self, _s: &Stream) {}

    /// Records that the handshake is complete.
    fn on_established(&mut self, _s: &Stream) {}

    /// Returns the part of `bytes` that the send buffer accepts.
    fn offer(&mut self, s: &mut Stream, _now: Instant, bytes: u64) -> u64 {
        bytes.min(s.capacity())
    }

    /// Returns the limits of what leaves while the application writes; nothing if the sender does not know them.
    fn quota(&self, _s: &Stream) -> Quota {
        Quota::default()
    }

    /// Records that the application has written more.
    fn on_write(&mut self);

    /// Records that the application has closed the stream.
    fn on_close(&mut self) {}

    /// Processes an acknowledgment without new information while nothing is outstanding. Returns whether that was all:
    /// if not, [`Self::on_ack`] has to process it.
    fn on_no_news(&mut self) -> bool;

    /// Processes an acknowledgment of sent data, including old ones. `window_before` is the peer's window before it.
    fn on_ack(&mut self, s: &mut Stream, now: Instant, incoming: &Incoming, window_before: u32);

    /// Reduces the window because the acknowledgment processed last echoes a mark, the first one in this window.
    fn on_echo(&mut self, s: &Stream);

    /// Returns whether the new data segment being sent is the first after a reduction, which it reports to the peer
    /// (CWR); `None` if reductions follow [`Self::on_echo`] and retransmissions.
    fn take_reduced(&mut self) -> Option<Switch> {
        None
    }

    /// Returns the time at which the sender must be called, in addition to the timers of the stream.
    fn wake_time(&self) -> Option<Instant> {
        None
    }

    /// Handles an expiry of the retransmission timer or of [`Self::wake_time`].
    fn on_timer(&mut self, s: &mut Stream, now: Instant);

    /// Retransmits outstanding data because the path carries only smaller segments, whose size is set.
    fn resegment(&mut self, s: &mut Stream, now: Instant);

    /// Returns the next segment to send, if windows and rules permit one, and records it as sent.
    fn next(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission>;

    /// Returns a retransmission or new data, if windows and rules permit it. It is not recorded yet.
    fn next_within_windows(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission>;

    /// Records a segment as sent.
    fn record(&mut self, s: &mut Stream, now: Instant, transmission: &Transmission);

    /// Returns the number of the super-segment that the segment polled last is a part of; 0 if it is a part of none.
    fn super_segment(&self) -> u8 {
        0
    }

    /// Records the time at which the segment polled last begins transmission.
    fn schedule_departure(&mut self, _now: Instant, _queued: Queued) {}

    /// Records that a segment with `bytes` of payload, whose departure was unknown, begins transmission. Returns
    /// whether another one may be sent for it.
    fn on_departure(&mut self, _bytes: u32) -> bool {
        false
    }

    /// Returns the SYN, a segment within the windows, or a probe of the peer's window, and records it as sent. Inlined
    /// together with its callees: a simulation spends much of its time here.
    #[inline(always)]
    fn next_in_turn(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        let transmission = if s.is_opening() {
            s.next_syn()?
        } else if s.is_done() && !s.probe_is_due() {
            // Everything is sent and acknowledged: the usual state of an end that only receives.
            return None;
        } else if let Some(transmission) = self.next_within_windows(s, now) {
            transmission
        } else {
            return self.next_probe(s, now);
        };
        self.record(s, now, &transmission);
        Some(transmission)
    }

    /// Returns a probe of the peer's window, if one is due.
    #[inline(never)]
    fn next_probe(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        if !s.probe_is_due() {
            return None;
        }
        let probe = s.take_probe(now)?;
        // A closed window refuses the probe, which is recorded already.
        if s.snd_wnd() > 0 {
            self.record(s, now, &probe);
        }
        Some(probe)
    }
}

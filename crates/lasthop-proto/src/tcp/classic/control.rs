//! Variables of the classic sender that its loss recoveries act on.

use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::congestion::{Congestion, Outstanding};
use crate::tcp::config::{ClassicConfig, CommonConfig, Deflation, RecoveryGuard, Switch};
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// Congestion window, duplicate count, and requests of the loss recovery. Lengths are in bytes.
#[derive(Clone, Debug)]
pub struct SendControl {
    /// Settings of the sender.
    pub config: ClassicConfig,
    /// Congestion control.
    pub cc: Congestion,
    /// Number of consecutive duplicate acknowledgments.
    pub dupacks: u32,
    /// Segment to resend at once, regardless of the windows.
    pub resend: Option<(Seq, Cause)>,
    /// Limited transmit: one new segment may be sent beyond the congestion window, which counts as inflated by
    /// `dupacks`.
    pub limited: Switch,
    /// Bytes sent by limited transmit since the last new acknowledgment.
    pub limited_sent: u32,
    /// Number of segments that may still be sent before the next acknowledgment.
    pub budget: u32,
    /// Bytes above `snd_una` known to have left the network, which do not count against the congestion window.
    pub credit: u32,
}

impl SendControl {
    /// Returns the state before the SYN.
    pub fn new(config: &ClassicConfig, common: &CommonConfig) -> Self {
        Self {
            config: *config,
            cc: Congestion::new(config.growth, common, common.mss),
            dupacks: 0,
            resend: None,
            limited: Switch::Off,
            limited_sent: 0,
            budget: u32::MAX,
            credit: 0,
        }
    }

    /// Returns the congestion window beyond `snd_una`, in bytes.
    #[inline]
    pub fn window(&self) -> u32 {
        self.cc.window().saturating_add(self.credit)
    }

    /// Returns the information that congestion control requires at a loss.
    pub fn outstanding(s: &Stream) -> Outstanding {
        Outstanding { flight: s.flight(), snd_wnd: s.flow_window() }
    }

    /// Reduces the window for a loss attributed to congestion.
    pub fn halve(&mut self, s: &Stream) {
        self.cc.halve(Self::outstanding(s));
    }

    /// Advances `snd_una` to `ack`, as [`Stream::advance`] does. Requests below `ack` are void.
    #[inline]
    pub fn advance(&mut self, s: &mut Stream, now: Instant, ack: Seq, timer: Timer) -> u32 {
        self.limited_sent = 0;
        if self.resend.is_some_and(|(seq, _)| seq.lt(ack)) {
            self.resend = None;
        }
        s.advance(now, ack, timer)
    }

    /// Returns whether [`RecoveryGuard`] permits a fast retransmit, given the `recover` of the last one.
    pub fn may_enter(&self, s: &Stream, recover: Option<Seq>) -> bool {
        match self.config.recovery_guard {
            RecoveryGuard::None => true,
            RecoveryGuard::Ns2 if s.una_pos() == 1 => true,
            RecoveryGuard::Careful | RecoveryGuard::Ns2 => recover.is_none_or(|recover| s.snd_una().gt(recover)),
            RecoveryGuard::OncePerWindow => recover.is_none_or(|recover| s.snd_una().ge(recover)),
        }
    }

    /// Returns whether the window inflated in fast recovery is deflated at its end.
    pub fn deflates(&self, s: &Stream) -> bool {
        match self.config.deflation {
            Deflation::Always => true,
            Deflation::AboveThreshold => self.dupacks > s.config().dupack_threshold,
        }
    }

    /// Ends a recovery that counted the data in the network instead of inflating the window: leaves the window as
    /// inflation would have.
    pub fn leave_inflated(&mut self, s: &Stream) {
        self.cc.deflate(None);
        if !self.deflates(s) {
            self.cc.inflate(s.config().dupack_threshold);
        }
    }

    /// Performs a fast retransmit: resends the lowest unacknowledged segment and halves the window.
    pub fn fast_retransmit(&mut self, s: &mut Stream, now: Instant, cause: Cause) {
        s.report(Event::RecoveryEntered { seq: s.snd_una() });
        // RFC 5681 §3.2 step 2: data sent by limited transmit must not count.
        let Outstanding { flight, snd_wnd } = Self::outstanding(s);
        self.cc.halve(Outstanding { flight: flight.saturating_sub(self.limited_sent), snd_wnd });
        self.resend_lowest(s, now, cause);
    }

    /// Begins a recovery with selective acknowledgments: resends the lowest unacknowledged segment, and halves the
    /// window unless `sack_eln` is on and the acknowledgment reports corruption. Returns whether the window was spared.
    pub fn begin_selective_recovery(&mut self, s: &mut Stream, now: Instant, ack: &Ack) -> bool {
        let spares = s.config().sack_eln.is_on() && ack.eln.is_on();
        if spares {
            s.report(Event::RecoveryEntered { seq: s.snd_una() });
            self.resend_lowest(s, now, Cause::Eln);
        } else {
            self.fast_retransmit(s, now, Cause::FastRetransmit);
        }
        spares
    }

    /// Resends the lowest unacknowledged segment, abandons the current measurement (Karn) and restarts the timer.
    pub fn resend_lowest(&mut self, s: &mut Stream, now: Instant, cause: Cause) {
        s.stop_timing();
        s.restart_timer(now);
        self.resend = Some((s.snd_una(), cause));
    }

    /// Grows the window, except for the acknowledgment of a SYN, which does not count as data.
    pub fn grow(&mut self, acked: u32) {
        if acked > 0 {
            self.cc.grow(acked);
        }
    }

    /// Resets duplicate count and requests, and retransmits all unacknowledged data, starting with the lowest.
    pub fn go_back(&mut self, s: &mut Stream, now: Instant) {
        self.dupacks = 0;
        self.credit = 0;
        self.resend = None;
        self.budget = u32::MAX;
        s.go_back(now);
    }
}

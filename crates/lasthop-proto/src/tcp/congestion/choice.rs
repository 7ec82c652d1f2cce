//! Modern congestion controls, selected at run time.

use alloc::boxed::Box;

use super::bbr::Bbr;
use super::bbr3::{Bbr3, Bbr3Rule};
use super::control::{AckSample, CongestionControl, Episode, LostSegment, Pacing, PathModel};
use super::cubic;
use super::hystart::HystartRule;
use super::reno::Reno;
use super::window::Start;
use crate::time::Instant;

/// Congestion control of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlRule {
    /// Linux's Reno.
    Reno,
    /// CUBIC in Linux's integers.
    Cubic(HystartRule),
    /// CUBIC as written in RFC 9438.
    Cubic9438(HystartRule),
    /// Linux's BBR version 1.
    Bbr,
    /// BBR version 3.
    Bbr3(Bbr3Rule),
}

impl ControlRule {
    /// All congestion controls with each of their variants, for the property tests.
    pub const ALL: [Self; 10] = [
        Self::Reno,
        Self::Cubic(HystartRule::Off),
        Self::Cubic(HystartRule::Linux),
        Self::Cubic(HystartRule::LinuxBefore6_15),
        Self::Cubic(HystartRule::Rfc9406),
        Self::Cubic9438(HystartRule::Off),
        Self::Cubic9438(HystartRule::Rfc9406),
        Self::Bbr,
        Self::Bbr3(Bbr3Rule::Draft),
        Self::Bbr3(Bbr3Rule::Google),
    ];

    /// Returns its name in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Reno => "Reno",
            Self::Cubic(_) => "CUBIC",
            Self::Cubic9438(_) => "CUBIC of RFC 9438",
            Self::Bbr => "BBR version 1",
            Self::Bbr3(_) => "BBR version 3",
        }
    }

    /// Returns the kernel's name of it, or of its counterpart there; `None` if no kernel release has one. Each
    /// congestion control declares this explicitly, so that a kernel never silently runs another in its place.
    pub const fn kernel_name(self) -> Option<&'static str> {
        match self {
            Self::Reno => Some("reno"),
            Self::Cubic(_) | Self::Cubic9438(_) => Some("cubic"),
            Self::Bbr => Some("bbr"),
            Self::Bbr3(_) => None,
        }
    }

    /// Returns its rule for leaving slow start early; `None` if it has no such rule to choose.
    pub const fn hystart(self) -> Option<HystartRule> {
        match self {
            Self::Cubic(hystart) | Self::Cubic9438(hystart) => Some(hystart),
            Self::Reno | Self::Bbr | Self::Bbr3(_) => None,
        }
    }

    /// Returns the same with another rule for leaving slow start early, if it has one.
    #[must_use]
    pub const fn with_hystart(self, hystart: HystartRule) -> Self {
        match self {
            Self::Cubic(_) => Self::Cubic(hystart),
            Self::Cubic9438(_) => Self::Cubic9438(hystart),
            Self::Reno | Self::Bbr | Self::Bbr3(_) => self,
        }
    }

    /// Returns whether it paces segments, and sets the window in recovery and after idle periods itself.
    pub const fn paces(self) -> bool {
        match self {
            Self::Bbr | Self::Bbr3(_) => true,
            Self::Reno | Self::Cubic(_) | Self::Cubic9438(_) => false,
        }
    }
}

/// A congestion control. Those larger than a few words are boxed, so that a connection that never sends stays small.
#[derive(Clone, Debug)]
pub enum Control {
    /// Linux's Reno.
    Reno(Reno),
    /// CUBIC in Linux's integers.
    Cubic(Box<cubic::Linux>),
    /// CUBIC as written in RFC 9438.
    Cubic9438(Box<cubic::Rfc9438>),
    /// Linux's BBR version 1.
    Bbr(Box<Bbr>),
    /// BBR version 3.
    Bbr3(Box<Bbr3>),
}

macro_rules! each {
    ($self:expr, $control:ident => $body:expr) => {
        match $self {
            Control::Reno($control) => $body,
            Control::Cubic($control) => $body,
            Control::Cubic9438($control) => $body,
            Control::Bbr($control) => $body,
            Control::Bbr3($control) => $body,
        }
    };
}

impl Control {
    /// Returns the control of `rule` in its initial state.
    pub fn new(rule: ControlRule, start: &Start) -> Self {
        match rule {
            ControlRule::Reno => Self::Reno(Reno::new(start)),
            ControlRule::Cubic(hystart) => Self::Cubic(Box::new(cubic::Linux::new(start, hystart))),
            ControlRule::Cubic9438(hystart) => Self::Cubic9438(Box::new(cubic::Rfc9438::new(start, hystart))),
            ControlRule::Bbr => Self::Bbr(Box::new(Bbr::new(start))),
            ControlRule::Bbr3(rule) => Self::Bbr3(Box::new(Bbr3::new(start, rule))),
        }
    }
}

impl CongestionControl for Control {
    #[inline]
    fn window(&self) -> u32 {
        each!(self, control => control.window())
    }

    fn ssthresh(&self) -> u32 {
        each!(self, control => control.ssthresh())
    }

    fn set_window(&mut self, segments: u32) {
        each!(self, control => control.set_window(segments));
    }

    fn on_ack(&mut self, ack: &AckSample) {
        each!(self, control => control.on_ack(ack));
    }

    fn on_lost(&mut self, now: Instant, segment: &LostSegment) {
        each!(self, control => control.on_lost(now, segment));
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        each!(self, control => control.on_episode(now, what));
    }

    #[inline]
    fn is_paced(&self) -> bool {
        each!(self, control => control.is_paced())
    }

    #[inline]
    fn pacing(&self) -> Option<Pacing> {
        each!(self, control => control.pacing())
    }

    fn governs_recovery(&self) -> bool {
        each!(self, control => control.governs_recovery())
    }

    fn buffered_windows(&self) -> u32 {
        each!(self, control => control.buffered_windows())
    }

    fn model(&self) -> Option<PathModel> {
        each!(self, control => control.model())
    }

    fn holds_back(&self) -> bool {
        each!(self, control => control.holds_back())
    }
}

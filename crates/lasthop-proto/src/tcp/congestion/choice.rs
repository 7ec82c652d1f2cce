//! The congestion controls of today, chosen at run time.

use alloc::boxed::Box;

use super::bbr::Bbr;
use super::bbr3::{Bbr3, Bbr3Rule};
use super::control::{AckSample, CongestionControl, Episode, LostSegment, Pacing, PathModel};
use super::cubic;
use super::hystart::HystartRule;
use super::reno::Reno;
use super::window::Start;
use crate::time::Instant;

/// Which congestion control a sender has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlRule {
    /// Reno as Linux has it.
    Reno,
    /// CUBIC in Linux's integers.
    Cubic(HystartRule),
    /// CUBIC as RFC 9438 words it.
    Cubic9438(HystartRule),
    /// BBR version 1 as Linux has it.
    Bbr,
    /// BBR version 3.
    Bbr3(Bbr3Rule),
}

/// A congestion control. What is larger than a few words is boxed, so that a connection that never sends stays small.
#[derive(Clone, Debug)]
pub enum Control {
    /// Reno as Linux has it.
    Reno(Reno),
    /// CUBIC in Linux's integers.
    Cubic(Box<cubic::Linux>),
    /// CUBIC as RFC 9438 words it.
    Cubic9438(Box<cubic::Rfc9438>),
    /// BBR version 1 as Linux has it.
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
    /// The control of `rule` at its start.
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

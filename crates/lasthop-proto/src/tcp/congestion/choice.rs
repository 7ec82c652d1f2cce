//! Choice of a modern congestion control at run time.

use alloc::boxed::Box;
use core::fmt;

use super::ALGORITHMS;
use super::algorithm::Algorithm;
use super::bbr::BBR;
use super::bbr3::{BBR3, BBR3_GOOGLE};
use super::control::{AckSample, CongestionControl, Episode, LostSegment, Pacing};
use super::cubic::{CUBIC, CUBIC_RFC9438};
use super::hystart::HystartRule;
use super::prague::PRAGUE;
use super::reno::RENO;
use super::window::Start;
use crate::time::Instant;

/// Congestion control of a sender, with its rule for leaving slow start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ControlRule {
    algorithm: &'static Algorithm,
    hystart: HystartRule,
}

impl ControlRule {
    /// Linux's Reno.
    pub const RENO: Self = Self::of(&RENO);
    /// Linux's BBR version 1.
    pub const BBR: Self = Self::of(&BBR);
    /// BBR version 3 of the draft.
    pub const BBR3: Self = Self::of(&BBR3);
    /// BBR version 3 as published by Google.
    pub const BBR3_GOOGLE: Self = Self::of(&BBR3_GOOGLE);

    /// Prague of draft-briscoe-iccrg-prague-congestion-control.
    pub const PRAGUE: Self = Self::of(&PRAGUE);

    /// Returns CUBIC in Linux's integers.
    pub const fn cubic(hystart: HystartRule) -> Self {
        Self::of(&CUBIC).with_hystart(hystart)
    }

    /// Returns CUBIC as written in RFC 9438.
    pub const fn cubic_rfc9438(hystart: HystartRule) -> Self {
        Self::of(&CUBIC_RFC9438).with_hystart(hystart)
    }

    /// Returns the congestion control that `algorithm` declares, which may be outside [`ALGORITHMS`], with its default
    /// rule for leaving slow start.
    pub const fn of(algorithm: &'static Algorithm) -> Self {
        let hystart = match algorithm.hystart {
            Some(hystart) => hystart,
            None => HystartRule::Off,
        };
        Self { algorithm, hystart }
    }

    /// Returns all congestion controls with each of their variants.
    pub fn all() -> impl Iterator<Item = Self> {
        ALGORITHMS.iter().flat_map(|algorithm| {
            let of = Self::of(algorithm);
            let rules: &[HystartRule] =
                if algorithm.hystart.is_some() { &HystartRule::ALL } else { &[HystartRule::Off] };
            rules.iter().map(move |rule| of.with_hystart(*rule))
        })
    }

    /// Returns the congestion control's declaration.
    pub const fn algorithm(self) -> &'static Algorithm {
        self.algorithm
    }

    /// Returns the congestion control's rule for leaving slow start early; `None` if it has no such rule to choose.
    pub const fn hystart(self) -> Option<HystartRule> {
        match self.algorithm.hystart {
            Some(_) => Some(self.hystart),
            None => None,
        }
    }

    /// Returns the same congestion control with another rule for leaving slow start early, if it leaves early at all.
    #[must_use]
    pub const fn with_hystart(self, hystart: HystartRule) -> Self {
        match self.algorithm.hystart {
            Some(_) => Self { hystart, ..self },
            None => self,
        }
    }

    /// Returns the congestion control's initial state.
    pub fn build(self, start: &Start) -> Box<dyn CongestionControl> {
        (self.algorithm.build)(start, self.hystart)
    }
}

/// Shows the name, and the rule for leaving slow start if there is one; never an address, which differs between runs.
impl fmt::Debug for ControlRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hystart() {
            Some(hystart) => write!(f, "{}({hystart:?})", self.algorithm.name),
            None => f.write_str(self.algorithm.name),
        }
    }
}

/// Congestion control of a sender. Caches the values that the sender reads for every segment; only the methods that
/// take `&mut self` change them.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Box<dyn CongestionControl>,
    window: u32,
    is_paced: bool,
    governs_recovery: bool,
}

impl Control {
    /// Returns the initial state of `rule`.
    pub fn new(rule: ControlRule, start: &Start) -> Self {
        let inner = rule.build(start);
        let (window, is_paced, governs_recovery) = (inner.window(), inner.is_paced(), inner.governs_recovery());
        Self { inner, window, is_paced, governs_recovery }
    }

    fn refresh(&mut self) {
        self.window = self.inner.window();
        self.is_paced = self.inner.is_paced();
    }

    /// Returns [`CongestionControl::window`].
    #[inline]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// Returns [`CongestionControl::ssthresh`].
    pub fn ssthresh(&self) -> u32 {
        self.inner.ssthresh()
    }

    /// Calls [`CongestionControl::set_window`].
    pub fn set_window(&mut self, segments: u32) {
        self.inner.set_window(segments);
        self.refresh();
    }

    /// Calls [`CongestionControl::on_ack`].
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.inner.on_ack(ack);
        self.refresh();
    }

    /// Calls [`CongestionControl::on_lost`].
    pub fn on_lost(&mut self, now: Instant, segment: &LostSegment) {
        self.inner.on_lost(now, segment);
        self.refresh();
    }

    /// Calls [`CongestionControl::on_episode`].
    pub fn on_episode(&mut self, now: Instant, what: Episode) {
        self.inner.on_episode(now, what);
        self.refresh();
    }

    /// Returns [`CongestionControl::is_paced`].
    #[inline]
    pub const fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// Returns [`CongestionControl::pacing`].
    #[inline]
    pub fn pacing(&self) -> Option<Pacing> {
        if self.is_paced { self.inner.pacing() } else { None }
    }

    /// Returns [`CongestionControl::governs_recovery`].
    #[inline]
    pub const fn governs_recovery(&self) -> bool {
        self.governs_recovery
    }

    /// Returns [`CongestionControl::buffered_windows`].
    pub fn buffered_windows(&self) -> u32 {
        self.inner.buffered_windows()
    }

    /// Returns [`CongestionControl::holds_back`].
    pub fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }
}

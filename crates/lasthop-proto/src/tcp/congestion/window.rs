//! Common part of congestion controls like Linux's Reno and CUBIC: a window in whole segments, a threshold, and the values that an undo
//! restores.

use crate::time::Duration;

/// Initial parameters of a control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Initial window, in segments; at least 1.
    pub window: u32,
    /// Maximum window, in segments.
    pub bound: u32,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Period of the clock in which Linux's CUBIC counts: 1 s over the kernel's `HZ`.
    pub jiffy: Duration,
    /// Seed of the control's random draws, if it makes any.
    pub seed: u64,
}

impl Start {
    /// Returns the parameters within the bounds that arithmetic relies on: a window of 1 to 2^30 segments, a segment of
    /// at least a byte, a jiffy of at least a microsecond.
    #[must_use]
    pub fn bounded(self) -> Self {
        let bound = self.bound.clamp(1, 1 << 30);
        Self {
            window: self.window.clamp(1, bound),
            bound,
            mss: self.mss.clamp(1, 1 << 16),
            jiffy: self.jiffy.max(Duration::from_micros(1)),
            seed: self.seed,
        }
    }
}

/// Growth of one segment per this number of delivered segments.
#[derive(Clone, Copy, Debug)]
pub struct Pace(pub u32);

/// Window and threshold in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; `u32::MAX` if there is none.
    pub ssthresh: u32,
    /// Delivered segments that have not made the window grow yet.
    credit: u32,
    initial: u32,
    bound: u32,
    /// Window and threshold before the reduction, while it may be undone.
    prior: Option<(u32, u32)>,
}

impl Window {
    /// Returns the window at its start, without a threshold. Call [`Start::bounded`] first.
    pub fn new(start: &Start) -> Self {
        Self {
            cwnd: start.window,
            ssthresh: u32::MAX,
            credit: 0,
            initial: start.window,
            bound: start.bound,
            prior: None,
        }
    }

    /// Sets the congestion window, clamped to its bounds.
    pub fn set(&mut self, segments: u32) {
        self.cwnd = segments.clamp(1, self.bound);
    }

    /// Returns whether the window is below the threshold.
    pub fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Applies RFC 5681 §3.1 in segments: grows by one for each delivered, up to the threshold. Returns the rest of
    /// `delivered`.
    pub fn slow_start(&mut self, delivered: u32) -> u32 {
        let grown = self.cwnd.saturating_add(delivered).min(self.ssthresh);
        let left = delivered - (grown - self.cwnd);
        self.set(grown);
        left
    }

    /// Grows at a pace. Credit from an earlier, slower pace counts for one segment at most.
    pub fn additive(&mut self, Pace(per): Pace, delivered: u32) {
        let per = per.max(1);
        let mut grown = self.cwnd;
        if self.credit >= per {
            self.credit = 0;
            grown = grown.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(delivered);
        grown = grown.saturating_add(self.credit / per);
        self.credit %= per;
        self.set(grown);
    }

    /// Sets the threshold and remembers the previous state, unless an echoed mark is the reason, which cannot be
    /// undone.
    pub fn reduce_to(&mut self, ssthresh: u32, may_undo: MayUndo) {
        self.prior = match may_undo {
            MayUndo::Yes => Some((self.cwnd, self.lasting_threshold())),
            MayUndo::No => None,
        };
        self.ssthresh = ssthresh;
        self.forget_credit();
    }

    /// Resets the credit towards growth.
    pub fn forget_credit(&mut self) {
        self.credit = 0;
    }

    /// Undoes a spurious reduction.
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.set(self.cwnd.max(cwnd));
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// Returns the threshold to restore: at least three quarters of the window.
    fn lasting_threshold(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }

    /// Applies RFC 2861 as Linux does: halves the window for each whole timeout beyond the first, down to the initial
    /// window.
    pub fn restart_after(&mut self, idle: Duration, rto: Duration) {
        self.ssthresh = self.lasting_threshold();
        let floor = self.initial.min(self.cwnd);
        let rto = rto.as_nanos().max(1);
        // The first timeout of idleness does not count; each further one, even if incomplete, halves once.
        let halvings = idle.as_nanos().div_ceil(rto).saturating_sub(1).min(31);
        self.set((self.cwnd >> halvings).max(floor));
    }

    /// Removes half of the unused window (RFC 2861).
    pub fn unused(&mut self, used: u32) {
        let used = used.max(self.initial);
        if used < self.cwnd {
            self.ssthresh = self.lasting_threshold();
            self.set((self.cwnd + used) / 2);
        }
    }
}

/// Indicates whether a reduction may be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MayUndo {
    /// The reduction follows a loss that may turn out to be spurious.
    Yes,
    /// The reduction follows an echoed mark, which is certain.
    No,
}

impl From<super::control::Reduction> for MayUndo {
    fn from(reduction: super::control::Reduction) -> Self {
        match reduction {
            super::control::Reduction::Ecn => Self::No,
            super::control::Reduction::Loss | super::control::Reduction::ProbeRepaired => Self::Yes,
        }
    }
}

//! What Reno and CUBIC of Linux share: a window in whole segments, a threshold, and what an undone reduction restores.

use crate::time::Duration;

/// What a control is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The initial window, in segments; at least 1.
    pub window: u32,
    /// No window grows beyond this many segments.
    pub bound: u32,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Period of the clock that Linux's CUBIC counts in: 1 s over the kernel's `HZ`.
    pub jiffy: Duration,
    /// Seeds what the control draws at random, if it draws.
    pub seed: u64,
}

impl Start {
    /// The bounds that arithmetic relies on: a window of 1 to 2^30 segments, a segment of at least a byte, a jiffy of at
    /// least a microsecond.
    pub(super) fn bounded(self) -> Self {
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

/// One segment more for each so many delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace(pub u32);

/// Window and threshold in segments.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow-start threshold; `u32::MAX` while there is none.
    pub ssthresh: u32,
    /// Segments delivered that have not made the window grow yet.
    credit: u32,
    initial: u32,
    bound: u32,
    /// Window and threshold before the reduction, while it may be undone.
    prior: Option<(u32, u32)>,
}

impl Window {
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

    pub fn set(&mut self, segments: u32) {
        self.cwnd = segments.clamp(1, self.bound);
    }

    pub fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 §3.1 counted in segments: one for each delivered, up to the threshold. Returns what is left of `delivered`.
    pub fn slow_start(&mut self, delivered: u32) -> u32 {
        let grown = self.cwnd.saturating_add(delivered).min(self.ssthresh);
        let left = delivered - (grown - self.cwnd);
        self.set(grown);
        left
    }

    /// Grows at a pace. A credit that an earlier, slower pace left is worth one segment at most.
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

    /// Sets the threshold and remembers what was, except where an echoed mark asked: that cannot be taken back.
    pub fn reduce_to(&mut self, ssthresh: u32, may_undo: MayUndo) {
        self.prior = match may_undo {
            MayUndo::Yes => Some((self.cwnd, self.lasting_threshold())),
            MayUndo::No => None,
        };
        self.ssthresh = ssthresh;
        self.forget_credit();
    }

    /// Growth starts over.
    pub fn forget_credit(&mut self) {
        self.credit = 0;
    }

    /// The reduction was for nothing.
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.set(self.cwnd.max(cwnd));
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// The threshold to come back to: at least three quarters of the window.
    fn lasting_threshold(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }

    /// RFC 2861 as Linux does it: halved for each whole timeout beyond the first, no further than the initial window.
    pub fn restart_after(&mut self, idle: Duration, rto: Duration) {
        self.ssthresh = self.lasting_threshold();
        let floor = self.initial.min(self.cwnd);
        let rto = rto.as_nanos().max(1);
        // One timeout of idleness halves nothing; what is beyond it, begun timeouts included, halves once each.
        let halvings = idle.as_nanos().div_ceil(rto).saturating_sub(1).min(31);
        self.set((self.cwnd >> halvings).max(floor));
    }

    /// RFC 2861: half of what was not used goes.
    pub fn unused(&mut self, used: u32) {
        let used = used.max(self.initial);
        if used < self.cwnd {
            self.ssthresh = self.lasting_threshold();
            self.set((self.cwnd + used) / 2);
        }
    }
}

/// Whether a reduction may be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MayUndo {
    /// It follows a loss that may turn out to be none.
    Yes,
    /// It follows an echoed mark, which is certain.
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

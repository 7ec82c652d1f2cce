//! Linux's Reno (`tcp_reno_*`): RFC 5681 in segments. Slow start and avoidance count delivered segments, not
//! acknowledgments, so that delayed acknowledgments do not slow growth.

use alloc::boxed::Box;

use super::algorithm::Algorithm;
use super::control::{AckSample, CongestionControl, Episode};
use super::window::{MayUndo, Pace, Start, Window};
use crate::time::Instant;

/// Linux's Reno.
pub static RENO: Algorithm = Algorithm {
    name: "reno",
    title: "Reno",
    about: "",
    family: "reno",
    kernel_name: Some("reno"),
    paces: false,
    scalable: false,
    hystart: None,
    build: |start, _| Box::new(Reno::new(start)),
};

/// Window of a Reno sender.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// Returns the initial state.
    pub fn new(start: &Start) -> Self {
        Self { window: Window::new(&start.bounded()) }
    }

    fn reduce(&mut self, may_undo: MayUndo) {
        self.window.reduce_to((self.window.cwnd / 2).max(2), may_undo);
    }
}

impl CongestionControl for Reno {
    fn window(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn set_window(&mut self, segments: u32) {
        self.window.set(segments);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if !ack.lets_grow() {
            return;
        }
        let mut delivered = ack.delivered;
        if self.window.is_slow_start() {
            delivered = self.window.slow_start(delivered);
        }
        if delivered > 0 {
            self.window.additive(Pace(self.window.cwnd), delivered);
        }
    }

    fn on_episode(&mut self, _now: Instant, what: Episode) {
        match what {
            Episode::Reduce(reduction) => self.reduce(reduction.into()),
            Episode::Timeout { again: false, .. } => self.reduce(MayUndo::Yes),
            Episode::Undone => self.window.undo(),
            Episode::IdleRestart { idle, rto } => self.window.restart_after(idle, rto),
            Episode::Unused { used } => self.window.unused(used),
            Episode::Timeout { again: true, .. } => self.window.forget_credit(),
            Episode::Ended | Episode::Established { .. } | Episode::SendingAgain { .. } => {}
        }
    }
}

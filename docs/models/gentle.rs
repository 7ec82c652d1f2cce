//! A gentle congestion control: two segments more each round trip, a quarter less at a loss.

use lasthop_proto::tcp::congestion::Algorithm;
use lasthop_proto::tcp::congestion::control::{AckSample, CongestionControl, Episode};
use lasthop_proto::tcp::congestion::window::{MayUndo, Pace, Start, Window};
use lasthop_proto::time::Instant;

/// Declaration of the gentle congestion control.
pub static GENTLE: Algorithm = Algorithm {
    name: "gentle",
    title: "Gentle",
    about: "two segments per round trip",
    family: "gentle",
    kernel_name: None,
    paces: false,
    scalable: false,
    hystart: None,
    build: |start, _| Box::new(Gentle::new(start)),
};

/// A gentle sender's window.
#[derive(Clone, Debug)]
pub struct Gentle {
    window: Window,
}

impl Gentle {
    /// Creates a window at its start.
    pub fn new(start: &Start) -> Self {
        Self { window: Window::new(&start.bounded()) }
    }
}

impl CongestionControl for Gentle {
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
            self.window.additive(Pace((self.window.cwnd / 2).max(1)), delivered);
        }
    }

    fn on_episode(&mut self, _now: Instant, what: Episode) {
        match what {
            Episode::Reduce(why) => self.window.reduce_to((self.window.cwnd * 3 / 4).max(2), why.into()),
            Episode::Timeout { again: false, .. } => {
                self.window.reduce_to((self.window.cwnd / 2).max(2), MayUndo::Yes);
            }
            Episode::Undone => self.window.undo(),
            _ => {}
        }
    }
}

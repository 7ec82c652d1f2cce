//! The example of docs/models/adding.md, compiled and run as shown there.

#[path = "../../../../../docs/models/gentle.rs"]
mod gentle;

use self::gentle::Gentle;
use super::control::{AckSample, CaState, CongestionControl, Episode, Reduction};
use super::window::Start;
use super::{control, window};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

fn start() -> Start {
    Start { window: 100, bound: 1 << 20, mss: 1448, jiffy: Duration::from_millis(4), seed: 1 }
}

/// Returns an acknowledgment of `delivered` segments, with the window fully in use.
fn ack(delivered: u32) -> AckSample {
    AckSample {
        now: Instant::ZERO,
        state: CaState::Open,
        delivered,
        acked: delivered,
        total_delivered: delivered.into(),
        newly_lost: 0,
        total_lost: 0,
        prior_in_flight: 100,
        in_flight: 100 - delivered,
        una_advanced: true,
        una: Seq(0),
        nxt: Seq(0),
        may_raise: true,
        round_ended: false,
        is_cwnd_limited: true,
        ece: false,
        rtt: None,
        srtt: Duration::ZERO,
        min_rtt: Duration::ZERO,
        next_send: Instant::ZERO,
        rate: None,
    }
}

#[test]
fn it_takes_a_quarter_off_at_a_loss_and_adds_two_segments_a_round() {
    let mut gentle = Gentle::new(&start());
    gentle.on_episode(Instant::ZERO, Episode::Reduce(Reduction::Loss));
    assert_eq!((gentle.window(), gentle.ssthresh()), (100, 75));
    // Window reduction has decreased it.
    gentle.set_window(75);
    for segments in [25; 3] {
        gentle.on_ack(&ack(segments));
    }
    assert_eq!(gentle.window(), 77);
    // There was no threshold before.
    gentle.on_episode(Instant::ZERO, Episode::Undone);
    assert_eq!((gentle.window(), gentle.ssthresh()), (100, u32::MAX));
}

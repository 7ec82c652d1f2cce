//! A congestion control from outside the crate: the example of docs/models/adding.md, compiled and run as shown there.

#[path = "../../../../docs/models/gentle.rs"]
mod gentle;

use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Preset, TcpConfig};
use lasthop_proto::tcp::congestion::control::{AckSample, CaState, CongestionControl, Episode, Reduction};
use lasthop_proto::tcp::congestion::{ALGORITHMS, ControlRule, Start};
use lasthop_proto::time::{Duration, Instant};

use self::gentle::{GENTLE, Gentle};
use crate::util::{Pair, modern};

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
        marked: 0,
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

/// The same transfer under a congestion control from outside as under the crate's own: nothing is lost, and the window
/// grows in slow start.
#[test]
fn a_connection_runs_under_it() {
    let congestion = ControlRule::of(&GENTLE);
    assert_eq!(format!("{congestion:?}"), "gentle");
    let mut pair = Pair::of(TcpConfig::preset(Preset::Linux618).with(|c| modern(c).congestion = congestion))
        .with_time_per_byte(Duration::from_nanos(5000));
    pair.connect();
    pair.client().write(1 << 20);
    pair.client().close();
    pair.server().close();
    pair.finish();
    assert_eq!((pair.server().received(), pair.timeouts()), (1 << 20, 0));
}

/// A declaration agrees with what the congestion control does, and names are unique.
#[test]
fn declarations_say_what_is_so() {
    for algorithm in ALGORITHMS {
        let rule = ControlRule::of(algorithm);
        let control = rule.build(&start());
        assert_eq!(control.is_paced(), algorithm.paces, "{rule:?}");
        assert_eq!(control.governs_recovery(), algorithm.paces, "{rule:?}");
        assert_eq!(ALGORITHMS.iter().filter(|other| other.name == algorithm.name).count(), 1, "{rule:?}");
        assert!(ALGORITHMS.iter().any(|other| other.name == algorithm.family), "{rule:?}");
        for hystart in lasthop_proto::tcp::config::HystartRule::ALL {
            assert_eq!(rule.with_hystart(hystart).hystart(), algorithm.hystart.map(|_| hystart), "{rule:?}");
        }
    }
}

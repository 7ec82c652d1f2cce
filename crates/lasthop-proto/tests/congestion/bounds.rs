//! For any input, a control's window stays between one segment and its bound, its rate is zero (no limit) or lets
//! segments out, and it does not panic.

use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::congestion::control::{
    AckSample, CaState, Episode, LostSegment, RateSample, Reduction, Totals,
};
use lasthop_proto::tcp::congestion::{ControlRule, Start};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[derive(Clone, Debug)]
enum Event {
    Ack(Box<AckSample>),
    Lost(LostSegment),
    Episode(Episode),
    Window(u32),
}

/// Numbers of all sizes.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..20_u32, 2 => 0..5000_u32, 1 => any::<u32>()]
}

fn total() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..10_000_u64, 1 => any::<u64>()]
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..500_000_000_u64).prop_map(Duration::from_nanos),
        1 => (0..3000_u64).prop_map(Duration::from_nanos),
        1 => any::<u64>().prop_map(Duration::from_nanos),
    ]
}

fn state() -> impl Strategy<Value = CaState> {
    prop_oneof![
        Just(CaState::Open),
        Just(CaState::Disorder),
        Just(CaState::Cwr),
        Just(CaState::Recovery),
        Just(CaState::Loss),
    ]
}

fn rate() -> impl Strategy<Value = RateSample> {
    (count(), span(), total(), count(), count(), any::<[bool; 2]>()).prop_map(
        |(delivered, interval, prior_delivered, tx_in_flight, lost, [is_app_limited, is_ack_delayed])| RateSample {
            delivered,
            interval,
            prior_delivered,
            tx_in_flight,
            lost,
            is_app_limited,
            is_ack_delayed,
        },
    )
}

fn ack() -> impl Strategy<Value = AckSample> {
    let counts = (count(), count(), count(), count(), total(), total());
    let spans = (proptest::option::of(span()), span(), span(), span());
    (counts, spans, state(), any::<[bool; 5]>(), proptest::option::of(rate())).prop_map(
        |(
            (delivered, newly_lost, prior_in_flight, in_flight, total_delivered, total_lost),
            spans,
            state,
            flags,
            rate,
        )| {
            let (rtt, srtt, min_rtt, wait) = spans;
            AckSample {
                now: Instant::ZERO + wait,
                state,
                delivered,
                acked: delivered,
                total_delivered,
                newly_lost,
                total_lost,
                prior_in_flight,
                in_flight,
                una_advanced: flags[0],
                una: Seq(total_delivered as u32),
                nxt: Seq((total_delivered as u32).wrapping_add(in_flight)),
                may_raise: flags[1],
                round_ended: flags[2],
                is_cwnd_limited: flags[3],
                ece: flags[4],
                marked: if flags[4] { newly_lost } else { 0 },
                rtt,
                srtt,
                min_rtt,
                next_send: Instant::ZERO + wait,
                rate,
            }
        },
    )
}

fn episode() -> impl Strategy<Value = Episode> {
    prop_oneof![
        proptest::option::of(span()).prop_map(|rtt| Episode::Established { rtt }),
        Just(Episode::Reduce(Reduction::Loss)),
        Just(Episode::Reduce(Reduction::Ecn)),
        Just(Episode::Reduce(Reduction::ProbeRepaired)),
        Just(Episode::Ended),
        Just(Episode::Undone),
        (any::<bool>(), total(), total(), span()).prop_map(|(again, delivered, lost, at)| Episode::Timeout {
            again,
            totals: Totals { delivered, lost, delivered_at: Instant::ZERO + at },
        }),
        (span(), any::<bool>()).prop_map(|(idle, is_app_limited)| Episode::SendingAgain { idle, is_app_limited }),
        (span(), span()).prop_map(|(idle, rto)| Episode::IdleRestart { idle, rto }),
        count().prop_map(|used| Episode::Unused { used }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => ack().prop_map(|ack| Event::Ack(Box::new(ack))),
        2 => (count(), count(), any::<bool>()).prop_map(|(tx_in_flight, lost, is_app_limited)| {
            Event::Lost(LostSegment { tx_in_flight, lost, is_app_limited })
        }),
        2 => episode().prop_map(Event::Episode),
        1 => count().prop_map(Event::Window),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaves_its_bounds(
        bound in prop_oneof![1..100_u32, any::<u32>()],
        window in prop_oneof![0..20_u32, any::<u32>()],
        mss in any::<u32>(),
        jiffy in span(),
        seed in any::<u64>(),
        gaps in proptest::collection::vec(span(), 80),
        events in proptest::collection::vec(event(), 80),
    ) {
        for rule in ControlRule::all() {
            let mut control = rule.build(&Start { window, bound, mss, jiffy, seed });
            let mut now = Instant::ZERO;
            for (gap, event) in gaps.iter().zip(&events) {
                now += *gap;
                match event {
                    Event::Ack(ack) => {
                        let wait = ack.next_send.since(Instant::ZERO);
                        control.on_ack(&AckSample { now, next_send: now + wait, ..**ack });
                    }
                    Event::Lost(segment) => control.on_lost(now, segment),
                    Event::Episode(episode) => control.on_episode(now, *episode),
                    Event::Window(segments) => control.set_window(*segments),
                }
                let window = control.window();
                prop_assert!(window >= 1 && window <= bound.max(1), "{rule:?}: {window} of {bound} after {event:?}");
                prop_assert!(control.ssthresh() >= 1, "{rule:?} after {event:?}");
                if let Some(pacing) = control.pacing() {
                    // A rate of 0 is no limit; the smallest rate above it lets a segment out within two minutes.
                    let wait = u64::from(mss.min(1 << 16)).checked_div(pacing.rate).unwrap_or(0);
                    prop_assert!(wait <= 120 && pacing.quantum >= 1, "{rule:?}: {wait} s after {event:?}");
                }
                let _ = control.model();
            }
        }
    }
}

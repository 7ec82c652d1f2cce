//! Tests of every model against numbers computed without it: closed forms, and one differential equation. Bounds are 4
//! standard deviations; seeds are fixed, so that a test that passes once always does.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Channel, ErrorSpec, Fate, Frames};
use crate::packet::{Body, Cause, FlowId, Integrity, LinkHeaders, Packet, Priority, Side};
use crate::random::Root;
use crate::time::{Duration, Instant};

fn frame(header_len: u16, len: u32) -> Packet {
    Packet {
        flow: FlowId(0),
        from: Side::Initiator,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Default::default(),
        cause: Cause::Datagram,
        super_segment: 0,
        header_len,
        len,
        body: Body::Datagram { number: 0 },
        link: LinkHeaders::NONE,
        payload: (),
    }
}

fn channel(spec: &ErrorSpec) -> Channel {
    Channel::new(spec, Root(1).stream("wireless/down/errors"))
}

/// Returns the fates of `n` frames, the nth sent at `n * every` and `air` long.
fn fates(spec: &ErrorSpec, packet: Packet, n: u64, every: Duration, air: Duration) -> Vec<Fate> {
    let mut channel = channel(spec);
    let start = |i: u64| Instant::ZERO + every * (i + 1);
    (0..n).map(|i| channel.judge(&packet, start(i), start(i) + air)).collect()
}

/// Returns the fates of `n` frames for models that read no clock.
fn untimed(spec: &ErrorSpec, packet: Packet, n: u64) -> Vec<Fate> {
    fates(spec, packet, n, Duration::ZERO, Duration::ZERO)
}

fn share(fates: &[Fate], is: impl Fn(Fate) -> bool) -> f64 {
    fates.iter().filter(|&&fate| is(fate)).count() as f64 / fates.len() as f64
}

fn hit(fate: Fate) -> bool {
    fate != Fate::Delivered
}

/// Checks that `share` is within 4 standard deviations of `expected`, the mean of `n` draws of which `n / inflation`
/// count as independent.
#[track_caller]
fn assert_share(share: f64, expected: f64, n: usize, inflation: f64) {
    let sigma = libm::sqrt(expected * (1.0 - expected) * inflation / n as f64);
    assert!((share - expected).abs() <= 4.0 * sigma, "{share} instead of {expected} +- {}", 4.0 * sigma);
}

fn exponential(mean_bytes: f64) -> ErrorSpec {
    ErrorSpec::Exponential { mean_bytes, frames: Frames::All }
}

#[test]
fn none_loses_nothing() {
    assert!(untimed(&ErrorSpec::None, frame(40, 1400), 1000).iter().all(|&fate| fate == Fate::Delivered));
}

#[test]
fn exponential_loss_is_that_of_the_length() {
    for (header, len) in [(40, 1400), (40, 0), (0, 250), (40, 65_000)] {
        let expected = 1.0 - libm::exp(-f64::from(u32::from(header) + len) / 65536.0);
        let fates = untimed(&exponential(65536.0), frame(header, len), 400_000);
        assert_share(share(&fates, hit), expected, fates.len(), 1.0);
    }
}

#[test]
fn exponential_errors_hit_header_and_payload_by_position() {
    let p = |bytes: f64| 1.0 - libm::exp(-bytes / 4000.0);
    let fates = untimed(&exponential(4000.0), frame(40, 1400), 400_000);
    assert_share(share(&fates, |fate| fate == Fate::Lost), p(40.0), fates.len(), 1.0);
    assert_share(share(&fates, |fate| fate == Fate::Damaged), p(1440.0) - p(40.0), fates.len(), 1.0);

    let no_payload = untimed(&exponential(4000.0), frame(40, 0), 10_000);
    assert!(no_payload.contains(&Fate::Lost) && !no_payload.contains(&Fate::Damaged));
    let no_header = untimed(&exponential(4000.0), frame(0, 1440), 10_000);
    assert!(no_header.contains(&Fate::Damaged) && !no_header.contains(&Fate::Lost));
}

#[test]
fn exponential_gaps_carry_over_frames() {
    // Until the first error the same bytes pass, however they are divided into frames.
    let first_hit = |len: u64| {
        let fates = untimed(&exponential(65536.0), frame(0, len as u32), 1_000_000 / len);
        fates.iter().position(|&fate| hit(fate)).map(|i| i as u64 * len)
    };
    let exact = first_hit(1).expect("an error within a megabyte");
    assert_eq!(first_hit(1440), Some(exact / 1440 * 1440));
}

#[test]
fn frames_outside_the_filter_pass_and_do_not_count() {
    let models: [fn(Frames) -> ErrorSpec; 5] = [
        |frames| ErrorSpec::Exponential { mean_bytes: 4000.0, frames },
        |frames| ErrorSpec::Uniform { frame_loss: 0.3, frames },
        |frames| ErrorSpec::TwoStatePacket {
            good_to_bad: 0.1,
            bad_to_good: 0.3,
            good_loss: 0.0,
            bad_loss: 0.9,
            frames,
        },
        |frames| ErrorSpec::Burst { mean_bytes: 8000.0, packets: 3, frames },
        |frames| ErrorSpec::Replay { trace: Arc::new(vec![true, false, false]), frames },
    ];
    let (data, ack) = (frame(40, 1400), frame(40, 0));
    for model in models {
        for (frames, watched, other) in [(Frames::Data, data, ack), (Frames::Acks, ack, data)] {
            let spec = model(frames);
            let alone = untimed(&spec, watched, 2000);
            assert!(alone.iter().any(|&fate| hit(fate)), "{spec:?}");
            let mut mixed = channel(&spec);
            for fate in alone {
                assert_eq!(mixed.judge(&other, Instant::ZERO, Instant::ZERO), Fate::Delivered, "{spec:?}");
                assert_eq!(mixed.judge(&watched, Instant::ZERO, Instant::ZERO), fate, "{spec:?}");
            }
        }
    }
}

#[test]
fn uniform_loss_is_the_one_asked_for_at_any_length() {
    for (loss, len) in [(0.015, 40), (0.098, 1400), (0.0, 1400), (1.0, 0)] {
        let fates = untimed(&ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All }, frame(40, len), 400_000);
        assert_share(share(&fates, hit), loss, fates.len(), 1.0);
        assert!(!fates.contains(&Fate::Damaged));
    }
}

#[test]
fn bursts_have_exactly_the_length_asked_for() {
    // Bursts so rare that no two are adjacent here.
    for packets in [1, 2, 4, 6] {
        let spec = ErrorSpec::Burst { mean_bytes: 1e7, packets, frames: Frames::All };
        let fates = untimed(&spec, frame(40, 1400), 1_000_000);
        let runs: Vec<usize> = fates.split(|&fate| !hit(fate)).map(<[Fate]>::len).filter(|&run| run > 0).collect();
        assert!(runs.len() > 80, "{}", runs.len());
        assert!(runs.iter().all(|&run| run == packets as usize), "{runs:?}");
    }
}

#[test]
fn bursts_are_as_frequent_as_asked_for() {
    // A cycle is a burst and the undamaged frames before it, whose number is geometric.
    for packets in [0, 2, 4, 6] {
        let spec = ErrorSpec::Burst { mean_bytes: 65536.0, packets, frames: Frames::All };
        let p = 1.0 - libm::exp(-1440.0 / 65536.0);
        let k = f64::from(packets);
        let fates = untimed(&spec, frame(40, 1400), 1_000_000);
        // Frames of one burst share one fate: at most 2k in a row are correlated.
        assert_share(share(&fates, hit), k / (k + (1.0 - p) / p), fates.len(), 2.0 * k);
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn two_state_time_loses_short_frames_as_the_stationary_mean() {
    let (good_ber, bad_ber) = (1e-5, 1e-3);
    let spec = ErrorSpec::TwoStateTime { good: MS * 90, bad: MS * 10, good_ber, bad_ber };
    let lost = |ber: f64| 1.0 - libm::pow(1.0 - ber, 250.0 * 8.0);
    // Far enough apart to be independent: exp(-(1/90 + 1/10) 300) is below 1e-14.
    let fates = fates(&spec, frame(0, 250), 400_000, MS * 300, Duration::ZERO);
    assert_share(share(&fates, hit), 0.9 * lost(good_ber) + 0.1 * lost(bad_ber), fates.len(), 1.0);
}

/// Returns the probability that a frame of `bits` survives `air` seconds, begun in the stationary state: d/dt of the
/// joint probability of each state and no error so far, integrated by fourth-order Runge-Kutta.
fn survival(good: f64, bad: f64, per_bit: [f64; 2], bits: f64, air: f64) -> f64 {
    let rate = per_bit.map(|ber| -libm::log1p(-ber) * bits / air);
    let slope = |p: [f64; 2]| {
        let (out, back) = (p[0] / good, p[1] / bad);
        [back - out - rate[0] * p[0], out - back - rate[1] * p[1]]
    };
    let step = |p: [f64; 2], k: [f64; 2], h: f64| [p[0] + h * k[0], p[1] + h * k[1]];
    let h = air / 10_000.0;
    let mut p = [good / (good + bad), bad / (good + bad)];
    for _ in 0..10_000 {
        let a = slope(p);
        let b = slope(step(p, a, h / 2.0));
        let c = slope(step(p, b, h / 2.0));
        let d = slope(step(p, c, h));
        for i in 0..2 {
            p[i] += h / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]);
        }
    }
    p[0] + p[1]
}

#[test]
fn two_state_time_loses_long_frames_as_the_kolmogorov_equation_says() {
    // Some ten changes of state in every frame.
    let (good, bad, bers) = (MS * 4, MS * 2, [1e-5, 2e-4]);
    let spec = ErrorSpec::TwoStateTime { good, bad, good_ber: bers[0], bad_ber: bers[1] };
    let expected = 1.0 - survival(4e-3, 2e-3, bers, 1500.0 * 8.0, 30e-3);
    let fates = fates(&spec, frame(40, 1460), 200_000, MS * 100, MS * 30);
    assert_share(share(&fates, hit), expected, fates.len(), 1.0);
}

#[test]
fn two_state_time_gives_the_frame_loss_rates_of_xylomenos() {
    // [b]: 250 bytes at 64 kbps, good 10 s, BER 1e-6 and 1e-2; a published rate for each mean bad time, which the exact
    // one matches within 5 %.
    for (bad_ms, published) in [(100, 0.015), (200, 0.025), (500, 0.054), (1000, 0.098)] {
        let bad = MS * bad_ms;
        let spec = ErrorSpec::TwoStateTime { good: MS * 10_000, bad, good_ber: 1e-6, bad_ber: 1e-2 };
        let air = Duration::from_micros(31_250);
        let expected = 1.0 - survival(10.0, bad.as_secs_f64(), [1e-6, 1e-2], 2000.0, air.as_secs_f64());
        assert!((expected / published - 1.0).abs() < 0.05, "{expected} instead of {published}");
        let fates = fates(&spec, frame(0, 250), 200_000, bad * 20, air);
        assert_share(share(&fates, hit), expected, fates.len(), 1.0);
    }
}

/// States so short that a frame meets millions of them: each bit is hit at the mean rate, in the usual computation
/// time.
#[test]
fn states_far_shorter_than_frames() {
    let (good_ber, bad_ber) = (1e-5, 1e-3);
    let nanos = Duration::from_nanos;
    let spec = ErrorSpec::TwoStateTime { good: nanos(3), bad: nanos(1), good_ber, bad_ber };
    let n = 20_000;
    let fates = fates(&spec, frame(40, 210), n, MS * 20, MS * 10);
    let survives = libm::pow(1.0 - good_ber, 1500.0) * libm::pow(1.0 - bad_ber, 500.0);
    assert_share(share(&fates, hit), 1.0 - survives, n as usize, 1.0);
}

#[test]
fn two_state_time_hits_header_and_payload_by_position() {
    let ber = 1e-4;
    let spec = ErrorSpec::TwoStateTime { good: MS, bad: MS, good_ber: ber, bad_ber: ber };
    let fates = fates(&spec, frame(40, 960), 200_000, MS * 5, MS * 4);
    let survive = |bytes: f64| libm::pow(1.0 - ber, bytes * 8.0);
    assert_share(share(&fates, |fate| fate == Fate::Lost), 1.0 - survive(40.0), fates.len(), 1.0);
    assert_share(share(&fates, |fate| fate == Fate::Damaged), survive(40.0) - survive(1000.0), fates.len(), 1.0);
}

fn fades(good: Duration, bad: Duration) -> ErrorSpec {
    ErrorSpec::TwoStateTime { good, bad, good_ber: 0.0, bad_ber: 1.0 }
}

#[test]
fn two_state_time_states_last_as_long_as_asked_for() {
    // Sampled every millisecond, so that a duration is known to the sample and few states are missed.
    let fates = fates(&fades(MS * 1000, MS * 200), frame(0, 100), 5_000_000, MS, Duration::ZERO);
    let mut states = vec![(fates[0], 0_u32)];
    for fate in fates {
        match states.last_mut() {
            Some((state, n)) if *state == fate => *n += 1,
            _ => states.push((fate, 1)),
        }
    }
    assert_eq!(states[0].0, Fate::Delivered, "begins good");
    for (state, mean) in [(Fate::Delivered, 1000.0), (Fate::Damaged, 200.0)] {
        let lengths: Vec<f64> = states.iter().filter(|s| s.0 == state).map(|s| f64::from(s.1)).collect();
        let n = lengths.len() as f64;
        let found = lengths.iter().sum::<f64>() / n;
        // 1 % for the states shorter than a sample.
        assert!((found / mean - 1.0).abs() < 4.0 / libm::sqrt(n) + 0.01, "{found} instead of {mean}");
    }
}

#[test]
fn two_state_time_fades_do_not_depend_on_the_traffic() {
    let spec = fades(MS * 10, MS * 5);
    let (mut idle, mut busy) = (channel(&spec), channel(&spec));
    for i in 0..20_000 {
        let now = Instant::ZERO + MS * (7 * i);
        let expected = idle.judge(&frame(40, 60), now, now);
        assert_eq!(busy.judge(&frame(40, 60), now, now), expected);
        busy.judge(&frame(40, 1460), now + MS, now + MS * 5);
    }
}

#[test]
fn two_state_time_crosses_long_idle_times_at_once() {
    // Consecutive days of idle time, some 1e9 states each, which no loop could pass here.
    let spec = fades(Duration::from_micros(90), Duration::from_micros(30));
    let fates = fates(&spec, frame(0, 100), 100_000, Duration::from_secs(86_400), Duration::ZERO);
    assert_share(share(&fates, hit), 0.25, fates.len(), 1.0);
}

#[test]
fn two_state_time_stands_extreme_parameters() {
    let ends = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
    for (good, bad) in ends.iter().flat_map(|&good| ends.map(|bad| (good, bad))) {
        let mut channel = channel(&fades(good, bad));
        for at in [0, 1, 1_000_000, u64::MAX / 2, u64::MAX] {
            let at = Instant::from_nanos(at);
            channel.judge(&frame(0, 0), at, at + Duration::from_micros(1));
        }
    }
}

#[test]
fn two_state_packet_loss_is_the_stationary_mean() {
    let (p, r) = (0.02, 0.2);
    let bad = p / (p + r);
    for (good_loss, bad_loss) in [(0.0, 1.0), (0.01, 0.5)] {
        let spec =
            ErrorSpec::TwoStatePacket { good_to_bad: p, bad_to_good: r, good_loss, bad_loss, frames: Frames::All };
        let fates = untimed(&spec, frame(40, 1400), 1_000_000);
        // States are correlated by 1 - p - r from frame to frame.
        let inflation = (2.0 - p - r) / (p + r);
        assert_share(share(&fates, hit), (1.0 - bad) * good_loss + bad * bad_loss, fates.len(), inflation);
        assert!(!fates.contains(&Fate::Damaged));
    }
}

#[test]
fn two_state_packet_runs_of_losses_are_geometric() {
    let spec = ErrorSpec::TwoStatePacket {
        good_to_bad: 0.02,
        bad_to_good: 0.2,
        good_loss: 0.0,
        bad_loss: 1.0,
        frames: Frames::All,
    };
    let fates = untimed(&spec, frame(40, 1400), 1_000_000);
    assert_eq!(fates[0], Fate::Delivered, "begins good");
    let runs: Vec<usize> = fates.split(|&fate| !hit(fate)).map(<[Fate]>::len).filter(|&run| run > 0).collect();
    let (n, lost) = (runs.len() as f64, runs.iter().sum::<usize>() as f64);
    let sigma = libm::sqrt(0.8) / 0.2 / libm::sqrt(n);
    assert!((lost / n - 5.0).abs() < 4.0 * sigma, "{}", lost / n);
    let single = runs.iter().filter(|&&run| run == 1).count() as f64 / n;
    assert_share(single, 0.2, runs.len(), 1.0);
}

#[test]
fn replay_follows_its_trace_and_starts_over() {
    let trace = vec![false, true, true, false, true];
    let spec = ErrorSpec::Replay { trace: Arc::new(trace.clone()), frames: Frames::All };
    let lost: Vec<bool> = untimed(&spec, frame(40, 1400), 12).into_iter().map(|fate| fate == Fate::Lost).collect();
    assert_eq!(lost, trace.iter().copied().cycle().take(12).collect::<Vec<_>>());

    let empty = ErrorSpec::Replay { trace: Arc::new(Vec::new()), frames: Frames::All };
    assert!(untimed(&empty, frame(40, 1400), 12).iter().all(|&fate| fate == Fate::Delivered));
}

#[test]
fn the_same_seed_gives_the_same_fates() {
    let specs = [
        exponential(4000.0),
        ErrorSpec::Uniform { frame_loss: 0.1, frames: Frames::All },
        ErrorSpec::TwoStateTime { good: MS * 10, bad: MS * 2, good_ber: 1e-6, bad_ber: 1e-3 },
        ErrorSpec::TwoStatePacket {
            good_to_bad: 0.1,
            bad_to_good: 0.3,
            good_loss: 0.01,
            bad_loss: 0.9,
            frames: Frames::All,
        },
        ErrorSpec::Burst { mean_bytes: 65536.0, packets: 4, frames: Frames::All },
    ];
    for spec in specs {
        let run = |seed| {
            let mut channel = Channel::new(&spec, Root(seed).stream("wireless/up/errors"));
            let at = |i: u64| Instant::ZERO + MS * (6 * i);
            (0..5000).map(|i| channel.judge(&frame(40, 1400), at(i), at(i) + MS * 6)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1), "{spec:?}");
        assert_ne!(run(1), run(2), "{spec:?}");
    }
}

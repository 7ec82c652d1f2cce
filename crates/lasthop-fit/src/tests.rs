//! Tests that traces made by the simulator's channels yield their family and parameters.

use lasthop_proto::channel::{Channel, ErrorSpec, Fate, Frames};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};

use crate::{Family, LossTrace, Report, Sent, fit};

/// Returns the losses under `spec` of `count` packets of 1,200 bytes, sent in trains of ten at 20 Mbps with exponential
/// pauses.
fn trains(spec: &ErrorSpec, count: u32, seed: u64) -> LossTrace {
    let mut channel = Channel::new(spec, Root(seed).stream("channel"));
    let mut pauses: Stream = Root(seed).stream("pauses");
    let air = Duration::from_micros(480);
    let mut at = Duration::from_secs(100_000);
    let mut packets = Vec::new();
    for number in 0..count {
        let start = Instant::ZERO + at;
        let packet = Packet::<()> { len: 1200, body: Body::Datagram { number }, ..Packet::default() };
        let lost = !matches!(channel.judge(&packet, start, start + air), Fate::Delivered);
        packets.push(Sent { at, air, bytes: packet.wire_len(), lost });
        at = at + air;
        if number % 10 == 9 {
            at = at + Duration::from_nanos(pauses.exponential(20e6) as u64);
        }
    }
    LossTrace::timed(packets)
}

fn uniform(frame_loss: f64) -> ErrorSpec {
    ErrorSpec::Uniform { frame_loss, frames: Frames::All }
}

fn gilbert(loss: f64, run: f64) -> ErrorSpec {
    let bad_to_good = 1.0 / run;
    ErrorSpec::TwoStatePacket {
        good_to_bad: bad_to_good * loss / (1.0 - loss),
        bad_to_good,
        good_loss: 0.0,
        bad_loss: 1.0,
        frames: Frames::All,
    }
}

fn fading(good_ms: u64, bad_ms: u64) -> ErrorSpec {
    ErrorSpec::TwoStateTime {
        good: Duration::from_millis(good_ms),
        bad: Duration::from_millis(bad_ms),
        good_ber: 0.0,
        bad_ber: 1.0,
    }
}

fn report(spec: &ErrorSpec, count: u32, seed: u64) -> Report {
    fit(&trains(spec, count, seed)).expect("the trace has packets")
}

/// Returns the number of seeds, out of 12, for which `family` is chosen, and the number for which the model fits.
fn chosen(spec: &ErrorSpec, family: Family) -> (usize, usize) {
    let reports: Vec<Report> = (1..=12).map(|seed| report(spec, 6_000, seed)).collect();
    let right = reports.iter().filter(|report| report.chosen().family == family).count();
    (right, reports.iter().filter(|report| report.adequacy.fits()).count())
}

#[test]
fn independent_losses_are_found() {
    for loss in [0.005, 0.03, 0.1] {
        let (right, fits) = chosen(&uniform(loss), Family::Uniform);
        assert!(right >= 11 && fits >= 11, "{loss}: {right}, {fits}");
    }
}

#[test]
fn states_by_packet_are_found() {
    for (loss, run) in [(0.01, 4.0), (0.03, 2.0), (0.1, 12.0)] {
        let (right, fits) = chosen(&gilbert(loss, run), Family::TwoStatePacket);
        assert!(right >= 11 && fits >= 11, "{loss}, {run}: {right}, {fits}");
    }
}

#[test]
fn states_by_time_are_found() {
    for (good, bad) in [(500, 10), (1000, 50), (200, 5)] {
        let (right, fits) = chosen(&fading(good, bad), Family::TwoState);
        assert!(right >= 11 && fits >= 11, "{good}, {bad}: {right}, {fits}");
    }
}

#[test]
fn bursts_of_a_fixed_length_are_found() {
    let spec = ErrorSpec::Burst { mean_bytes: 65536.0, packets: 4, frames: Frames::All };
    let (right, fits) = chosen(&spec, Family::Burst);
    assert!(right == 12 && fits >= 11, "{right}, {fits}");
}

/// The 95 % intervals contain the true value in at least 17 of 24 cases; by chance fewer occur once in 10^4.
#[test]
fn intervals_hold_the_truth() {
    let truths = [("good", 0.5), ("bad", 0.02)];
    let mut held = [0; 2];
    for seed in 1..=24 {
        let report = report(&fading(500, 20), 8_000, seed);
        let time = report.fits.iter().find(|fit| fit.family == Family::TwoState).expect("times are known");
        for (held, (key, truth)) in held.iter_mut().zip(truths) {
            let interval = time.parameter(key).and_then(|parameter| parameter.interval);
            let Some([low, high]) = interval else { panic!("seed {seed}: {time:?}") };
            *held += u32::from(low <= truth && truth <= high);
        }
    }
    assert!(held.iter().all(|held| *held >= 17), "{held:?}");
}

#[test]
fn a_bad_state_that_loses_some_only_is_seen() {
    let spec = ErrorSpec::TwoStatePacket {
        good_to_bad: 0.01,
        bad_to_good: 0.1,
        good_loss: 0.002,
        bad_loss: 0.5,
        frames: Frames::All,
    };
    let report = report(&spec, 50_000, 3);
    let chosen = report.chosen();
    assert_eq!(chosen.family, Family::TwoStatePacket);
    let near = |key: &str, truth: f64| {
        let value = chosen.parameter(key).map_or(f64::NAN, |parameter| parameter.value);
        assert!((value / truth - 1.0).abs() < 0.3, "{key}: {value}, in truth {truth}");
    };
    near("good_to_bad", 0.01);
    near("bad_to_good", 0.1);
    near("bad_loss", 0.5);
    near("good_loss", 0.002);
}

/// A link that loses every twentieth packet, like a satellite's slot or a noisy motor, belongs to none of the families,
/// since their losses are random.
#[test]
fn what_no_model_does_is_said() {
    let report = fit(&LossTrace::ordered((1..=20_000).map(|number| number % 20 == 0))).expect("the trace has packets");
    assert!(!report.adequacy.fits(), "{:?}", report.chosen());
}

#[test]
fn sizes_tell_errors_in_bytes_from_errors_in_packets() {
    let spec = ErrorSpec::Exponential { mean_bytes: 20_000.0, frames: Frames::All };
    let mut channel = Channel::new(&spec, Root(1).stream("channel"));
    let packets = (0..5000u32).map(|number| {
        let packet = Packet::<()> {
            len: if number % 2 == 0 { 100 } else { 1400 },
            body: Body::Datagram { number },
            ..Packet::default()
        };
        let lost = !matches!(channel.judge(&packet, Instant::ZERO, Instant::ZERO), Fate::Delivered);
        Sent { at: Duration::from_millis(u64::from(number)), air: Duration::ZERO, bytes: packet.wire_len(), lost }
    });
    let report = fit(&LossTrace::timed(packets.collect())).expect("the trace has packets");
    assert_eq!(report.chosen().family, Family::Exponential);
}

/// A transfer's last segment is short. Its loss in each of three transfers does not show that small packets are lost
/// more often.
#[test]
fn a_few_small_packets_tell_nothing_of_sizes() {
    let spec = ErrorSpec::Uniform { frame_loss: 0.02, frames: Frames::All };
    let mut channel = Channel::new(&spec, Root(1).stream("channel"));
    let packets = (0..5000u32).map(|number| {
        let packet = Packet::<()> { len: 1448, body: Body::Datagram { number }, ..Packet::default() };
        let last = [1000, 3000, 4999].contains(&number);
        let lost = last || !matches!(channel.judge(&packet, Instant::ZERO, Instant::ZERO), Fate::Delivered);
        let bytes = if last { 300 } else { 1500 };
        Sent { at: Duration::from_millis(u64::from(number)), air: Duration::ZERO, bytes, lost }
    });
    let report = fit(&LossTrace::timed(packets.collect())).expect("the trace has packets");
    assert_eq!(report.chosen().family, Family::Uniform);
    assert!(report.adequacy.fits(), "{:?}", report.adequacy);
}

#[test]
fn traces_without_loss_and_without_anything_else_are_no_trouble() {
    assert!(fit(&LossTrace::ordered([])).is_none());
    for losses in [
        vec![false],
        vec![true],
        vec![true; 100],
        vec![false; 100],
        vec![true, false],
        vec![false, true],
        vec![false, true, false],
    ] {
        let report = fit(&LossTrace::ordered(losses.clone())).expect("the trace has packets");
        assert_eq!(report.packets, losses.len() as u64);
        let timed = losses.iter().map(|lost| Sent { at: Duration::ZERO, air: Duration::ZERO, bytes: 0, lost: *lost });
        assert!(fit(&LossTrace::timed(timed.collect())).is_some());
    }
    let none = fit(&LossTrace::ordered(vec![false; 100])).expect("the trace has packets");
    assert_eq!(none.chosen().family, Family::None);
}

#[test]
fn order_alone_tells_nothing_of_time() {
    let losses = trains(&fading(500, 10), 10_000, 1).packets().iter().map(|packet| packet.lost).collect::<Vec<_>>();
    let report = fit(&LossTrace::ordered(losses)).expect("the trace has packets");
    assert!(report.fits.iter().all(|fit| fit.family != Family::TwoState));
}

/// Errors are so frequent that the search may diverge to where every bit is hit: the likelihood must stay one there.
#[test]
fn a_search_that_walks_far_off_finds_no_false_top() {
    let spec = ErrorSpec::Burst { mean_bytes: 65536.0, packets: 4, frames: Frames::All };
    assert_eq!(report(&spec, 6_000, 9).chosen().family, Family::Burst);
}

/// One loss does not determine the duration of bad periods: no interval may be given, and none may cover more than six
/// orders of magnitude.
#[test]
fn what_a_trace_says_nothing_of_has_no_interval() {
    for lost in [&[2_500][..], &[10, 2_500]] {
        let mut packets = trains(&uniform(1e-9), 5_000, 3).packets().to_vec();
        lost.iter().for_each(|&at| packets[at].lost = true);
        let report = fit(&LossTrace::timed(packets)).expect("the trace has packets");
        let two_state = report.fits.iter().find(|fit| fit.family == Family::TwoState).expect("times are known");
        assert_eq!(two_state.parameter("bad").unwrap().interval, None, "{two_state:?}");
        for parameter in report.fits.iter().flat_map(|fit| &fit.parameters) {
            if let Some([low, high]) = parameter.interval {
                assert!(
                    low <= parameter.value && parameter.value <= high && (low == 0.0 || high / low <= 1e6),
                    "{parameter:?}"
                );
            }
        }
    }
}

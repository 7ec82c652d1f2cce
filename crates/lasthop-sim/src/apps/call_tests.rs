use super::*;

const SPEECH: CallConfig = CallConfig {
    interval: Duration::from_millis(20),
    frame: 160,
    packet: 160,
    deadline: Duration::from_millis(100),
    codec: Some(Codec { ie: 0.0, bpl: 25.1 }),
};
const PICTURES: CallConfig = CallConfig { frame: 3000, packet: 1200, codec: None, ..SPEECH };
const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn frames_leave_in_packets() {
    let mut source = CallSource::new(PICTURES, FlowId(3), START, HeaderAccounting::Full);
    let sent: Vec<_> = (0..7)
        .map(|_| {
            let due = source.poll_deadline();
            let packet = source.take();
            let Body::Media { number } = packet.body else { panic!("{packet:?}") };
            (due, number, packet.len, packet.wire_len())
        })
        .collect();
    let frame = |due, first| [(due, first, 1200, 1240), (due, first + 1, 1200, 1240), (due, first + 2, 600, 640)];
    assert_eq!(sent[..3], frame(START, 0));
    assert_eq!(sent[3..6], frame(at(1020), 3));
    assert_eq!(sent[6], (at(1040), 6, 1200, 1240));
    assert_eq!(source.endpoint(), 6);
}

#[test]
fn lost_late_and_not_yet_due() {
    let mut log = CallLog::new(SPEECH, START);
    // Packets 3 and 4 of ten are lost, 6 is late by a nanosecond, 7 arrives twice.
    for number in [0, 1, 2, 5, 7, 7, 8, 9] {
        log.take(at(1030 + 20 * u64::from(number)), number);
    }
    log.take(at(1220) + Duration::from_nanos(1), 6);
    // The deadlines of packets 0 to 9 have passed at 1280 ms; that of packet 10 has not.
    let report = log.report(at(1299));
    assert_eq!((report.sent, report.lost, report.late, report.gaps), (10, 2, 1, 2));
    assert_eq!((report.frames, report.frames_missed), (10, 3));
    assert_eq!(report.missed(), 0.3);
    assert_eq!(report.delays.count(), 8);
    assert_eq!(log.report(at(1279)).sent, 9);
    assert_eq!(log.report(at(1099)), CallReport { delays: log.delays.clone(), ..CallReport::default() });
}

#[test]
fn a_frame_needs_all_its_packets_in_time() {
    let mut log = CallLog::new(PICTURES, START);
    for number in (0..9).filter(|number| *number != 4) {
        log.take(at(1030 + 20 * u64::from(number / 3)), number);
    }
    let report = log.report(at(1140));
    assert_eq!((report.sent, report.lost), (9, 1));
    assert_eq!((report.frames, report.frames_missed), (3, 1));
}

#[test]
fn bursts_are_longer_than_chance_makes_them() {
    let mut log = CallLog::new(SPEECH, START);
    // A burst of four among twenty packets. Independent losses of a fifth have bursts of 1.25 in the mean.
    for number in (0..20).filter(|number| !(8..12).contains(number)) {
        log.take(at(1030 + 20 * u64::from(number)), number);
    }
    let report = log.report(at(1480));
    assert_eq!((report.sent, report.lost, report.gaps), (20, 4, 1));
    assert!((report.burst_ratio() - 3.2).abs() < 1e-12, "{}", report.burst_ratio());
    assert_eq!(CallReport::default().burst_ratio(), 1.0);
}

#[test]
fn quantiles_are_those_of_the_sorted_delays() {
    let mut state = 1_u64;
    let mut all = Vec::new();
    let (mut one, mut other) = (Delays::default(), Delays::default());
    for round in 0..20_000 {
        // Linear congruential generator with Knuth's multiplier; delays from 1 us to 20 s.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nanos = 1000 + (state >> 33) % (1000 << (round % 25));
        all.push(nanos);
        if round % 2 == 0 { &mut one } else { &mut other }.add(Duration::from_nanos(nanos));
    }
    one.merge(&other);
    all.sort_unstable();
    for permille in [1, 100, 500, 900, 990, 999, 1000] {
        let exact = all[(all.len() * permille as usize).div_ceil(1000) - 1];
        let found = one.quantile(permille).unwrap().as_nanos();
        let off = found.abs_diff(exact);
        assert!(off <= 1000 || off * 250 <= exact, "{permille}: {found} for {exact}");
    }
    assert_eq!(one.longest().as_nanos(), *all.last().unwrap());
    assert_eq!(Delays::default().quantile(500), None);
}

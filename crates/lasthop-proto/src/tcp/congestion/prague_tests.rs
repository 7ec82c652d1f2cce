//! Prague against numbers derived by hand from the draft.

use alloc::vec::Vec;

use super::*;

const MSS: u32 = 1000;

fn start() -> Start {
    Start { window: 10, bound: 1 << 20, mss: MSS, jiffy: Duration::from_millis(4), seed: 1 }
}

/// A sender whose acknowledgments arrive one per segment, at a given round trip.
struct Path {
    prague: Prague,
    now: Instant,
    una: u32,
    trip: Duration,
    state: CaState,
}

impl Path {
    fn new(trip: Duration) -> Self {
        let mut prague = Prague::new(&start());
        prague.on_episode(Instant::ZERO, Episode::Established { rtt: Some(trip) });
        Self { prague, now: Instant::ZERO, una: 0, trip, state: CaState::Open }
    }

    /// Acknowledges `delivered` segments, of which `marked` are marked.
    fn ack(&mut self, delivered: u32, marked: u32) {
        self.una += delivered;
        self.prague.on_ack(&AckSample {
            now: self.now,
            state: self.state,
            delivered,
            acked: delivered,
            total_delivered: self.una.into(),
            newly_lost: 0,
            total_lost: 0,
            prior_in_flight: self.prague.window,
            in_flight: self.prague.window,
            una_advanced: true,
            una: Seq(self.una * MSS),
            nxt: Seq((self.una + self.prague.window) * MSS),
            may_raise: true,
            round_ended: false,
            is_cwnd_limited: true,
            ece: marked > 0,
            marked,
            rtt: Some(self.trip),
            srtt: self.trip,
            min_rtt: self.trip,
            next_send: self.now,
            rate: None,
        });
    }

    /// Acknowledges a window one by one, of which every `nth` segment is marked, and reports the first mark.
    fn round(&mut self, nth: u32) {
        let window = self.prague.window;
        let mut reduced = false;
        for number in 1..=window {
            self.now += self.trip / u64::from(window);
            let marked = nth > 0 && number % nth == 0;
            if marked && !reduced {
                reduced = true;
                self.prague.on_episode(self.now, Episode::Reduce(Reduction::Ecn));
                self.state = CaState::Cwr;
            }
            self.ack(1, u32::from(marked));
        }
        self.prague.on_episode(self.now, Episode::Ended);
        self.state = CaState::Open;
    }

    fn exact(&self) -> f64 {
        self.prague.exact as f64 / f64::from(1 << FRACTION)
    }

    fn average(&self) -> f64 {
        self.prague.average as f64 / (ALL << GAIN) as f64
    }

    /// Sets a window beyond slow start.
    fn settle(&mut self, window: u32, average: f64) {
        self.prague.window = window;
        self.prague.ssthresh = window;
        self.prague.exact = u64::from(window) << FRACTION;
        self.prague.average = (average * (ALL << GAIN) as f64) as u64;
        self.prague.seen_mark = true;
    }
}

const TRIP: Duration = Duration::from_millis(20);

/// Slow start doubles the window per round. The first mark halves it, because the average starts at 1, and ends slow
/// start; the window follows by a segment per acknowledgment.
#[test]
fn the_first_mark_ends_slow_start() {
    let mut path = Path::new(TRIP);
    path.round(0);
    path.round(0);
    assert_eq!((path.prague.window, path.prague.ssthresh), (40, u32::MAX));
    path.prague.on_episode(path.now, Episode::Reduce(Reduction::Ecn));
    path.ack(1, 1);
    assert_eq!(path.exact(), 20.0);
    assert_eq!((path.prague.window, path.prague.ssthresh), (39, 39));
    (0..30).for_each(|_| path.ack(1, 1));
    assert_eq!(path.prague.window, 20);
}

/// The average moves by 1/16 of the difference per round. A round of 100 segments with 10 marks: 0 + 0.1/16 = 0.00625,
/// then 0.00625 + (0.1 - 0.00625)/16 = 0.01211.
#[test]
fn the_average_follows_the_share() {
    let mut path = Path::new(TRIP);
    path.settle(100, 0.0);
    // The first acknowledgment begins a round, and is its own.
    path.ack(1, 0);
    path.prague.window = 100;
    let shares: Vec<f64> = (0..2)
        .map(|_| {
            path.round(10);
            path.average()
        })
        .collect();
    assert!((shares[0] - 0.00625).abs() < 2e-4 && (shares[1] - 0.01211).abs() < 4e-4, "{shares:?}");
}

/// A reduction by α/2: 100 · (1 - 0.2/2) = 90 at an average of 0.2. Unmarked segments add 1/W each, marked ones none.
#[test]
fn marks_reduce_by_half_of_the_average() {
    let mut path = Path::new(TRIP);
    path.settle(100, 0.2);
    path.prague.on_episode(path.now, Episode::Reduce(Reduction::Ecn));
    assert!((path.exact() - 90.0).abs() < 1e-4, "{}", path.exact());
    path.ack(9, 9);
    assert!((path.exact() - 90.0).abs() < 1e-4, "{}", path.exact());
    path.ack(9, 0);
    // The window counts in whole segments, rounded up.
    assert!((path.exact() - 90.0 - 9.0 / 91.0).abs() < 1e-4, "{}", path.exact());
}

/// After 500 rounds a flow of 10 ms grows by (10/25)² = 0.16 segments per round trip, and reduces at most once per
/// 25 ms. At 100 ms nothing changes.
#[test]
fn growth_is_independent_of_the_round_trip() {
    for (trip, growth) in [(10, 0.16), (25, 1.0), (90, 1.0)] {
        let mut path = Path::new(Duration::from_millis(trip));
        path.settle(100, 0.0);
        path.prague.rounds = TRANSITION;
        path.prague.srtt = path.trip;
        path.prague.scale_increase();
        path.round(0);
        assert!((path.exact() - 100.0 - growth).abs() < 0.03, "{trip} ms: {}", path.exact());
    }
    let mut path = Path::new(Duration::from_millis(10));
    path.settle(100, 1.0);
    path.prague.rounds = TRANSITION;
    let mut reduce = |at: u64| {
        path.prague.on_episode(Instant::ZERO + Duration::from_millis(at), Episode::Reduce(Reduction::Ecn));
        path.exact()
    };
    assert_eq!([reduce(100), reduce(120), reduce(126)].map(|exact| (exact * 100.0).round()), [5000.0, 5000.0, 2500.0]);
}

/// A loss halves, as in Reno, and marks cause no growth or average until it is repaired; an undo restores.
#[test]
fn a_loss_halves() {
    let mut path = Path::new(TRIP);
    path.settle(100, 0.0);
    path.state = CaState::Recovery;
    path.prague.on_episode(path.now, Episode::Reduce(Reduction::Loss));
    assert_eq!(path.exact(), 50.0);
    (0..60).for_each(|_| path.ack(1, 0));
    assert_eq!((path.prague.window, path.exact()), (50, 50.0));
    path.prague.on_episode(path.now, Episode::Undone);
    assert_eq!((path.prague.window, path.exact()), (100, 100.0));
    // After a timeout the window grows back by a segment per acknowledgment.
    path.prague
        .on_episode(path.now, Episode::Timeout { again: false, totals: super::super::control::Totals::default() });
    path.prague.set_window(1);
    path.state = CaState::Loss;
    (0..10).for_each(|_| path.ack(1, 0));
    assert_eq!((path.prague.window, path.exact()), (11, 50.0));
}

/// 100 segments of 1000 bytes per 20 ms are 5 MB/s; a burst of 1/4096 s is one segment, but two leave together. In slow
/// start the rate is doubled.
#[test]
fn pacing_follows_the_exact_window() {
    let mut path = Path::new(TRIP);
    path.settle(100, 0.0);
    assert_eq!(path.prague.pacing(), Some(Pacing { rate: 5_000_000, quantum: 2 }));
    path.prague.ssthresh = u32::MAX;
    assert_eq!(path.prague.pacing(), Some(Pacing { rate: 10_000_000, quantum: 2 }));
    path.settle(2000, 0.0);
    assert_eq!(path.prague.pacing(), Some(Pacing { rate: 100_000_000, quantum: 24 }));
}

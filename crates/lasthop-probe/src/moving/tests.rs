//! Families on drawn series, without packets.

use lasthop_proto::random::{Root, Stream};

use super::*;

/// Returns trains at random times within intervals of 0.2 s, with the rate `mbps` at their time and 1 % of noise.
fn trains(seconds: f64, seed: u64, mut mbps: impl FnMut(f64, &mut Stream) -> f64) -> Vec<Train> {
    let mut draws = Root(seed).stream("tests");
    let train = |number: usize| {
        let at = SHORTEST * (number as f64 + draws.uniform());
        let rate = 1e6 * mbps(at, &mut draws);
        let mut noisy = || rate * libm::exp(0.01 * draws.normal());
        Train {
            at,
            rate: Some(noisy()),
            halves: Some([noisy(), noisy()]),
            delay: Some(0.0),
            size: 1500,
            sent: 16,
            lost: 0,
            held: None,
            gaps: vec![12e3 / rate; 15],
            paced: Paced::ByPath,
        }
    };
    (0..(seconds / SHORTEST) as usize).map(train).collect()
}

fn named(trains: &[Train]) -> (&'static str, String) {
    let found = recognise(trains, &[]).unwrap();
    (found.family.name(), found.why)
}

/// Of 200 constant rates, at most one in a hundred is called moving.
#[test]
fn constant_rates_do_not_move() {
    let moving = (0..200).filter(|seed| named(&trains(60.0, *seed, |_, _| 20.0)).0 != "constant").count();
    assert!(moving <= 2, "{moving}");
}

/// Holding times of 2 s and 0.5 s, 20 and 2 Mbps, for 300 s: the chain has these within their sampling error.
#[test]
fn a_markov_chain_is_found_again() {
    let (mut until, mut good) = (0.0, false);
    let all = trains(300.0, 4, |at, draws| {
        while at >= until {
            good = !good;
            until += draws.exponential(if good { 2.0 } else { 0.5 });
        }
        if good { 20.0 } else { 2.0 }
    });
    let found = recognise(&all, &[]).unwrap();
    let Family::Markov(chain) = &found.family else { panic!("{}: {}", found.family.name(), found.why) };
    let [bad, good] = &chain.states[..] else { panic!("{chain:?}") };
    assert!((bad.rate / 2e6 - 1.0).abs() < 0.02 && (good.rate / 20e6 - 1.0).abs() < 0.02, "{chain:?}");
    // Some 120 visits each: a standard error of 9 %; trains miss some of the short visits.
    assert!((1.5..2.8).contains(&good.mean) && (0.35..0.75).contains(&bad.mean), "{chain:?}");
    assert!((chain.shares[1] - 0.8).abs() < 0.06, "{chain:?}");
}

/// A slow drift is none of the families: only the measured rates describe it.
#[test]
fn a_drift_fits_no_family() {
    let (family, why) = named(&trains(60.0, 1, |at, _| 20.0 * libm::exp(libm::sin(at / 7.0))));
    assert!(family == "replay" && why.contains("no family fits"), "{family}: {why}");
}

/// Slots of 14 s are not slots of 15 s.
#[test]
fn other_periods_are_no_slots() {
    for (period, seed) in [(14.0, 1), (11.0, 2), (17.5, 3)] {
        let mut draws = Root(seed).stream("slots");
        let rates: Vec<f64> = (0..30).map(|_| 30.0 * libm::exp(0.2 * draws.normal())).collect();
        let rate = |at: f64, draws: &mut Stream| {
            let since = at % period;
            let dip = if since < 0.4 { 0.3 } else { 1.0 };
            rates[(at / period) as usize] * dip * libm::exp(0.1 * draws.normal())
        };
        let (family, why) = named(&trains(180.0, seed, rate));
        assert_ne!(family, "slots", "{period}: {why}");
    }
}

#[test]
fn a_few_trains_say_nothing() {
    let found = recognise(&trains(15.0, 1, |_, _| 20.0), &[]).unwrap();
    assert_eq!((found.family.name(), found.fits), ("unknown", None));
    assert!(found.words().contains("too short to say"), "{}", found.words());
    assert!(recognise(&[], &[]).is_none());
}

/// A cell's scheduler serves a short train at once: three packets each millisecond and a pause, at 50 Mbps, while an
/// overload gets 15 Mbps. Where both get the same, the trains count.
#[test]
fn a_cell_is_as_fast_as_its_overloads() {
    let mut all = trains(60.0, 5, |_, draws| 50.0 * libm::exp(0.3 * draws.normal()));
    for (number, train) in all.iter_mut().enumerate() {
        train.gaps = (0..15).map(|gap| if gap % 3 == number % 3 { 1e-3 * (1 + gap % 2) as f64 } else { 0.0 }).collect();
    }
    let found = recognise(&all, &[14e6, 16e6]).unwrap();
    assert_eq!((found.family.name(), found.mean, found.by_loads), ("cell", 15e6, true), "{}", found.why);
    let found = recognise(&all, &[45e6]).unwrap();
    assert!(found.family.name() == "cell" && found.mean > 45e6 && !found.by_loads, "{found:?}");
}

/// The words that users need.
#[test]
fn a_line_says_what_users_need() {
    let outage = Outage { from: 1.0, until: 1.1 };
    let found = Moving {
        family: Family::Slots(SlotsFound {
            period: 15.0,
            first: 1.0,
            mean: 50e6,
            spread: 0.2,
            inner: 0.1,
            outage: [0.06, 0.1],
            outage_seen: true,
            slots: 5,
            fits: Some(true),
        }),
        why: String::new(),
        fits: Some(true),
        mean: 48e6,
        range: [33.2e6, 67.1e6],
        changes: Some(15.0),
        outages: vec![outage, outage],
        trains: 300,
        by_loads: false,
        by_sender: false,
    };
    assert_eq!(
        found.words(),
        "48 Mbps on average, 33 to 67 nine tenths of the time; changes each 15 s; nothing arrives for 0.1 s at each change"
    );
}

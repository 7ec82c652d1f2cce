//! Gains and shares of proportional fairness in theory.

extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::random::Root;

/// With N users of independent exponential rates the total throughput is the mean rate times `1 + 1/2 + ... + 1/N`, and
/// the time is shared equally.
#[test]
fn throughput_with_exponential_rates_is_a_harmonic_number() {
    for (users, gain) in [(1, 1.0), (2, 1.5), (4, 25.0 / 12.0), (8, 761.0 / 280.0)] {
        let mut fair = Fair::new(users, 1000);
        let mut stream = Root(1).stream("rates");
        let (mut total, mut times) = (0.0, vec![0u32; users]);
        let ttis = 300_000;
        for tti in 0..ttis + 5000 {
            let rates: Vec<u64> = (0..users).map(|_| 1 + stream.exponential(1e6) as u64).collect();
            rates.iter().enumerate().for_each(|(user, rate)| fair.offer(user, *rate));
            let best = fair.best().unwrap();
            fair.serve(best, rates[best]);
            fair.end();
            if tti >= 5000 {
                total += rates[best] as f64;
                times[best] += 1;
            }
        }
        let measured = total / f64::from(ttis) / 1e6;
        assert!((measured / gain - 1.0).abs() < 0.01, "{users}: {measured}");
        for time in times {
            let share = f64::from(time) / f64::from(ttis) * users as f64;
            assert!((share - 1.0).abs() < 0.01, "{users}: {share}");
        }
    }
}

/// Constant rates of 1, 2 and 4: a third of the time each, so a third of each rate.
#[test]
fn unequal_rates_share_time() {
    let rates = [100_000, 200_000, 400_000];
    let mut fair = Fair::new(3, 99);
    let mut times = [0; 3];
    for _ in 0..30_000 {
        rates.iter().enumerate().for_each(|(user, rate)| fair.offer(user, *rate));
        let best = fair.best().unwrap();
        fair.serve(best, rates[best]);
        times[best] += 1;
        fair.end();
    }
    assert!(times.iter().all(|time| (9_950..10_050).contains(time)), "{times:?}");
}

/// A member that leaves capacity in a TTI is followed by the next best; one that is out of range is not served.
#[test]
fn the_rest_of_a_tti_goes_to_the_next() {
    let mut fair = Fair::new(3, 99);
    fair.set_average(0, 500.0);
    fair.set_average(1, 100.0);
    fair.offer(0, 1000);
    fair.offer(1, 1000);
    fair.offer(2, 0);
    assert_eq!(fair.best(), Some(1));
    fair.serve(1, 40);
    assert_eq!(fair.best(), Some(0));
    fair.serve(0, 1000);
    assert_eq!(fair.best(), None);
    fair.end();
    let averages = fair.members.iter().map(|member| member.average).collect::<Vec<_>>();
    assert!((averages[0] - (500.0 + 500.0 / 99.0)).abs() < 1e-9 && (averages[1] - (100.0 - 60.0 / 99.0)).abs() < 1e-9);
    // Nobody takes part without an offer; ten TTIs reduce an average by (98/99)^10.
    assert_eq!(fair.best(), None);
    fair.set_average(0, 1000.0);
    fair.decay(0, 10);
    assert!((fair.members[0].average - 903.4598).abs() < 0.001, "{}", fair.members[0].average);
}

//! Distribution and correlation of the shadowing, and CQIs computed from the formula.

extern crate std;

use std::vec::Vec;

use super::super::spec::LTE;
use super::*;
use crate::random::Root;

fn channel(quality: Quality) -> Channel {
    Channel::new(quality, LTE.thresholds(), Duration::from_millis(1), Root(2).stream("a/down/quality"))
}

/// `log2(1 + SNR / Γ)` is 0.240, 0.653, 1.490, 2.748 and 4.254 at 0, 5, 10, 15 and 20 dB. The highest efficiencies below
/// are 0.23, 0.60, 1.48, 2.73 and 3.90: CQI 2, 4, 7, 10 and 12. CQI 1 begins at `10 log10(Γ (2^0.15 - 1))` = -2.176 dB.
#[test]
fn cqi_is_the_highest_below_capacity() {
    let cqi = |snr: f64| channel(Quality::fixed(snr)).cqi(Instant::ZERO).map(|cqi| cqi + 1);
    let cqis = [-2.19, -2.17, 0.0, 5.0, 10.0, 15.0, 20.0, 40.0].map(cqi);
    assert_eq!(cqis, [None, Some(1), Some(2), Some(4), Some(7), Some(10), Some(12), Some(15)]);
}

#[test]
fn shadowing_has_its_deviation_and_correlation() {
    let quality = Quality { mean: 12.0, sigma: 4.0, coherence: Duration::from_millis(160) };
    let mut channel = channel(quality);
    let interval = Duration::from_millis(10);
    let levels: Vec<f64> = (0..400_000)
        .map(|step| {
            channel.cqi(Instant::ZERO + interval.saturating_mul(step));
            channel.level
        })
        .collect();
    let count = levels.len() as f64;
    let mean = levels.iter().sum::<f64>() / count;
    let variance = levels.iter().map(|level| level * level).sum::<f64>() / count;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    for (lag, expected) in [(1, 0.9394), (16, 0.3679), (48, 0.0498)] {
        let pairs = levels.iter().zip(&levels[lag..]).map(|(a, b)| a * b);
        let correlation = pairs.sum::<f64>() / count;
        assert!((correlation - expected).abs() < 0.03, "{lag}: {correlation}");
    }
}

/// A channel has the same quality regardless of how often it is queried.
#[test]
fn a_channel_does_not_depend_on_traffic() {
    let quality = Quality { mean: 12.0, sigma: 4.0, coherence: Duration::from_millis(50) };
    let (mut often, mut rarely) = (channel(quality), channel(quality));
    for step in 0..10_000u64 {
        let at = Instant::ZERO + Duration::from_millis(step);
        let cqi = often.cqi(at);
        if step % 997 == 0 {
            assert_eq!(cqi, rarely.cqi(at));
        }
    }
}

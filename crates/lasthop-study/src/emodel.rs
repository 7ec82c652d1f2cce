//! The E-model of ITU-T G.107: the effect of delay and losses on a conversation.

/// Parameters of a connection that differ from G.107's default values (Table 2): those of its delay, and of its
/// packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speech {
    /// Mouth-to-ear delay in milliseconds: T and Ta; Tr is twice that.
    pub delay: f64,
    /// Equipment impairment factor of the codec, Ie.
    pub ie: f64,
    /// Packet-loss robustness factor of the codec, Bpl.
    pub bpl: f64,
    /// Share of packets that did not arrive in time, from 0 to 1. G.107's Ppl is in percent.
    pub loss: f64,
    /// Mean length of loss bursts relative to independent losses, BurstR.
    pub burst_ratio: f64,
}

// G.107, Table 2, in dB unless stated otherwise.
const SEND_LOUDNESS: f64 = 8.0;
const RECEIVE_LOUDNESS: f64 = 2.0;
const SIDETONE: f64 = 15.0;
const D_SENDER: f64 = 3.0;
const D_RECEIVER: f64 = 3.0;
const TALKER_ECHO: f64 = 65.0;
const ECHO_PATH: f64 = 110.0;
/// Distortion in quantizing distortion units.
const QUANTIZING: f64 = 1.0;
/// Noise in dBm0p.
const CIRCUIT_NOISE: f64 = -70.0;
/// Noise in dBmp.
const NOISE_FLOOR: f64 = -64.0;
/// Noise in dB(A), for both rooms.
const ROOM_NOISE: f64 = 35.0;

fn power(decibel: f64) -> f64 {
    10_f64.powf(decibel / 10.0)
}

/// Returns `(1 + x^n)^(1/n)`.
fn soft_max(x: f64, n: f64) -> f64 {
    (1.0 + x.powf(n)).powf(1.0 / n)
}

impl Speech {
    /// Returns the rating factor R (G.107 §7.1): 93.2 for a connection with default values only, lower for a worse one,
    /// and below 0 for an unusable one.
    pub fn rating(&self) -> f64 {
        let overall = SEND_LOUDNESS + RECEIVE_LOUDNESS;
        // §7.2: the basic signal-to-noise ratio.
        let send_room =
            ROOM_NOISE - SEND_LOUDNESS - D_SENDER - 100.0 + 0.004 * (ROOM_NOISE - overall - D_SENDER - 14.0).powi(2);
        let effective = ROOM_NOISE + 10.0 * (1.0 + power(10.0 - SIDETONE - D_RECEIVER)).log10();
        let receive_room = RECEIVE_LOUDNESS - 121.0 + effective + 0.008 * (effective - 35.0).powi(2);
        let floor = NOISE_FLOOR + RECEIVE_LOUDNESS;
        let noise = 10.0 * [CIRCUIT_NOISE, send_room, receive_room, floor].map(power).iter().sum::<f64>().log10();
        let ratio = 15.0 - 1.5 * (SEND_LOUDNESS + noise);
        ratio - self.simultaneous(ratio, noise) - self.delayed(ratio, noise) - self.equipment()
    }

    /// Returns the simultaneous impairments (§7.3).
    fn simultaneous(&self, ratio: f64, noise: f64) -> f64 {
        let x = SEND_LOUDNESS + RECEIVE_LOUDNESS + 0.2 * (64.0 + noise - RECEIVE_LOUDNESS);
        let loudness = 20.0 * (soft_max(x / 8.0, 8.0) - x / 8.0);
        let sidetone = -10.0 * (power(-SIDETONE) + (-self.delay / 4.0).exp() * power(-TALKER_ECHO)).log10();
        let sidetone = 12.0 * (1.0 + ((sidetone - 13.0) / 6.0).powi(8)).powf(1.0 / 8.0)
            - 28.0 * soft_max((sidetone + 1.0) / 19.4, 35.0)
            - 13.0 * soft_max((sidetone - 3.0) / 33.0, 13.0)
            + 29.0;
        let q = 37.0 - 15.0 * QUANTIZING.log10();
        let g = 1.07 + 0.258 * q + 0.0602 * q * q;
        let (y, z) = ((ratio - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0, 46.0 / 30.0 - g / 40.0);
        loudness + sidetone + 15.0 * (1.0 + 10_f64.powf(y) + 10_f64.powf(z)).log10()
    }

    /// Returns the delay impairments (§7.4): talker echo, listener echo, and the delay itself.
    fn delayed(&self, ratio: f64, noise: f64) -> f64 {
        let delay = self.delay;
        let talker = if delay < 1.0 {
            0.0
        } else {
            let level = TALKER_ECHO - 40.0 * ((1.0 + delay / 10.0) / (1.0 + delay / 150.0)).log10()
                + 6.0 * (-0.3 * delay * delay).exp();
            let half = (-1.5 * (noise - RECEIVE_LOUDNESS) - (80.0 + 2.5 * (level - 14.0))) / 2.0;
            (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - (-delay).exp())
        };
        let half = (ratio - 10.5 * (ECHO_PATH + 7.0) * (2.0 * delay + 1.0).powf(-0.25)) / 2.0;
        let listener = half + (half * half + 169.0).sqrt();
        let absolute = if delay <= 100.0 {
            0.0
        } else {
            let x = (delay / 100.0).log2();
            25.0 * (soft_max(x, 6.0) - 3.0 * soft_max(x / 3.0, 6.0) + 2.0)
        };
        talker + listener + absolute
    }

    /// Returns the impairments of codec and losses, Ie,eff (§7.5).
    fn equipment(&self) -> f64 {
        let percent = 100.0 * self.loss;
        self.ie + (95.0 - self.ie) * percent / (percent / self.burst_ratio + self.bpl)
    }
}

/// Returns the mean opinion score of a rating (G.107 Annex B), from 1 to 4.5.
pub fn opinion_score(rating: f64) -> f64 {
    match rating {
        ..=0.0 => 1.0,
        100.0.. => 4.5,
        // The cubic falls below 1 for ratings between 0 and 6.5, outside of the scale of opinions.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Speech = Speech { delay: 0.0, ie: 0.0, bpl: 4.3, loss: 0.0, burst_ratio: 1.0 };

    #[track_caller]
    fn is(speech: Speech, rating: f64, score: f64) {
        let found = speech.rating();
        assert!((found - rating).abs() < 1e-6, "R {found}, not {rating}");
        assert!((opinion_score(found) - score).abs() < 1e-6, "MOS {}, not {score}", opinion_score(found));
    }

    /// G.107 §7.7: "the default values ... R = 93.2", and its MOS by Annex B.
    #[test]
    fn default_values_are_as_published() {
        assert_eq!(format!("{:.1}", DEFAULT.rating()), "93.2");
        assert_eq!(format!("{:.2}", opinion_score(DEFAULT.rating())), "4.41");
    }

    /// Annex B, Table B.1: limits of R and their scores.
    #[test]
    fn scores_are_as_published() {
        for (rating, score) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            let found = opinion_score(rating);
            // One of them is rounded up.
            assert!((found - score).abs() < 0.007, "{rating}: {found}");
        }
        assert_eq!([-1.0, 0.0, 100.0, 120.0].map(opinion_score), [1.0, 1.0, 4.5, 4.5]);
    }

    /// P.800's scale begins at 1: no rating has a lower score, and a higher rating never has a lower score than a lower
    /// one.
    #[test]
    fn no_score_is_below_one() {
        let scores: Vec<f64> = (0..=1000).map(|tenth| opinion_score(f64::from(tenth) / 10.0)).collect();
        assert!(scores.iter().all(|score| (1.0..=4.5).contains(score)));
        assert!(scores.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    /// Results of an independent implementation of the same formulas in Python.
    #[test]
    fn vectors_of_another_implementation() {
        is(DEFAULT, 93.206_207_723, 4.409_405_954);
        for (delay, rating, score) in [
            (20.0, 92.531_343_496, 4.395_970_446),
            (100.0, 90.663_730_328, 4.354_920_132),
            (150.0, 89.539_131_974, 4.327_545_871),
            (170.0, 88.576_462_091, 4.302_583_140),
            (300.0, 72.666_360_059, 3.719_431_275),
            (500.0, 54.803_170_603, 2.828_005_709),
        ] {
            is(Speech { delay, ..DEFAULT }, rating, score);
        }
        is(Speech { loss: 0.01, ..DEFAULT }, 75.281_679_421, 3.833_915_748);
        is(Speech { loss: 0.05, bpl: 25.1, ..DEFAULT }, 77.425_476_826, 3.923_090_700);
        let bursts = Speech { loss: 0.03, bpl: 25.1, burst_ratio: 2.0, ..DEFAULT };
        is(bursts, 82.491_922_009, 4.114_608_916);
        let far = Speech { delay: 150.0, ie: 11.0, bpl: 19.0, loss: 0.02, ..DEFAULT };
        is(far, 70.539_131_974, 3.622_182_460);
    }
}

//! Errors of frames on the air, by signal-to-noise ratio or with a fixed probability.

use alloc::vec::Vec;

use super::phy::{Phy, RateIndex, Standard};
use crate::random::Stream;

/// Loss of frames on the air.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FrameLoss {
    /// Probability that an attempt fails, at any rate and size.
    Fixed(f64),
    /// Signal-to-noise ratio in dB, after reception of each stream.
    Snr(f64),
}

/// Minimum sensitivity of receivers at 20 MHz in dBm for MCS 0 to 11 (IEEE 802.11-2020, tables 19-23 and 21-25;
/// 802.11ax, table 27-51).
const SENSITIVITY: [i32; 12] = [-82, -79, -77, -74, -70, -66, -65, -64, -59, -57, -54, -52];
/// The same for OFDM's rates (table 17-18).
const OFDM_SENSITIVITY: [i32; 8] = [-82, -81, -79, -77, -74, -70, -66, -65];
/// Noise that these tables assume: thermal noise in 20 MHz (-101 dBm), noise figure (10 dB), implementation margin
/// (5 dB).
const NOISE: i32 = -86;
/// Loss at the minimum sensitivity, 10 %, as logarithm of the odds (ln 9), for frames of this size in bytes.
const ODDS: f64 = 2.197_224_577_336_22;
const REFERENCE_BYTES: f64 = 4_096.0;
const OFDM_REFERENCE_BYTES: f64 = 1_000.0;
/// Change of the signal-to-noise ratio, in dB, that changes the odds of a loss by a factor of e.
const STEEPNESS: f64 = 0.35;

/// Error process of a line.
#[derive(Clone, Debug)]
pub(super) struct FrameErrors {
    loss: FrameLoss,
    /// Probability that a frame of the reference size arrives, by rate.
    arrives: Vec<f64>,
    reference_bytes: f64,
    /// Loss of the last rate and size.
    known: (RateIndex, u32, f64),
    stream: Stream,
}

impl FrameErrors {
    pub(super) fn new(loss: FrameLoss, phy: &Phy, stream: Stream) -> Self {
        let ofdm = phy.standard == Standard::Ofdm;
        let arrives = match loss {
            FrameLoss::Fixed(_) => Vec::new(),
            FrameLoss::Snr(snr) => (0..usize::from(phy.rates()))
                .map(|rate| {
                    let sensitivity = if ofdm { OFDM_SENSITIVITY[rate] } else { SENSITIVITY[rate] };
                    let above = snr - f64::from(sensitivity - NOISE);
                    1.0 - 1.0 / (1.0 + libm::exp(above / STEEPNESS + ODDS))
                })
                .collect(),
        };
        let reference_bytes = if ofdm { OFDM_REFERENCE_BYTES } else { REFERENCE_BYTES };
        Self { loss, arrives, reference_bytes, known: (RateIndex(0), 0, 0.0), stream }
    }

    /// Returns the probability that a frame of `bytes` is lost at a rate.
    pub(super) fn probability(&mut self, rate: RateIndex, bytes: u32) -> f64 {
        match self.loss {
            FrameLoss::Fixed(loss) => loss,
            FrameLoss::Snr(_) => {
                let (known_rate, known_bytes, loss) = self.known;
                if known_bytes == bytes && known_rate == rate {
                    return loss;
                }
                let arrives = self.arrives.get(usize::from(rate.0)).copied().unwrap_or_default();
                let loss = 1.0 - libm::pow(arrives, f64::from(bytes) / self.reference_bytes);
                self.known = (rate, bytes, loss);
                loss
            }
        }
    }

    /// Draws whether a frame of `bytes` is lost at a rate.
    pub(super) fn strike(&mut self, rate: RateIndex, bytes: u32) -> bool {
        let loss = self.probability(rate, bytes);
        loss > 0.0 && self.stream.chance(loss)
    }
}

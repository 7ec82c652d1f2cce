//! Likelihoods of two hidden states, good and bad: by packet (Gilbert 1960, Elliott 1963) and by time (the second
//! study's channel).
//!
//! The forward algorithm: the probabilities of the two states, given the packets so far, are propagated from packet to
//! packet; the likelihood is the product of the probabilities of each packet's fate. The chain is in its stationary
//! state when a trace begins.

use crate::trace::Sent;

/// Probabilities of good and bad.
type Chances = [f64; 2];
/// Transition matrix from the row's state to the column's.
type Matrix = [[f64; 2]; 2];

fn apply(chances: Chances, matrix: &Matrix) -> Chances {
    [chances[0] * matrix[0][0] + chances[1] * matrix[1][0], chances[0] * matrix[0][1] + chances[1] * matrix[1][1]]
}

/// Two-state chain.
trait Chain {
    /// Returns the initial probabilities of the states.
    fn stationary(&self) -> Chances;
    /// Returns the transitions between two packets, if there are any.
    fn between(&mut self, previous: &Sent, packet: &Sent) -> Option<Matrix>;
    /// Returns the transitions while a packet is sent, if it survives and if it is lost.
    fn during(&mut self, packet: &Sent) -> (Matrix, Matrix);
}

fn log_likelihood(chain: &mut impl Chain, packets: &[Sent]) -> f64 {
    // Below this, the product is moved into the logarithm.
    const SMALL: f64 = 1e-200;
    let mut chances = chain.stationary();
    let mut log = 0.0;
    let mut previous: Option<&Sent> = None;
    for packet in packets {
        if let Some(matrix) = previous.and_then(|previous| chain.between(previous, packet)) {
            chances = apply(chances, &matrix);
        }
        let (survives, dies) = chain.during(packet);
        chances = apply(chances, if packet.lost { &dies } else { &survives });
        let sum = chances[0] + chances[1];
        if sum < SMALL {
            if sum <= 0.0 {
                return f64::NEG_INFINITY;
            }
            log += libm::log(sum);
            chances = [chances[0] / sum, chances[1] / sum];
        }
        previous = Some(packet);
    }
    log + libm::log(chances[0] + chances[1])
}

/// States by packet: the current state decides on loss, then it may change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ByPacket {
    pub(crate) good_to_bad: f64,
    pub(crate) bad_to_good: f64,
    pub(crate) good_loss: f64,
    pub(crate) bad_loss: f64,
}

impl ByPacket {
    pub(crate) fn log_likelihood(self, packets: &[Sent]) -> f64 {
        // Transitions from the current state for packets with this fate.
        let matrix = |good: f64, bad: f64| {
            [
                [good * (1.0 - self.good_to_bad), good * self.good_to_bad],
                [bad * self.bad_to_good, bad * (1.0 - self.bad_to_good)],
            ]
        };
        let mut chain = PacketChain {
            stationary: stationary(self.good_to_bad, self.bad_to_good),
            survives: matrix(1.0 - self.good_loss, 1.0 - self.bad_loss),
            dies: matrix(self.good_loss, self.bad_loss),
        };
        log_likelihood(&mut chain, packets)
    }
}

fn stationary(to_bad: f64, to_good: f64) -> Chances {
    let bad = to_bad / (to_bad + to_good);
    [1.0 - bad, bad]
}

struct PacketChain {
    stationary: Chances,
    survives: Matrix,
    dies: Matrix,
}

impl Chain for PacketChain {
    fn stationary(&self) -> Chances {
        self.stationary
    }
    fn between(&mut self, _: &Sent, _: &Sent) -> Option<Matrix> {
        None
    }
    fn during(&mut self, _: &Sent) -> (Matrix, Matrix) {
        (self.survives, self.dies)
    }
}

/// States by time: they last for exponentially distributed times, and bits are hit independently within a state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ByTime {
    /// Mean duration of the good state in seconds.
    pub(crate) good: f64,
    /// Mean duration of the bad state in seconds.
    pub(crate) bad: f64,
    /// Expected errors per bit in the good state: `-ln(1 - BER)`.
    pub(crate) good_errors: f64,
    /// Expected errors per bit in the bad state.
    pub(crate) bad_errors: f64,
}

impl ByTime {
    pub(crate) fn log_likelihood(self, packets: &[Sent]) -> f64 {
        let mut chain = TimeChain {
            model: self,
            gap: (f64::NAN, Matrix::default()),
            frame: (f64::NAN, 0, Matrix::default(), Matrix::default()),
        };
        log_likelihood(&mut chain, packets)
    }

    /// Returns `exp(M t)`, where `M` has the transition rates minus the loss rates of each state, both per second.
    fn exponential(self, lost: [f64; 2], time: f64) -> Matrix {
        let (to_bad, to_good) = (1.0 / self.good, 1.0 / self.bad);
        let (a, d) = (-(to_bad + lost[0]), -(to_good + lost[1]));
        // The eigenvalues are real, since the product of the transition rates is positive.
        let mean = (a + d) / 2.0;
        let half = (a - d) / 2.0;
        let s = libm::sqrt(half * half + to_bad * to_good);
        // The greater eigenvalue, mean + s, without subtracting two numbers that may be large and similar.
        let greater = -(to_bad * lost[1] + to_good * lost[0] + lost[0] * lost[1]) / (s - mean);
        // cosh(s t) and sinh(s t) / s, both times exp(mean t).
        let top = libm::exp(greater * time);
        let fall = libm::exp(-2.0 * s * time);
        let cosh = top * (1.0 + fall) / 2.0;
        let sinh = if s * time < 1e-9 { top * time } else { top * (1.0 - fall) / (2.0 * s) };
        [[cosh + half * sinh, to_bad * sinh], [to_good * sinh, cosh - half * sinh]]
    }
}

/// Chain that caches the last gap and the last frame: probes are often evenly spaced, and of one size.
struct TimeChain {
    model: ByTime,
    gap: (f64, Matrix),
    frame: (f64, u32, Matrix, Matrix),
}

impl Chain for TimeChain {
    fn stationary(&self) -> Chances {
        stationary(1.0 / self.model.good, 1.0 / self.model.bad)
    }

    fn between(&mut self, previous: &Sent, packet: &Sent) -> Option<Matrix> {
        let ends = previous.at.as_secs_f64() + previous.air.as_secs_f64();
        let gap = packet.at.as_secs_f64() - ends;
        if gap <= 0.0 {
            return None;
        }
        if gap != self.gap.0 {
            self.gap = (gap, self.model.exponential([0.0; 2], gap));
        }
        Some(self.gap.1)
    }

    fn during(&mut self, packet: &Sent) -> (Matrix, Matrix) {
        let air = packet.air.as_secs_f64();
        if (air, packet.bytes) != (self.frame.0, self.frame.1) {
            let bits = 8.0 * f64::from(packet.bytes);
            let (survives, all) = if air > 0.0 {
                let lost = [self.model.good_errors * bits / air, self.model.bad_errors * bits / air];
                (self.model.exponential(lost, air), self.model.exponential([0.0; 2], air))
            } else {
                let stays = |errors: f64| libm::exp(-errors * bits);
                ([[stays(self.model.good_errors), 0.0], [0.0, stays(self.model.bad_errors)]], [[1.0, 0.0], [0.0, 1.0]])
            };
            let mut dies = all;
            for (row, of_row) in dies.iter_mut().zip(survives) {
                for (to, survives) in row.iter_mut().zip(of_row) {
                    *to = (*to - survives).max(0.0);
                }
            }
            self.frame = (air, packet.bytes, survives, dies);
        }
        (self.frame.2, self.frame.3)
    }
}

//! Likelihoods of two hidden states, good and bad: by packet (Gilbert 1960, Elliott 1963) and by time (the second
//! study's channel).
//!
//! The forward algorithm: the probabilities of the two states, given the packets so far, are propagated from packet to
//! packet; the likelihood is the product of the probabilities of each packet's fate. The chain is in its stationary
//! state when a trace begins. Runs of packets with the same transitions are propagated at once ([`crate::chain`]).

use crate::bits::Bits;
use crate::chain::{Chain, Chances, Forward, Matrix, Steps, product};
use crate::trace::{Form, LossTrace};

/// States by packet: the current state decides on loss, then it may change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ByPacket {
    pub(crate) good_to_bad: f64,
    pub(crate) bad_to_good: f64,
    pub(crate) good_loss: f64,
    pub(crate) bad_loss: f64,
}

impl ByPacket {
    /// Returns the log-likelihood of losses, whose steps are [`Self::steps`], under each model.
    pub(crate) fn log_likelihoods(models: &[Self], steps: &Steps) -> Vec<f64> {
        steps.log_likelihoods(&models.iter().map(|model| model.chain()).collect::<Vec<_>>())
    }

    fn chain(self) -> Chain<2> {
        // Transitions from the current state for packets with this fate.
        let matrix = |good: f64, bad: f64| {
            [
                [good * (1.0 - self.good_to_bad), good * self.good_to_bad],
                [bad * self.bad_to_good, bad * (1.0 - self.bad_to_good)],
            ]
        };
        let survives = matrix(1.0 - self.good_loss, 1.0 - self.bad_loss);
        let dies = matrix(self.good_loss, self.bad_loss);
        Chain { start: stationary(self.good_to_bad, self.bad_to_good), matrices: [survives, dies] }
    }

    /// Returns the steps of a chain over `losses`: of kind 0 for packets that survive, and 1 for lost ones.
    pub(crate) fn steps(losses: &Bits) -> Steps {
        Steps::of(|| losses.runs().map(|(lost, count)| (u32::from(lost), count)))
    }
}

fn stationary(to_bad: f64, to_good: f64) -> Chances {
    let bad = to_bad / (to_bad + to_good);
    [1.0 - bad, bad]
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
    /// Returns the log-likelihood under each model.
    pub(crate) fn log_likelihoods(models: &[Self], packets: &Timed<'_>) -> Vec<f64> {
        match &packets.steps {
            Some(steps) => steps.log_likelihoods(&models.iter().map(|model| model.chain(packets)).collect::<Vec<_>>()),
            None => models.iter().map(|model| model.by_packet(packets)).collect(),
        }
    }

    fn start(self) -> Chances {
        stationary(1.0 / self.good, 1.0 / self.bad)
    }

    fn chain(self, packets: &Timed<'_>) -> Chain<4> {
        let mut cache = Cache::default();
        let matrix = |[gap, lost]: [bool; 2]| {
            let fate = cache.during(self, packets.form, lost);
            if gap { product(&self.between(packets.gap), &fate) } else { fate }
        };
        Chain { start: self.start(), matrices: Timed::KINDS.map(matrix) }
    }

    /// Returns the log-likelihood of packets that differ in their spacing or form.
    fn by_packet(self, packets: &Timed<'_>) -> f64 {
        let mut cache = Cache::default();
        let mut forward = Forward::from(self.start());
        let mut ends = None;
        for ((at, form), lost) in packets.trace.timings().zip(packets.trace.losses()) {
            let at = at.as_secs_f64();
            if let Some(gap) = ends.map(|ends: f64| at - ends).filter(|gap| *gap > 0.0) {
                forward.apply(&cache.between(self, gap));
            }
            if !forward.step(&cache.during(self, form, lost)) {
                return f64::NEG_INFINITY;
            }
            ends = Some(at + form.air.as_secs_f64());
        }
        forward.log_likelihood()
    }

    /// Returns the transitions in `gap` seconds without packets.
    fn between(self, gap: f64) -> Matrix {
        self.exponential([0.0; 2], gap)
    }

    /// Returns the transitions while a packet is sent: if it survives, and if it is lost.
    fn during(self, form: Form) -> (Matrix, Matrix) {
        let air = form.air.as_secs_f64();
        let bits = 8.0 * f64::from(form.bytes);
        let (survives, all) = if air > 0.0 {
            let lost = [self.good_errors * bits / air, self.bad_errors * bits / air];
            (self.exponential(lost, air), self.exponential([0.0; 2], air))
        } else {
            let stays = |errors: f64| libm::exp(-errors * bits);
            ([[stays(self.good_errors), 0.0], [0.0, stays(self.bad_errors)]], [[1.0, 0.0], [0.0, 1.0]])
        };
        let mut dies = all;
        for (row, of_row) in dies.iter_mut().zip(survives) {
            for (to, survives) in row.iter_mut().zip(of_row) {
                *to = (*to - survives).max(0.0);
            }
        }
        (survives, dies)
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

/// Packets with times. Those at even times, with one size, are summarised as steps of equal transitions.
pub(crate) struct Timed<'t> {
    trace: &'t LossTrace,
    /// Steps by kind, an index into [`Self::KINDS`].
    steps: Option<Steps>,
    /// Seconds between packets, and their form, if there are steps.
    gap: f64,
    form: Form,
}

impl<'t> Timed<'t> {
    /// Kinds of steps: preceded by a gap or not, lost or not. Only the first packet has no gap before it.
    const KINDS: [[bool; 2]; 4] = [[true, false], [true, true], [false, false], [false, true]];

    /// Returns whether likelihoods are those of [`Steps`].
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// Summarises a trace that is not empty.
    pub(crate) fn of(trace: &'t LossTrace) -> Self {
        let form = trace.form(0);
        let Some(interval) = trace.even_interval() else { return Self { trace, steps: None, gap: 0.0, form } };
        let gap = interval.as_nanos().saturating_sub(form.air.as_nanos()) as f64 / 1e9;
        let steps = Steps::of(|| {
            trace.bits().runs().enumerate().flat_map(move |(at, (lost, count))| {
                let alone = u32::from(at == 0 && gap > 0.0);
                let [with_gap, without] = if gap > 0.0 { [0, 2] } else { [2, 2] };
                [(without + u32::from(lost), alone), (with_gap + u32::from(lost), count - alone)]
            })
        });
        Self { trace, steps: Some(steps), gap, form }
    }
}

/// Transitions in the last gap and during the last packet: probes are often evenly spaced, and of one size.
#[derive(Default)]
struct Cache {
    gap: Option<(f64, Matrix)>,
    frame: Option<(Form, Matrix, Matrix)>,
}

impl Cache {
    fn between(&mut self, model: ByTime, gap: f64) -> Matrix {
        match self.gap {
            Some((known, matrix)) if known == gap => matrix,
            _ => self.gap.insert((gap, model.between(gap))).1,
        }
    }

    fn during(&mut self, model: ByTime, form: Form, lost: bool) -> Matrix {
        let (_, survives, dies) = match self.frame {
            Some(known) if known.0 == form => known,
            _ => {
                let (survives, dies) = model.during(form);
                *self.frame.insert((form, survives, dies))
            }
        };
        if lost { dies } else { survives }
    }
}

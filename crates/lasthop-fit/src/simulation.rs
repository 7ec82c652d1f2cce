//! Losses of a model for the packets of a trace.
//!
//! They are those of [`Channel`], which judges one frame after the other. Two models whose states do not depend on time
//! are run without it, by the same random numbers: independent losses from one loss to the next, and states by packet
//! without a branch. A hundred runs over millions of packets take most of the time of a fit.

use lasthop_proto::channel::{Channel, ErrorSpec, Fate, Frames};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};

use crate::bits::Bits;
use crate::trace::{Form, LossTrace};

/// Number of packets before the trace, for a channel with states in packets: channels begin in the good state, but a
/// trace begins at a random point of a link's life.
const PACKETS_BEFORE: u32 = 2000;

/// Returns whether the model loses the same packets in every run.
pub(crate) fn is_certain(spec: &ErrorSpec) -> bool {
    let is_certain = |chance: f64| chance == 0.0 || chance == 1.0;
    match *spec {
        ErrorSpec::None => true,
        ErrorSpec::Uniform { frame_loss, .. } => is_certain(frame_loss),
        ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, .. } => {
            [good_to_bad, bad_to_good, good_loss, bad_loss].into_iter().all(is_certain)
        }
        _ => false,
    }
}

/// Returns the losses of the model for the trace's packets.
pub(crate) fn simulate(trace: &LossTrace, spec: &ErrorSpec, run: u64) -> Bits {
    let stream = Root(run).stream("fit");
    match *spec {
        ErrorSpec::Uniform { frame_loss, frames: Frames::All } if frame_loss < 1.0 => {
            independent(trace.len(), frame_loss, stream)
        }
        ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, frames: Frames::All } => {
            let mut states =
                States { leave: [good_to_bad, bad_to_good], loss: [good_loss, bad_loss], bad: false, stream };
            for _ in 0..PACKETS_BEFORE {
                states.next();
            }
            (0..trace.len()).map(|_| states.next()).collect()
        }
        _ => by_frame(trace, spec, stream),
    }
}

/// Returns the losses of the trace's packets by a channel, one after the other.
fn by_frame(trace: &LossTrace, spec: &ErrorSpec, stream: Stream) -> Bits {
    // A channel with states in time forgets its initial state in idle time, one with states in packets over packets.
    const LONG_BEFORE: Duration = Duration::from_secs(1_000_000);
    let mut channel = Channel::new(spec, stream);
    let mut packet = Packet::<()> { body: Body::Datagram { number: 0 }, ..Packet::default() };
    let mut judge = |bytes: u32, start: Instant, end: Instant| {
        packet.len = bytes;
        !matches!(channel.judge(&packet, start, end), Fate::Delivered)
    };
    if matches!(spec, ErrorSpec::TwoStatePacket { .. }) {
        for _ in 0..PACKETS_BEFORE {
            judge(1, Instant::ZERO, Instant::ZERO);
        }
    }
    let origin = Instant::ZERO + LONG_BEFORE;
    let lost = |(at, form): (Duration, Form)| {
        let start = origin + at;
        judge(form.bytes, start, start + form.air)
    };
    trace.timings().map(lost).collect()
}

/// Returns independent losses among `count` packets. The distance to the next loss is exponential, in expected errors,
/// and each packet takes its share from it.
fn independent(count: usize, frame_loss: f64, mut stream: Stream) -> Bits {
    let per_frame = -libm::log1p(-frame_loss);
    let table = survivors_by_cell(per_frame);
    let mut losses = Bits::zeros(count);
    let mut at = 0;
    loop {
        let uniform = stream.uniform();
        let left = count - at;
        at += match table[(uniform * CELLS as f64) as usize] {
            UNDECIDED => survivors(-libm::log(1.0 - uniform), per_frame, left),
            survivors => left.min(survivors as usize),
        };
        if at >= count {
            return losses;
        }
        losses.set(at);
        at += 1;
    }
}

/// Number of equal parts of the random numbers, in most of which all have the same number of survivors.
const CELLS: usize = 4096;
/// Entry of a cell whose numbers differ.
const UNDECIDED: u16 = u16::MAX;

/// Returns the survivors of the random numbers in each cell: a logarithm takes longer than all else for a loss.
fn survivors_by_cell(per_frame: f64) -> Vec<u16> {
    let quotient = |cell: usize| -libm::log1p(-(cell as f64 / CELLS as f64)) / per_frame;
    let of = |cell: usize| {
        let (least, most) = (quotient(cell), quotient(cell + 1));
        // Far more than all roundings, those of `survivors` included.
        let margin = 1e-12 * (1.0 + most * most);
        let (least, most) = ((least - margin).floor(), (most + margin).floor());
        if least == most && least >= 0.0 && least < f64::from(UNDECIDED) { least as u16 } else { UNDECIDED }
    };
    (0..CELLS).map(of).collect()
}

/// Returns how often `each` can be subtracted from `distance` until less than that is left, `most` times at most.
fn survivors(distance: f64, each: f64, most: usize) -> usize {
    let quotient = distance / each;
    // Each subtraction, up to that many, rounds by half a unit in the last place of `distance` at most.
    let error = quotient * (quotient + 2.0) * f64::EPSILON;
    if quotient - error > most as f64 {
        return most;
    }
    let whole = quotient as usize;
    let part = quotient - whole as f64;
    if error < part && part < 1.0 - error {
        return whole;
    }
    let (mut left, mut count) = (distance, 0);
    while left >= each && count < most {
        left -= each;
        count += 1;
    }
    count
}

/// States by packet. The current state decides on loss, then it may change: two draws per packet.
struct States {
    /// Probabilities to leave the good and the bad state.
    leave: [f64; 2],
    /// Probabilities of loss.
    loss: [f64; 2],
    bad: bool,
    stream: Stream,
}

impl States {
    /// Returns whether the next packet is lost.
    #[inline]
    fn next(&mut self) -> bool {
        let (loss, leave) = (self.stream.uniform(), self.stream.uniform());
        // Both states are compared, since a branch on a random state is predicted badly.
        let of_state = |good: bool, bad: bool| good & !self.bad | bad & self.bad;
        let lost = of_state(loss < self.loss[0], loss < self.loss[1]);
        let changes = of_state(leave < self.leave[0], leave < self.leave[1]);
        self.bad ^= changes;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The losses are those of the channel that judges frame by frame, to the bit.
    #[test]
    fn losses_are_those_of_the_channel() {
        let trace = LossTrace::ordered((0..5000).map(|_| false));
        let frames = Frames::All;
        let shares = [1e-9, 1e-4, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9, 1.0];
        let mut specs: Vec<ErrorSpec> = shares.map(|frame_loss| ErrorSpec::Uniform { frame_loss, frames }).to_vec();
        for good_loss in [0.0, 0.01] {
            for [good_to_bad, bad_to_good, bad_loss] in [[0.01, 0.2, 1.0], [0.5, 0.9, 0.6], [1.0, 1.0, 1.0]] {
                specs.push(ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, frames });
            }
        }
        for spec in specs {
            for run in 0..20 {
                let expected = by_frame(&trace, &spec, Root(run).stream("fit"));
                assert_eq!(simulate(&trace, &spec, run), expected, "{spec:?}");
                assert!(!is_certain(&spec) || expected == simulate(&trace, &spec, 0), "{spec:?}");
            }
        }
    }

    /// Distances at and beside a multiple are counted by subtraction, as the channel does.
    #[test]
    fn survivors_are_counted_by_subtraction() {
        for each in [0.1, 1e-3, 0.356_674_943_938_732_4, 2.0, 30.0] {
            for multiple in 0..2000 {
                let near = f64::from(multiple) * each;
                for distance in [near, near.next_down().max(0.0), near.next_up(), near + each / 2.0] {
                    let (mut left, mut expected) = (distance, 0);
                    while left >= each {
                        left -= each;
                        expected += 1;
                    }
                    assert_eq!(survivors(distance, each, usize::MAX), expected, "{distance} / {each}");
                    assert_eq!(survivors(distance, each, 3), expected.min(3), "{distance} / {each}");
                }
            }
        }
        assert_eq!(survivors(40.0, 1e-12, 1000), 1000);
    }
}

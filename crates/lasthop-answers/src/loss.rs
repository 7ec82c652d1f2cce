//! Conversion between the page's frame loss and burst length and an error model.
//!
//! The scenario's own kind of model is kept if possible: errors along the bytes hit long frames more often than short
//! ones, and damage payloads, which some schemes can distinguish from losses.

use lasthop_proto::channel::{ErrorSpec, Frames};

/// Loss of data frames, and its burstiness.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// Share of the data frames, 0 to 1.
    pub share: f64,
    /// Mean number of consecutive frames lost; 1 if losses are independent.
    pub burst: f64,
}

/// Returns the loss of `model` for data frames of `frame` bytes. `None` for models without a rate (lists, scripts,
/// replayed traces), and for any kind of model that is not named here: the page then shows no sliders for it.
pub fn of(model: &ErrorSpec, frame: u32) -> Option<Loss> {
    let bytes = f64::from(frame);
    let alone = |share| Loss { share, burst: 1.0 };
    Some(match *model {
        ErrorSpec::None => alone(0.0),
        ErrorSpec::Uniform { frame_loss, .. } => alone(frame_loss),
        ErrorSpec::Exponential { mean_bytes, .. } => alone(hit(bytes, mean_bytes)),
        ErrorSpec::Burst { mean_bytes, packets, .. } => {
            let burst = f64::from(packets);
            let begins = hit(bytes, mean_bytes);
            // Frames that pass between two bursts: the distance counts from the end of the last frame destroyed.
            let between = (1.0 - begins) / begins;
            Loss { share: burst / (burst + between), burst }
        }
        ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, .. } => {
            let bad = good_to_bad / (good_to_bad + bad_to_good);
            Loss { share: bad * bad_loss + (1.0 - bad) * good_loss, burst: (1.0 / bad_to_good).max(1.0) }
        }
        ErrorSpec::TwoStateTime { good, bad, good_ber, bad_ber } => {
            let (good, bad) = (good.as_nanos() as f64, bad.as_nanos() as f64);
            let lost = |rate: f64| 1.0 - (1.0 - rate).powf(8.0 * bytes);
            alone((good * lost(good_ber) + bad * lost(bad_ber)) / (good + bad))
        }
        ErrorSpec::Whole(ref model) => return of(model, frame),
        _ => return None,
    })
}

/// Returns the probability that a frame with this number of bytes is hit.
fn hit(bytes: f64, mean_bytes: f64) -> f64 {
    1.0 - (-bytes / mean_bytes).exp()
}

/// Returns the mean distance at which a frame with this number of bytes is hit with this probability.
fn distance(bytes: f64, probability: f64) -> f64 {
    -bytes / (1.0 - probability).ln()
}

/// Returns the model with this `loss` for data frames of `frame` bytes, of the same kind as `own`, as a value of a
/// scenario's key `errors`. The burst length is rounded to a whole number for errors along the bytes.
pub fn model(own: &ErrorSpec, loss: Loss, frame: u32) -> String {
    let Loss { share, burst } = loss;
    let frames = match own.frames() {
        Frames::All => "all",
        Frames::Data => "data",
        Frames::Acks => "acks",
    };
    let along_bytes = matches!(own, ErrorSpec::Exponential { .. } | ErrorSpec::Burst { .. });
    let unit = if matches!(own, ErrorSpec::Whole(_)) { ", unit = \"super-segment\"" } else { "" };
    let bytes = f64::from(frame);
    if share <= 0.0 {
        "{ model = \"none\" }".to_owned()
    } else if along_bytes && burst > 1.0 {
        let begins = 1.0 / (1.0 + burst * (1.0 - share) / share);
        let mean = distance(bytes, begins);
        format!("{{ model = \"burst\", mean_bytes = {mean:?}, packets = {burst}, frames = \"{frames}\" }}")
    } else if along_bytes {
        let mean = distance(bytes, share);
        format!("{{ model = \"exponential\", mean_bytes = {mean:?}, frames = \"{frames}\" }}")
    } else if burst > 1.0 {
        let bad_to_good = 1.0 / burst;
        let good_to_bad = bad_to_good * share / (1.0 - share);
        format!(
            "{{ model = \"two-state-packet\", good_to_bad = {good_to_bad:?}, bad_to_good = {bad_to_good:?}, frames = \"{frames}\"{unit} }}"
        )
    } else {
        format!("{{ model = \"uniform\", frame_loss = {share:?}, frames = \"{frames}\"{unit} }}")
    }
}

#[cfg(test)]
mod tests {
    use lasthop_scenario::Scenario;

    use super::*;

    const FRAME: u32 = 1440;

    fn owns() -> [ErrorSpec; 5] {
        [
            ErrorSpec::None,
            ErrorSpec::Exponential { mean_bytes: 65536.0, frames: Frames::All },
            ErrorSpec::Uniform { frame_loss: 0.1, frames: Frames::Data },
            ErrorSpec::Whole(Box::new(ErrorSpec::Uniform { frame_loss: 0.1, frames: Frames::Data })),
            ErrorSpec::Burst { mean_bytes: 65536.0, packets: 4, frames: Frames::All },
        ]
    }

    /// Parses a model as the scenario reader does.
    fn read(model: &str) -> ErrorSpec {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let scenario = scenario.with_overrides(&[("links.wireless.errors", model)]).unwrap();
        scenario.network(scenario.scheme()).unwrap().links[1].directions[0].errors.clone()
    }

    #[test]
    fn a_model_has_the_loss_that_was_asked_for() {
        for own in owns() {
            for (share, burst) in
                [(0.0, 1.0), (0.001, 1.0), (0.0225, 1.0), (0.3, 1.0), (0.02, 3.0), (0.2, 8.0), (0.5, 2.0)]
            {
                let asked = Loss { share, burst };
                let got = of(&read(&model(&own, asked, FRAME)), FRAME).unwrap();
                assert!((got.share - share).abs() < 1e-9, "{own:?} {asked:?}: {got:?}");
                assert!(share == 0.0 || (got.burst - burst).abs() < 1e-9, "{own:?} {asked:?}: {got:?}");
            }
        }
    }

    #[test]
    fn a_channel_with_that_model_loses_as_much() {
        use lasthop_proto::time::{Duration, Instant};
        // Uses the channel itself over a hundred thousand frames, not the inverse of the formula.
        for own in owns() {
            for burst in [1.0, 4.0] {
                let spec = read(&model(&own, Loss { share: 0.05, burst }, FRAME));
                let stream = lasthop_proto::random::Root(1).stream("errors");
                let mut channel = lasthop_proto::channel::Channel::new(&spec, stream);
                let mut packet =
                    lasthop_proto::packet::Packet::<()> { len: 1400, header_len: 40, ..Default::default() };
                packet.body = lasthop_proto::packet::Body::Tcp(lasthop_proto::packet::Segment::default());
                let mut lost = 0;
                let mut now = Instant::ZERO;
                for _ in 0..100_000 {
                    let end = now + Duration::from_millis(1);
                    lost += u32::from(channel.judge(&packet, now, end) != lasthop_proto::channel::Fate::Delivered);
                    now = end;
                }
                let share = f64::from(lost) / 1e5;
                assert!((share - 0.05).abs() < 0.008, "{own:?}, bursts of {burst}: {share}");
            }
        }
    }
}

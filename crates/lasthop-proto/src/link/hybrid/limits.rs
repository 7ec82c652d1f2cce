//! Limits of time and memory that follow the hop: they are functions of its rate and its round trip.

use super::LEAST_WINDOW;
use super::budget::RESIDUAL;
use super::frame::Class;
use crate::time::Duration;

/// Maximum number of symbols from the first missing one on that an end can identify. A sender uses half of it.
pub(super) const AHEAD: u64 = 1 << 16;

/// Minimum number of packets in an entry queue that follows the hop.
const QUEUED: u64 = 1000;

/// Maximum number of retransmission rounds of a packet.
pub(super) const ROUNDS: u8 = 4;

/// Time of these rounds beyond their round trips: feedback delay, and spacing of copies.
const ROUNDS_TAKE: Duration = Duration::from_millis(60);

/// Maximum time for which a packet waits for an earlier one: four rounds over a geostationary satellite.
pub(super) const LONGEST_HOLD: Duration = Duration::from_millis(2500);

/// Time after which packets of calls, and acknowledgments, are of little use. On longer hops, the time of one
/// retransmission: 9/8 of a round trip and a feedback delay until the loss is declared, and half a round trip.
const DEADLINE: Duration = Duration::from_millis(100);
const ONE_ROUND_TAKES: Duration = Duration::from_millis(20);

/// Size of a full frame, in bits.
const FRAME_BITS: u64 = 1500 * 8;

/// Returns the time for which a packet waits for an earlier one of its flow, on a hop with the round trip `trip`: the
/// time of four repair rounds. If packets are passed on sooner, their source retransmits, and the retransmission waits
/// for the same hole.
pub(super) fn hold(trip: Duration) -> Duration {
    (trip.saturating_mul(4) + ROUNDS_TAKE).min(LONGEST_HOLD)
}

/// Returns the time after its first transmission until which a packet that is passed on at once has to arrive.
pub(super) fn deadline(trip: Duration) -> Duration {
    DEADLINE.max(trip.saturating_mul(7) / 4 + ONE_ROUND_TAKES).min(LONGEST_HOLD)
}

/// Returns the time after its first transmission for which a packet is worth retransmitting.
pub(super) fn lifetime(class: Class, trip: Duration) -> Duration {
    match class {
        Class::Ordered => hold(trip) + trip / 2,
        Class::RealTime | Class::AtOnce => deadline(trip),
    }
}

/// Returns the number of full frames that the hop carries in a round trip.
pub(super) fn frames_in_flight(rate: u64, trip: Duration) -> u64 {
    const NANOS: u64 = 1_000_000_000;
    let bits = match rate.checked_mul(trip.as_nanos()) {
        Some(product) => product / NANOS,
        // Rare, as at 20 Gbps and 1 s: a division of 128 bits takes many times as long.
        None => u64::try_from(u128::from(rate) * u128::from(trip.as_nanos()) / u128::from(NANOS)).unwrap_or(u64::MAX),
    };
    (bits / FRAME_BITS).min(1 << 40)
}

/// Returns the number of full packets that fit into a third of `memory` bytes, at least 128, at most those that the
/// other end can identify.
pub(super) fn third(memory: u64) -> u64 {
    (memory / 3 / (FRAME_BITS / 8)).clamp(LEAST_WINDOW, AHEAD / 2)
}

/// Returns the maximum number of packets in an entry queue that follows the hop. When a hole is filled, its flow's
/// source sends a burst of up to a window.
pub(super) fn queue(rate: u64, trip: Duration, memory: u64) -> u32 {
    (3 * frames_in_flight(rate, trip)).max(QUEUED).min(third(memory)) as u32
}

/// Returns the share of packets, in 10⁻⁹, that may stay lost after all rounds of repair. For ordered packets it is the
/// share at which CUBIC still holds the rate (RFC 9438 §5.1, with C = 0.4 and β = 0.7; below its TCP-friendly region
/// Reno, RFC 5348 §3.1).
pub(super) fn residual(class: Class, rate: u64, trip: Duration) -> u64 {
    match class {
        Class::Ordered => {
            let window = frames_in_flight(rate, trip).max(1) as f64;
            let cubic = trip.as_secs_f64() * libm::pow(1.054 / window, 4.0 / 3.0);
            let reno = 1.5 / (window * window);
            (cubic.max(reno).min(1.0) * 1e9) as u64
        }
        Class::RealTime | Class::AtOnce => RESIDUAL * 1_000,
    }
}

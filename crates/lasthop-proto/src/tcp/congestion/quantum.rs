//! How many segments leave at once, as Linux sizes bursts (`tcp_tso_autosize`).

use super::control::Pacing;
use crate::time::Duration;

/// The largest burst, in bytes.
pub(super) const GSO_BYTES: u64 = 65_536;
/// Below this rate, 1.2 Mbps in bytes a second, segments leave one by one.
const SLOW: u64 = 150_000;

/// The smallest burst, in segments.
pub(super) fn least_segments(rate: u64) -> u32 {
    if rate < SLOW { 1 } else { 2 }
}

/// What `rate`, in bytes a second, brings in a 1024th of a second; more on short paths, where a burst delays nobody: the
/// largest burst, halved for each 512 microseconds of `min_rtt`.
pub(super) fn segments(rate: u64, min_rtt: Duration, mss: u32) -> u32 {
    let halvings = (min_rtt.as_nanos() / 1000) >> 9;
    let short = if halvings < 32 { GSO_BYTES >> halvings } else { 0 };
    let bytes = (rate >> 10).saturating_add(short).min(GSO_BYTES);
    (bytes / u64::from(mss)) as u32
}

/// Pacing at `rate` bytes a second, in bursts of that size.
pub(super) fn pacing(rate: u64, path_rtt: Duration, mss: u32) -> Pacing {
    Pacing { rate, quantum: segments(rate, path_rtt, mss).max(least_segments(rate)) }
}

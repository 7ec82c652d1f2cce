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

/// Bytes a second that Linux would pace at where nothing is paced (`tcp_update_pacing_rate`): twice the window in a round trip in early
/// slow start, 1.2 times the window later.
pub(in crate::tcp) fn unpaced_rate(window: u32, ssthresh: u32, srtt: Duration, mss: u32) -> u64 {
    let percent = if window < ssthresh / 2 { 200 } else { 120 };
    let bytes = u64::from(window) * u64::from(mss) * percent / 100;
    let srtt = srtt.as_nanos().max(1);
    match bytes.checked_mul(1_000_000_000) {
        Some(product) => product / srtt,
        // Dividing what is longer takes several times as long.
        None => u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(srtt)).unwrap_or(u64::MAX),
    }
}

/// How many segments leave as one where nothing is paced: those of [`unpaced_rate`], and at least two.
pub(in crate::tcp) fn unpaced(rate: u64, min_rtt: Duration, mss: u32) -> u32 {
    segments(rate, min_rtt, mss).max(2)
}

/// Pacing at `rate` bytes a second, in bursts of that size.
pub(super) fn pacing(rate: u64, path_rtt: Duration, mss: u32) -> Pacing {
    Pacing { rate, quantum: segments(rate, path_rtt, mss).max(least_segments(rate)) }
}

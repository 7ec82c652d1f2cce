//! Number of segments that leave at once, as Linux sizes bursts (`tcp_tso_autosize`).

use super::control::Pacing;
use crate::time::Duration;

/// Maximum burst, in bytes.
pub(super) const GSO_BYTES: u64 = 65_536;
/// Rate below which segments leave one by one: 1.2 Mbps, in bytes per second.
const SLOW: u64 = 150_000;

/// Returns the minimum burst, in segments.
pub(super) fn least_segments(rate: u64) -> u32 {
    if rate < SLOW { 1 } else { 2 }
}

/// Returns the burst that `rate`, in bytes per second, yields in a 1024th of a second. It is larger on short paths,
/// where a burst delays no one else: by the maximum burst, halved for each 512 microseconds of `min_rtt`.
pub(super) fn segments(rate: u64, min_rtt: Duration, mss: u32) -> u32 {
    let halvings = (min_rtt.as_nanos() / 1000) >> 9;
    let short = if halvings < 32 { GSO_BYTES >> halvings } else { 0 };
    let bytes = (rate >> 10).saturating_add(short).min(GSO_BYTES);
    (bytes / u64::from(mss)) as u32
}

/// Returns the rate, in bytes per second, at which Linux would pace an unpaced connection (`tcp_update_pacing_rate`):
/// twice the window per round trip in early slow start, 1.2 times the window later.
pub(in crate::tcp) fn unpaced_rate(window: u32, ssthresh: u32, srtt: Duration, mss: u32) -> u64 {
    let percent = if window < ssthresh / 2 { 200 } else { 120 };
    let bytes = u64::from(window) * u64::from(mss) * percent / 100;
    let srtt = srtt.as_nanos().max(1);
    match bytes.checked_mul(1_000_000_000) {
        Some(product) => product / srtt,
        // A 128-bit division takes several times as long.
        None => u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(srtt)).unwrap_or(u64::MAX),
    }
}

/// Returns the burst of an unpaced connection: that of [`unpaced_rate`], and at least two segments.
pub(in crate::tcp) fn unpaced(rate: u64, min_rtt: Duration, mss: u32) -> u32 {
    segments(rate, min_rtt, mss).max(2)
}

/// Returns pacing at `rate` bytes per second, in bursts sized for that rate.
pub(super) fn pacing(rate: u64, path_rtt: Duration, mss: u32) -> Pacing {
    Pacing { rate, quantum: segments(rate, path_rtt, mss).max(least_segments(rate)) }
}

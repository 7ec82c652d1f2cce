//! Errors at exponentially distributed distances in bytes, each of which destroys a run of frames (\[a\] §V: bursts of
//! 2, 4 and 6 packets, once per 64 Kbytes on average).

use super::Fate;
use super::gap::Gap;
use crate::random::Stream;

/// Runs of lost frames.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    gap: Gap,
    packets: u32,
    /// Number of frames that the current burst has yet to destroy.
    left: u32,
}

impl Burst {
    pub(super) fn new(mean_bytes: f64, packets: u32, stream: Stream) -> Self {
        Self { gap: Gap::new(mean_bytes, stream), packets, left: 0 }
    }

    /// Judges a frame. The distance to the next burst counts from the end of the last frame that this one destroys, so
    /// that every burst has the specified length.
    #[inline]
    pub(super) fn judge(&mut self, wire_len: u32) -> Fate {
        if self.left == 0 && self.gap.hit(f64::from(wire_len)).is_some() {
            self.left = self.packets;
        }
        let destroyed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        Fate::lost_if(destroyed)
    }
}

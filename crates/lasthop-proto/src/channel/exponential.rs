//! Errors at exponentially distributed distances in bytes (\[a\] §IV: mean 65536 bytes in each direction).

use super::Fate;
use super::gap::Gap;
use crate::packet::Packet;
use crate::random::Stream;

/// The process along the bytes of the frames that it includes.
#[derive(Clone, Debug)]
pub(super) struct Exponential {
    gap: Gap,
}

impl Exponential {
    pub(super) fn new(mean_bytes: f64, stream: Stream) -> Self {
        Self { gap: Gap::new(mean_bytes, stream) }
    }

    #[inline]
    pub(super) fn judge<P>(&mut self, packet: &Packet<P>) -> Fate {
        match self.gap.hit(f64::from(packet.wire_len())) {
            None => Fate::Delivered,
            // Headers come first, so the first error decides; later ones in the frame change nothing.
            Some(byte) => Fate::hit_at(byte, f64::from(packet.header_len)),
        }
    }
}

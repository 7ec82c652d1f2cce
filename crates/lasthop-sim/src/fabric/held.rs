//! Number of frames that links hold, for the limit of a run.

use super::Fabric;
use crate::datagrams::CrossedDirection;
use crate::leg::LegId;
use crate::overflow::MOST_FRAMES;

impl Fabric {
    /// Returns whether frames in queues and in flight exceed, or have exceeded, the limit of a run.
    #[inline]
    pub fn overflows(&self) -> bool {
        self.pool.places() > MOST_FRAMES || self.is_crossed() && self.with_datagrams() > MOST_FRAMES
    }

    /// Returns the number of frames, including datagrams that occupy no place in the pool.
    fn with_datagrams(&self) -> usize {
        self.pool.places() + self.crossings().map(CrossedDirection::held).sum::<usize>()
    }

    /// Returns the leg that holds the most frames.
    pub fn fullest(&self) -> LegId {
        let held = |leg: &LegId| self.legs[leg.0 as usize].carrier.held(&self.media);
        (0..self.legs.len() as u32).map(LegId).max_by_key(held).unwrap_or(LegId(0))
    }
}

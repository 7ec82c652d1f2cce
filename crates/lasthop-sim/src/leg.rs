//! Directions of links, by number.

use crate::link::Direction;
use crate::link_spec::LinkId;

/// One direction of a link: twice the link's number, plus one for up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LegId(pub u32);

impl LegId {
    /// Greater than any leg.
    pub const BEHIND_ALL: Self = Self(u32::MAX);

    /// Returns the leg of a direction of a link.
    pub fn new(link: LinkId, direction: Direction) -> Self {
        Self((link.0 * 2 + direction.index()) as u32)
    }

    /// Returns the opposite direction of the same link.
    pub(crate) fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Returns the capture point at the sending end.
    pub(crate) fn near(self) -> u16 {
        self.0 as u16
    }

    /// Returns the capture point at the receiving end.
    pub(crate) fn far(self) -> u16 {
        (self.0 ^ 1) as u16
    }
}

//! Lengths of returning datagrams. An ACK frame has two bytes more per gap in the received numbers (RFC 9000 §19.3.1);
//! counts from 64 on take two bytes instead of one (§16), so that a level may differ by one without a gap.

/// Number of datagrams that determine the level.
const RECENT: usize = 4;

/// Bytes by which acknowledgments of the same gaps differ: a count, the delay or the packet number took one more.
pub(super) const WOBBLE: u16 = 1;

/// Bytes by which an acknowledgment of one more gap is longer: two, or three if a count grew at the same time.
const STEP: u16 = 2;

/// Bytes that a gap takes at most. A datagram that is shorter by more lacks two gaps, or the whole ACK frame.
const GAP: u16 = 3;

/// Largest step that counts as gaps: two gaps. Longer ones are control frames, which travel with an acknowledgment.
const LARGEST_STEP: u16 = 4;

/// Change of length of a returning datagram relative to a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Shorter by more than a gap: two gaps are closed, or a control frame travels without an acknowledgment. The next ones
    /// show which.
    Below,
    /// At the level, one byte above, or below by a gap.
    Level,
    /// Longer by a gap.
    Longer,
    /// Longer by more than gaps account for: control frames.
    Control,
}

/// Length of bare acknowledgments while nothing new is missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    recent: [u16; RECENT],
    next: usize,
    seen: u32,
    /// Length of the last datagram if it was one with control frames.
    control: Option<u16>,
}

impl Lengths {
    /// Returns the number of datagrams observed.
    pub const fn seen(&self) -> u32 {
        self.seen
    }

    /// Returns the level: the smallest of the last few lengths, except a lone one that is much shorter.
    pub fn level(&self) -> u16 {
        let mut sorted = self.recent;
        sorted.sort_unstable();
        let pair = sorted.windows(2).find(|pair| pair[1] - pair[0] <= GAP);
        pair.map_or(sorted[RECENT - 1], |pair| pair[0])
    }

    /// Compares a length with the level. The first one is the level.
    pub fn change(&self, len: u16) -> Change {
        if self.seen == 0 { Change::Level } else { change(self.level(), len) }
    }

    /// Records a length that shows no new gap. Returns whether it is at the level afterwards.
    pub fn observe(&mut self, len: u16) -> bool {
        if self.seen == 0 {
            self.recent = [len; RECENT];
        }
        self.recent[self.next] = len;
        self.next = (self.next + 1) % RECENT;
        self.seen = self.seen.saturating_add(1);
        self.control = None;
        len >= self.level()
    }

    /// Records a length that control frames account for. Two in succession are a level: returns whether they are.
    pub fn observe_control(&mut self, len: u16) -> bool {
        let is_level = self.control.is_some_and(|last| last.abs_diff(len) <= WOBBLE);
        if is_level {
            self.accept(len);
        } else {
            self.control = Some(len);
        }
        is_level
    }

    /// Makes `len` the level: gaps that are not repaired stay for a round trip.
    pub fn accept(&mut self, len: u16) {
        self.recent = [len; RECENT];
        self.control = None;
    }
}

/// Compares a length with a level.
pub(super) const fn change(level: u16, len: u16) -> Change {
    let by = len.saturating_sub(level);
    if is_below(level, len) {
        Change::Below
    } else if by < STEP {
        Change::Level
    } else if by <= LARGEST_STEP {
        Change::Longer
    } else {
        Change::Control
    }
}

/// Returns whether a length is below the level by more than a gap.
pub(super) const fn is_below(level: u16, len: u16) -> bool {
    len.saturating_add(GAP) < level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(all: &[u16]) -> Lengths {
        let mut lengths = Lengths::default();
        for len in all {
            lengths.observe(*len);
        }
        lengths
    }

    /// quinn sends MAX_DATA in a datagram of its own, of 32 bytes, and quic-go one of 28 or 29.
    #[test]
    fn a_lone_control_frame_does_not_change_the_level() {
        assert_eq!(observed(&[36, 36, 36, 36, 32]).change(36), Change::Level);
        assert_eq!(observed(&[36, 36, 36, 32, 36, 36]).change(38), Change::Longer);
        assert_eq!(observed(&[33, 33, 28]).change(35), Change::Longer);
    }

    #[test]
    fn the_level_decreases_when_gaps_close() {
        assert_eq!(observed(&[38, 38, 38, 38, 36]).change(38), Change::Longer);
        // Two gaps at once look like a lone control frame until the next acknowledgment.
        assert_eq!(observed(&[40, 40, 40, 40, 36]).level(), 40);
        assert_eq!(observed(&[40, 40, 40, 40, 36, 36]).level(), 36);
    }

    #[test]
    fn an_acknowledgment_that_stays_longer_is_the_level() {
        let mut lengths = observed(&[33, 33, 33, 33]);
        assert_eq!(lengths.change(43), Change::Control);
        assert!(!lengths.observe_control(43));
        assert!(lengths.observe_control(43));
        assert_eq!(lengths.change(45), Change::Longer);
    }
}

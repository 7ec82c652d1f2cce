//! Lengths of returning datagrams. An ACK frame has two bytes more per gap in the received numbers (RFC 9000 §19.3.1);
//! counts from 64 on take two bytes instead of one (§16), so that a level may differ by one without a gap.

/// Number of datagrams whose minimum is the level.
const RECENT: usize = 4;

/// Bytes by which an acknowledgment of one more gap is longer: two, or three if a count grew at the same time.
const STEP: u16 = 2;

/// Largest step that counts as gaps: two gaps. Longer ones are control frames, which travel with an acknowledgment.
const LARGEST_STEP: u16 = 4;

/// Change of length of a returning datagram relative to a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// At the level, or one byte above.
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
}

impl Lengths {
    /// Returns the number of datagrams observed.
    pub const fn seen(&self) -> u32 {
        self.seen
    }

    /// Returns the level: the smallest of the last few lengths.
    pub fn level(&self) -> u16 {
        self.recent.into_iter().min().unwrap_or(0)
    }

    /// Compares a length with the level. The first one is the level.
    pub fn change(&self, len: u16) -> Change {
        if self.seen == 0 { Change::Level } else { change(self.level(), len) }
    }

    /// Records a length that shows no new gap.
    pub fn observe(&mut self, len: u16) {
        if self.seen == 0 {
            self.recent = [len; RECENT];
        }
        self.recent[self.next] = len;
        self.next = (self.next + 1) % RECENT;
        self.seen = self.seen.saturating_add(1);
    }

    /// Makes `len` the level: gaps that are not repaired stay for a round trip.
    pub fn accept(&mut self, len: u16) {
        self.recent = [len; RECENT];
    }
}

/// Compares a length with a level.
pub(super) const fn change(level: u16, len: u16) -> Change {
    let by = len.saturating_sub(level);
    if by < STEP {
        Change::Level
    } else if by <= LARGEST_STEP {
        Change::Longer
    } else {
        Change::Control
    }
}

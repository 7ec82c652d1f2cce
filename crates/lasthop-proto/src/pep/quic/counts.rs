//! Counts of what the device did, and why it passed connections.

use core::ops::AddAssign;

/// Reason for passing a connection, for some time or for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The client acknowledges fewer than one in four datagrams.
    RareAcks,
    /// Too few cases ended in a repair: the lengths do not mean what is assumed, or copies do not arrive.
    Unconfirmed,
    /// Too many cases for the number of datagrams.
    Frequent,
    /// The hop delivers datagrams out of order.
    Reordering,
    /// The round trip of the hop rises, which shows a queue behind the device.
    Rising,
    /// More gaps at a time than a case holds, or too many acknowledgments to hold.
    Storm,
    /// The round trip of the hop is longer than a hold.
    LongHop,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::LongHop as usize + 1;
}

/// Counts of what was done. Without action ([`super::Conduct::Observe`]), of what would have been done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Cases opened.
    pub cases: u64,
    /// Cases whose gaps were all closed: by repairs or, without action, by the sender.
    pub repaired: u64,
    /// Copies sent.
    pub copies: u64,
    /// Cases whose gaps closed before a copy could arrive: the hop reorders.
    pub reordered: u64,
    /// Datagrams held.
    pub held: u64,
    /// Gaps from losses before the device: nothing that it sent over the hop is missing.
    pub elsewhere: u64,
    /// Number of times that a connection was passed, by [`Reason`].
    pub passed: [u64; Reason::COUNT],
}

impl Counts {
    /// Returns the number of times that a connection was passed for this reason.
    pub const fn passed_for(&self, reason: Reason) -> u64 {
        self.passed[reason as usize]
    }

    pub(super) const fn count(&mut self, reason: Reason) {
        self.passed[reason as usize] += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.repaired += other.repaired;
        self.copies += other.copies;
        self.reordered += other.reordered;
        self.held += other.held;
        self.elsewhere += other.elsewhere;
        for (sum, more) in self.passed.iter_mut().zip(other.passed) {
            *sum += more;
        }
    }
}

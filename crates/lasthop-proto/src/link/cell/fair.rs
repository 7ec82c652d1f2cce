//! Proportional-fair choice: serves the member whose rate is highest in relation to its average throughput.

use alloc::vec::Vec;

/// A member of a schedule.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Average throughput in bits per TTI.
    average: f64,
    /// Bits that this TTI would carry for the member; zero if the member does not take part.
    rate: u64,
    /// Bits that the member has received in this TTI.
    served: u64,
    /// Indicates that the member has nothing more to send in this TTI.
    is_done: bool,
}

/// Members and their averages.
#[derive(Clone, Debug)]
pub(super) struct Fair {
    /// Time constant of the averages, in TTIs.
    window: f64,
    members: Vec<Member>,
}

impl Fair {
    /// Returns members without throughput.
    pub(super) fn new(count: usize, window: u32) -> Self {
        Self { window: f64::from(window.max(1)), members: alloc::vec![Member::default(); count] }
    }

    /// Sets the average of a member, in bits per TTI.
    pub(super) fn set_average(&mut self, member: usize, average: f64) {
        if let Some(member) = self.members.get_mut(member) {
            member.average = average;
        }
    }

    /// Reduces the average of a member that took no part in some TTIs.
    pub(super) fn decay(&mut self, member: usize, ttis: u64) {
        if let Some(member) = self.members.get_mut(member) {
            member.average *= libm::pow(1.0 - 1.0 / self.window, ttis as f64);
        }
    }

    /// Lets a member take part in this TTI, which would carry `rate` bits for it.
    pub(super) fn offer(&mut self, member: usize, rate: u64) {
        if let Some(member) = self.members.get_mut(member) {
            (member.rate, member.served, member.is_done) = (rate, 0, rate == 0);
        }
    }

    /// Returns the member to serve next.
    pub(super) fn best(&self) -> Option<usize> {
        let mut best: Option<(usize, f64, f64)> = None;
        for (index, member) in self.members.iter().enumerate() {
            if member.rate == 0 || member.is_done {
                continue;
            }
            // At least a bit per TTI, so that averages near zero remain comparable.
            let (rate, average) = (member.rate as f64, member.average.max(1.0));
            if best.is_none_or(|(_, best_rate, best_average)| rate * best_average > best_rate * average) {
                best = Some((index, rate, average));
            }
        }
        best.map(|(index, ..)| index)
    }

    /// Records that a member has received bits and takes nothing more in this TTI.
    pub(super) fn serve(&mut self, member: usize, bits: u64) {
        if let Some(member) = self.members.get_mut(member) {
            member.served += bits;
            member.is_done = true;
        }
    }

    /// Ends a TTI: updates the averages of the members that took part.
    pub(super) fn end(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.rate > 0 || member.is_done) {
            member.average += (member.served as f64 - member.average) / self.window;
            (member.rate, member.served, member.is_done) = (0, 0, false);
        }
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
mod tests;

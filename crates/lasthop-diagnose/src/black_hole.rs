//! Path-MTU black holes (RFC 2923 §2.1): packets above a size vanish without a report to the sender.

/// Minimum numbers of lost transmissions and of lost retransmissions among them.
const FEW: (u32, u32) = (3, 2);

/// Packet sizes above which no packet arrived, while smaller ones did.
#[derive(Clone, Copy, Default, Debug)]
pub struct BlackHole {
    /// Time at which the first of these packets was sent.
    since: Option<i64>,
    /// Smallest lost payload, and largest payload that was sent since then and arrived, in bytes.
    smallest_lost: u32,
    largest_arrived: u32,
    lost: u32,
    retransmissions_lost: u32,
    arrived: u32,
}

impl BlackHole {
    /// Records the loss of a packet with `len` bytes of payload sent at `time`; its data had passed `passed` times.
    pub fn lost(&mut self, time: i64, len: u32, passed: u32) {
        if self.since.is_none() {
            *self = Self { since: Some(time), smallest_lost: len, ..Self::default() };
        }
        self.smallest_lost = self.smallest_lost.min(len);
        self.lost += 1;
        self.retransmissions_lost += u32::from(passed > 1);
        self.check();
    }

    /// Records the arrival of a packet with `len` bytes of payload sent at `time`.
    pub fn arrived(&mut self, time: i64, len: u32) {
        if self.since.is_some_and(|since| time > since) {
            self.largest_arrived = self.largest_arrived.max(len);
            self.arrived += 1;
            self.check();
        }
    }

    /// Resets the state if a packet at least as large as a lost one arrived, since the size is then not the cause.
    fn check(&mut self) {
        if self.largest_arrived >= self.smallest_lost {
            *self = Self::default();
        }
    }

    /// Returns whether the size of a packet that was sent at `time` with `len` bytes of payload explains its loss.
    pub fn explains(&self, time: i64, len: u32) -> bool {
        let is_certain = self.lost >= FEW.0 && self.retransmissions_lost >= FEW.1 && self.arrived > 0;
        is_certain && len > self.largest_arrived && self.since.is_some_and(|since| time >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_packets_vanish() {
        let mut hole = BlackHole::default();
        for passed in 1..5 {
            hole.lost(i64::from(passed), 1400, passed);
            assert!(!hole.explains(1, 1400), "nothing smaller arrived");
        }
        hole.arrived(9, 536);
        assert!(hole.explains(1, 1400) && !hole.explains(0, 1400) && !hole.explains(1, 500));
    }

    #[test]
    fn a_large_packet_that_arrives_refutes_it() {
        let mut hole = BlackHole::default();
        for passed in 1..5 {
            hole.lost(i64::from(passed), 1400, passed);
        }
        hole.arrived(9, 536);
        hole.arrived(10, 1400);
        assert!(!hole.explains(1, 1400));
    }

    #[test]
    fn what_arrived_before_tells_nothing() {
        let mut hole = BlackHole::default();
        hole.lost(5, 1400, 1);
        hole.arrived(4, 1400);
        hole.lost(6, 1400, 2);
        hole.lost(7, 1400, 3);
        hole.arrived(8, 100);
        assert!(hole.explains(5, 1400));
    }
}

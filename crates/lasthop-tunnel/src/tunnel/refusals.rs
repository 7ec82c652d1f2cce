//! Reports of handshakes that fail, at a limited rate for each cause.

use lasthop_proto::time::{Duration, Instant};

use super::PeerId;
use crate::keys::PublicKey;

/// Minimum time between two reports of a cause.
const GAP: Duration = Duration::from_secs(10);

/// Reason for which a handshake fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The caller expects another public key than this end's.
    OtherEnd,
    /// No peer has the caller's public key.
    Stranger(PublicKey),
    /// The response of a peer cannot be decrypted: the preshared keys of the ends differ, or it is forged.
    Unreadable(PeerId),
    /// Too many handshakes arrive.
    Load,
}

impl Refusal {
    fn place(self) -> usize {
        match self {
            Self::OtherEnd => 0,
            Self::Stranger(_) => 1,
            Self::Unreadable(_) => 2,
            Self::Load => 3,
        }
    }
}

/// Failed handshakes by cause.
#[derive(Default, Debug)]
pub(super) struct Refusals([Reported; 4]);

#[derive(Clone, Copy, Default, Debug)]
struct Reported {
    /// Time of the last report.
    at: Option<Instant>,
    /// Failures since then.
    since: u64,
}

impl Refusals {
    /// Records a failure. If it is to be reported, returns the number of failures with this cause since the last report,
    /// without this one.
    pub(super) fn count(&mut self, now: Instant, refusal: Refusal) -> Option<u64> {
        let reported = &mut self.0[refusal.place()];
        if reported.at.is_some_and(|at| now.since(at) < GAP) {
            reported.since += 1;
            return None;
        }
        let before = reported.since;
        *reported = Reported { at: Some(now), since: 0 };
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_reported_every_ten_seconds_with_the_number_in_between() {
        let (mut refusals, start) = (Refusals::default(), Instant::ZERO);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(refusals.count(at(0), Refusal::OtherEnd), Some(0));
        for millis in [1, 5_000, 9_999] {
            assert_eq!(refusals.count(at(millis), Refusal::OtherEnd), None);
        }
        // A flood with one cause hides no other.
        assert_eq!(refusals.count(at(9_999), Refusal::Stranger(PublicKey([7; 32]))), Some(0));
        assert_eq!(refusals.count(at(9_999), Refusal::Stranger(PublicKey([8; 32]))), None);
        assert_eq!(refusals.count(at(10_000), Refusal::OtherEnd), Some(3));
        assert_eq!(refusals.count(at(20_000), Refusal::OtherEnd), Some(0));
    }
}

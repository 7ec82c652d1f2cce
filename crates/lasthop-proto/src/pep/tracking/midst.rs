//! Packets of one end of a connection whose opening was not seen, until they show that the end takes part.

use alloc::vec::Vec;

use super::half::Sight;

/// Maximum number of remembered packets of an end. A later packet must continue one of them, regardless of spoofed
/// packets in between.
const MOST: usize = 8;

/// Packets seen of one end.
#[derive(Clone, Debug)]
pub(super) struct Midst {
    seen: Vec<Sight>,
    /// Last packet that continues another.
    shown: Option<Sight>,
}

impl Midst {
    /// No packets.
    pub const NONE: Self = Self { seen: Vec::new(), shown: None };

    /// Adds a packet. Returns whether it continues an earlier one, which shows that the end takes part.
    pub fn add(&mut self, sight: Sight) -> bool {
        let goes_on = self.seen.iter().any(|last| sight.goes_on_from(last));
        if goes_on {
            self.shown = Some(sight);
        }
        if self.seen.len() >= MOST {
            self.seen.remove(0);
        }
        self.seen.push(sight);
        goes_on
    }

    /// Returns the last packet that showed the end to take part, if it fits a packet of the other end.
    pub fn answered_by(&self, other: &Sight) -> Option<Sight> {
        self.shown.filter(|own| own.agrees_with(other) && are_one_connection(own, other))
    }
}

/// Returns whether two packets are of one connection: either end acknowledges at most what the other has sent (RFC 9293
/// §3.10.7.4), one of them has data, and all data of an end without payload is acknowledged.
fn are_one_connection(one: &Sight, other: &Sight) -> bool {
    let takes = |from: &Sight, to: &Sight| if from.has_data() { to.ack.le(from.end) } else { to.ack == from.end };
    (one.has_data() || other.has_data()) && takes(one, other) && takes(other, one)
}

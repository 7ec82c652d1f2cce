//! Packets of one end of a connection whose opening nobody saw, until they show that the end takes part.

use alloc::vec::Vec;

use super::half::Sight;

/// Packets of an end that are remembered: another one has to go on from one of them, whatever strangers send in between.
const MOST: usize = 8;

/// What came by of one end.
#[derive(Clone, Debug)]
pub(super) struct Midst {
    seen: Vec<Sight>,
    /// The last that goes on from another.
    shown: Option<Sight>,
}

impl Midst {
    /// Nothing came by.
    pub const NONE: Self = Self { seen: Vec::new(), shown: None };

    /// Another came. Whether the end has shown itself with it.
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

    /// The last with which the end has shown itself, if it is of one connection with a packet of the other end.
    pub fn answered_by(&self, other: &Sight) -> Option<Sight> {
        self.shown.filter(|own| own.agrees_with(other) && are_one_connection(own, other))
    }
}

/// Either end acknowledges what the other has sent and no more (RFC 9293 §3.10.7.4), one of them has data, and of an end that has none all is acknowledged.
fn are_one_connection(one: &Sight, other: &Sight) -> bool {
    let takes = |from: &Sight, to: &Sight| if from.has_data() { to.ack.le(from.end) } else { to.ack == from.end };
    (one.has_data() || other.has_data()) && takes(one, other) && takes(other, one)
}

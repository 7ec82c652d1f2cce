//! A recorded loss trace, frame by frame, starting over at its end.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Fate;

/// A place in a trace.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Arc<Vec<bool>>,
    next: usize,
}

impl Replay {
    pub(super) fn new(trace: Arc<Vec<bool>>) -> Self {
        Self { trace, next: 0 }
    }

    /// An empty trace loses nothing.
    #[inline]
    pub(super) fn judge(&mut self) -> Fate {
        let lost = self.trace.get(self.next).copied().unwrap_or(false);
        self.next += 1;
        if self.next >= self.trace.len() {
            self.next = 0;
        }
        Fate::lost_if(lost)
    }
}

//! The relay of split connections beside the packet loop, and whether it is alive.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::gateway::split::{SplitCounters, SplitProxy, SplitSnapshot};

/// A relay that has not turned for so many beats, half a second or more, hangs.
const STILL: u32 = 25;

/// The relay of split connections, in a thread of its own.
#[derive(Debug)]
pub(super) struct Relay {
    counters: Arc<SplitCounters>,
    mark: Option<u32>,
    pulse: Pulse,
}

/// Whether a loop turns, as seen at each beat of another: time in which neither is given the processor does not count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Pulse {
    turns: u64,
    /// Beats since it last turned.
    missed: u32,
}

impl Pulse {
    /// Whether it stands still, now that it has turned `turns` times.
    fn stands_still(&mut self, turns: u64) -> bool {
        self.missed = if turns == self.turns { self.missed + 1 } else { 0 };
        self.turns = turns;
        self.missed >= STILL
    }
}

impl Relay {
    /// Runs it until the process ends; it takes connections with this mark.
    pub fn start(mut proxy: SplitProxy, mark: u32) -> io::Result<Self> {
        let counters = proxy.counters();
        std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
            // It runs until the process ends, and its connections end with it.
            if let Err(error) = proxy.run(&AtomicBool::new(false)) {
                tracing::error!(%error, "the relay of split connections is lost");
                std::process::exit(1);
            }
        })?;
        Ok(Self { counters, mark: Some(mark), pulse: Pulse::default() })
    }

    /// The mark of the connections that go to it; none when no more are to.
    pub fn mark(&self) -> Option<u32> {
        self.mark
    }

    /// No more connections go to it.
    pub fn close(&mut self) {
        self.mark = None;
    }

    /// Whether it does nothing; to be asked at every beat.
    pub fn hangs(&mut self) -> bool {
        self.pulse.stands_still(self.counters.turns())
    }

    /// What it has done.
    pub fn snapshot(&self) -> SplitSnapshot {
        self.counters.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_turns_now_and_then_does_not_stand_still() {
        let mut pulse = Pulse::default();
        // An idle relay turns every five beats.
        assert!((0..1000).all(|beat| !pulse.stands_still(beat / 5)));
        let mut still = (0..2 * STILL).map(|_| pulse.stands_still(999));
        assert_eq!(still.position(|still| still), Some(STILL as usize));
        assert!(!pulse.stands_still(1000));
    }
}

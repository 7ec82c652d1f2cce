//! Discovery of the path's MTU without ICMP: DPLPMTUD (RFC 8899). Sizes are bytes of UDP payload.

use lasthop_proto::time::{Duration, Instant};

/// Initial size until a larger one is confirmed: BASE_PLPMTU (section 5.1.2).
pub const BASE: u16 = 1_200;
/// Size used if not even the base passes: MIN_PLPMTU, the minimum that every IPv4 host accepts, without headers.
pub const LEAST: u16 = 548;

/// Number of unanswered probes after which a size is considered too large: MAX_PROBES. RFC 8899 recommends 3. At 10 %
/// loss in each direction, three fail in a row once in 150 times, six once in 20,000 times.
const PROBES: u8 = 6;
/// Time to wait for the answer to a probe: PROBE_TIMER.
const WAIT: Duration = Duration::from_secs(1);
/// Time after which a larger size is tried again: PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);
/// Maximum time between probes of the base while it does not pass.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Precision of the search, in bytes.
const NEAR: u16 = 4;
/// Number of consecutive losses of packets above the base, and their minimum duration, while others arrive, that
/// indicate a black hole (section 4.3).
const HOLE_PACKETS: u16 = 10;
const HOLE_TIME: Duration = Duration::from_millis(100);

/// States of section 5.2, without the state for unresponsive paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The base is being confirmed.
    Base,
    /// Larger sizes are being tried.
    Searching,
    /// The largest size is known.
    Complete,
    /// Even the base does not pass.
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u32,
    size: u16,
    tries: u8,
    /// Time at which the probe is repeated.
    again: Instant,
}

/// Consecutive losses of large packets.
#[derive(Clone, Copy, Debug)]
struct Hole {
    since: Instant,
    packets: u16,
    /// True if a packet of any size arrived in the meantime.
    alive: bool,
}

/// Search for the MTU of one path.
#[derive(Clone, Debug)]
pub struct Search {
    state: State,
    size: u16,
    /// Largest size that can be sent at all.
    ceiling: u16,
    /// Smallest size known not to pass.
    fails: u16,
    probe: Option<Probe>,
    next_number: u32,
    /// Time of the next probe, if none is in flight.
    due: Option<Instant>,
    wait: Duration,
    hole: Option<Hole>,
}

impl Search {
    /// Starts the search on a new path, on which the local interface limits the size to `ceiling` bytes.
    pub fn new(now: Instant, ceiling: u16) -> Self {
        let ceiling = ceiling.max(LEAST);
        let size = ceiling.min(BASE);
        Self {
            state: State::Base,
            size,
            ceiling,
            fails: ceiling.saturating_add(1),
            probe: None,
            next_number: 0,
            due: Some(now),
            wait: WAIT,
            hole: None,
        }
    }

    /// Returns the size known to pass: PLPMTU.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Returns the state of the search.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the time of the next call of [`Self::poll`]; `None` if only an event can change the state.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.probe.as_ref().map(|probe| probe.again).or(self.due)
    }

    /// Returns number and size of a probe to send now.
    pub fn poll(&mut self, now: Instant) -> Option<(u32, u16)> {
        if let Some(probe) = &mut self.probe {
            if now < probe.again {
                return None;
            }
            if probe.tries < PROBES {
                probe.tries += 1;
                probe.again = now + self.wait;
                return Some((probe.number, probe.size));
            }
            let size = probe.size;
            self.fail(now, size);
        }
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        self.due = None;
        let size = match self.state {
            State::Base | State::Error => self.ceiling.min(BASE),
            State::Searching => self.candidate(),
            State::Complete => {
                // Time to try larger sizes again.
                (self.state, self.fails) = (State::Searching, self.ceiling.saturating_add(1));
                self.candidate()
            }
        };
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        self.probe = Some(Probe { number, size, tries: 1, again: now + self.wait });
        Some((number, size))
    }

    /// Returns the next size to try: first the largest, which most paths support, then by bisection.
    fn candidate(&self) -> u16 {
        if self.fails > self.ceiling { self.ceiling } else { self.size + self.fails.saturating_sub(self.size) / 2 }
    }

    fn fail(&mut self, now: Instant, size: u16) {
        self.probe = None;
        match self.state {
            State::Base | State::Error => {
                (self.state, self.size) = (State::Error, LEAST);
                self.wait = self.wait.saturating_mul(2).min(LONGEST_WAIT);
                self.due = Some(now);
            }
            State::Searching | State::Complete => {
                self.fails = self.fails.min(size);
                self.go_on(now);
            }
        }
    }

    /// Continues after a step of the search.
    fn go_on(&mut self, now: Instant) {
        if self.size >= self.ceiling {
            (self.state, self.due) = (State::Complete, None);
        } else if self.fails.saturating_sub(self.size) <= NEAR {
            (self.state, self.due) = (State::Complete, Some(now + RAISE));
        } else {
            (self.state, self.due) = (State::Searching, Some(now));
        }
    }

    /// Handles the acknowledgment of a probe. Returns whether the size has changed.
    pub fn seen(&mut self, now: Instant, number: u32) -> bool {
        let Some(probe) = self.probe.take_if(|probe| probe.number == number) else { return false };
        let before = self.size;
        self.size = match self.state {
            State::Base | State::Error => probe.size,
            State::Searching | State::Complete => self.size.max(probe.size),
        };
        self.wait = WAIT;
        self.go_on(now);
        self.size != before
    }

    /// Records that a packet of `size` bytes was acknowledged.
    pub fn acknowledged(&mut self, size: u16) {
        if size > BASE {
            self.hole = None;
        } else if let Some(hole) = &mut self.hole {
            hole.alive = true;
        }
    }

    /// Records that a packet of `size` bytes was lost. Returns whether the size has changed.
    pub fn lost(&mut self, now: Instant, size: u16) -> bool {
        if size <= BASE || self.size <= BASE {
            return false;
        }
        let hole = self.hole.get_or_insert(Hole { since: now, packets: 0, alive: false });
        hole.packets = hole.packets.saturating_add(1);
        let is_hole = hole.packets >= HOLE_PACKETS && now.since(hole.since) >= HOLE_TIME && hole.alive;
        is_hole && self.restart(now)
    }

    /// Records that the system refused to send `size` bytes. Returns whether the size has changed.
    pub fn too_big(&mut self, now: Instant, size: u16) -> bool {
        if self.size >= size && self.size > BASE {
            return self.restart(now);
        }
        if self.probe.is_some_and(|probe| probe.size >= size) {
            self.probe = None;
            self.fails = self.fails.min(size);
            if size <= BASE {
                self.fail(now, size);
                return self.size != BASE;
            }
            self.go_on(now);
        }
        self.size >= size && self.restart(now)
    }

    /// Postpones due probes while nothing can be sent.
    pub fn hold(&mut self, now: Instant) {
        if self.poll_deadline().is_some_and(|deadline| deadline <= now) {
            self.due = Some(now + self.wait);
            self.probe = None;
        }
    }

    /// Returns to the base and starts a new search.
    fn restart(&mut self, now: Instant) -> bool {
        let (before, number) = (self.size, self.next_number);
        *self = Self { next_number: number, ..Self::new(now, self.ceiling) };
        self.size != before
    }
}

#[cfg(test)]
#[path = "pmtu_tests.rs"]
mod tests;

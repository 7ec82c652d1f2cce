//! The path's MTU, found without ICMP: DPLPMTUD (RFC 8899). Sizes are bytes of UDP payload.

use lasthop_proto::time::{Duration, Instant};

/// BASE_PLPMTU (section 5.1.2): what is used until more is confirmed.
pub const BASE: u16 = 1_200;
/// MIN_PLPMTU: what is used where not even the base passes: the least that every IPv4 host takes, without its headers.
pub const LEAST: u16 = 548;

/// MAX_PROBES: probes without an answer after which a size does not pass. RFC 8899 recommends 3; where a tenth is lost in each
/// direction, three fail in a row every 150 times, six every 20,000 times.
const PROBES: u8 = 6;
/// PROBE_TIMER.
const WAIT: Duration = Duration::from_secs(1);
/// PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);
/// The longest wait between probes of the base where it does not pass.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The search ends when it is this near.
const NEAR: u16 = 4;
/// So many packets above the base, lost one after another over so long while others came through, are a black hole (section 4.3).
const HOLE_PACKETS: u16 = 10;
const HOLE_TIME: Duration = Duration::from_millis(100);

/// States of section 5.2, without that for paths whose ends do not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The base is being confirmed.
    Base,
    /// Larger sizes are tried.
    Searching,
    /// The largest size is known.
    Complete,
    /// Not even the base passes.
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u32,
    size: u16,
    tries: u8,
    /// Sent; again from then on.
    again: Instant,
}

/// Losses of large packets in a row.
#[derive(Clone, Copy, Debug)]
struct Hole {
    since: Instant,
    packets: u16,
    /// Whether a packet of any size came through meanwhile.
    alive: bool,
}

/// The search for one path.
#[derive(Clone, Debug)]
pub struct Search {
    state: State,
    size: u16,
    /// The largest that can be sent at all.
    ceiling: u16,
    /// The smallest that is known not to pass.
    fails: u16,
    probe: Option<Probe>,
    next_number: u32,
    /// When the next probe is due, where none is on its way.
    due: Option<Instant>,
    wait: Duration,
    hole: Option<Hole>,
}

impl Search {
    /// A new path, on which the local interface lets `ceiling` bytes pass.
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

    /// What passes, as far as is known: PLPMTU.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// The search's state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// When [`Self::poll`] is to be called next; none when only an event can change anything.
    pub fn deadline(&self) -> Option<Instant> {
        self.probe.as_ref().map(|probe| probe.again).or(self.due)
    }

    /// The number and size of a probe that is to be sent now.
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
                // Time to try again.
                (self.state, self.fails) = (State::Searching, self.ceiling.saturating_add(1));
                self.candidate()
            }
        };
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        self.probe = Some(Probe { number, size, tries: 1, again: now + self.wait });
        Some((number, size))
    }

    /// The largest first, since most paths pass it; then halves.
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

    /// After a step of the search.
    fn go_on(&mut self, now: Instant) {
        if self.size >= self.ceiling {
            (self.state, self.due) = (State::Complete, None);
        } else if self.fails.saturating_sub(self.size) <= NEAR {
            (self.state, self.due) = (State::Complete, Some(now + RAISE));
        } else {
            (self.state, self.due) = (State::Searching, Some(now));
        }
    }

    /// The peer has seen the probe of that number. Says whether the size is another one now.
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

    /// A packet of `size` bytes was acknowledged.
    pub fn acknowledged(&mut self, size: u16) {
        if size > BASE {
            self.hole = None;
        } else if let Some(hole) = &mut self.hole {
            hole.alive = true;
        }
    }

    /// A packet of `size` bytes was lost. Says whether the size is another one now.
    pub fn lost(&mut self, now: Instant, size: u16) -> bool {
        if size <= BASE || self.size <= BASE {
            return false;
        }
        let hole = self.hole.get_or_insert(Hole { since: now, packets: 0, alive: false });
        hole.packets = hole.packets.saturating_add(1);
        let is_hole = hole.packets >= HOLE_PACKETS && now.since(hole.since) >= HOLE_TIME && hole.alive;
        is_hole && self.restart(now)
    }

    /// The system refused to send `size` bytes. Says whether the size is another one now.
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

    /// Nothing can be sent now: what is due waits.
    pub fn hold(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.due = Some(now + self.wait);
            self.probe = None;
        }
    }

    /// Back to the base, and a new search.
    fn restart(&mut self, now: Instant) -> bool {
        let (before, number) = (self.size, self.next_number);
        *self = Self { next_number: number, ..Self::new(now, self.ceiling) };
        self.size != before
    }
}

#[cfg(test)]
#[path = "pmtu_tests.rs"]
mod tests;

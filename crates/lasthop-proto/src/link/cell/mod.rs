//! A cell of LTE or NR (5G): users share the transmission time intervals (TTIs) of a base station.
//!
//! In each TTI a proportional-fair scheduler fills transport blocks with the frames of the users whose channel is best
//! in relation to their average throughput. Failed blocks are repeated by HARQ, then by RLC, and frames leave in order,
//! so losses turn into delay. An idle uplink waits for a grant, an idle downlink for the receiver to wake up, and
//! handovers interrupt both.
//!
//! A cell takes one event for each TTI in which a line has something to send, and none while all are idle.

mod carrier;
mod fair;
mod line;
mod quality;
mod spec;
mod user;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

pub use spec::{
    CarrierSpec, CellLine, CellSpec, CellUser, Direction, DrxSpec, Duplexing, HandoverSpec, HarqSpec, LTE, MOST_SLOTS,
    NR, Quality, RlcSpec, SlotPattern,
};

use self::carrier::Carrier;
use self::line::Line;
use self::quality::Channel;
use self::user::User;
use super::access::{AccessMedium, Crossed, LineId, Source};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A cell.
#[derive(Clone, Debug)]
pub struct Cell<T> {
    spec: CellSpec,
    users: Vec<User>,
    lines: Vec<Line<T>>,
    carriers: [Carrier; 2],
    /// Lines of each carrier, in the order of its members.
    members: [Vec<usize>; 2],
    /// First TTI that has not begun.
    tti: u64,
    /// TTI of the next event.
    next: Option<u64>,
    crossed: VecDeque<Crossed<T>>,
}

impl<T> Cell<T> {
    /// Returns an idle cell. `streams` returns the random stream of a part: `users/NAME/down/quality`,
    /// `users/NAME/down/errors`, `users/NAME/access` and `users/NAME/handover` of the user NAME,
    /// `others/down/0/quality` of the first competing user and so on, `others/down/errors` of all of them, and the same
    /// for `up`. `None` if a parameter is invalid, two users have the same name, a line has no user, or two lines of a
    /// user have the same direction.
    pub fn new(
        spec: CellSpec,
        users: &[CellUser],
        lines: &[CellLine],
        mut streams: impl FnMut(&str) -> Stream,
    ) -> Option<Self> {
        let is_double = |(place, line): (usize, &CellLine)| lines.iter().take(place).any(|earlier| earlier == line);
        let has_namesake =
            |(place, user): (usize, &CellUser)| users.iter().take(place).any(|earlier| earlier.name == user.name);
        let sound = spec.is_sound()
            && users.iter().all(CellUser::is_sound)
            && lines.iter().all(|line| line.user < users.len())
            && !lines.iter().enumerate().any(is_double)
            && !users.iter().enumerate().any(has_namesake);
        if !sound {
            return None;
        }
        let thresholds = spec.thresholds();
        let mut channels = [Vec::new(), Vec::new()];
        let mut members = [Vec::new(), Vec::new()];
        let mut new_lines = Vec::with_capacity(lines.len());
        for (id, line) in lines.iter().enumerate() {
            let (user, direction) = (users.get(line.user)?, line.direction);
            let quality = if direction == Direction::Down { user.down } else { user.up };
            let path = |part: &str| format!("users/{}/{}/{part}", user.name, name(direction));
            let channel = Channel::new(quality, thresholds, spec.tti, streams(&path("quality")));
            channels[direction as usize].push(channel);
            members[direction as usize].push(id);
            new_lines.push(Line::new(LineId(id), line.user, direction, streams(&path("errors"))));
        }
        let carriers = [Direction::Down, Direction::Up].map(|direction| {
            let carrier = spec.carrier(direction);
            let mut channels = core::mem::take(&mut channels[direction as usize]);
            let lines = channels.len();
            for number in 0..carrier.others {
                let stream = streams(&format!("others/{}/{number}/quality", name(direction)));
                channels.push(Channel::new(carrier.quality, thresholds, spec.tti, stream));
            }
            let errors = streams(&format!("others/{}/errors", name(direction)));
            Carrier::new(&spec, direction, lines, channels, errors)
        });
        let mut new_user =
            |user: &CellUser| User::new(user.handover, |part| streams(&format!("users/{}/{part}", user.name)));
        let users = users.iter().map(&mut new_user).collect();
        Some(Self { spec, users, lines: new_lines, carriers, members, tti: 0, next: None, crossed: VecDeque::new() })
    }

    /// Begins a TTI: ends the transmissions of the last one, begins handovers, and transmits.
    fn begin(&mut self, tti: u64, source: &mut dyn Source<T>) {
        let now = self.spec.start(tti);
        self.tti = tti + 1;
        for line in self.lines.iter_mut().filter(|line| line.is_on_air()) {
            line.finish(now, &self.spec, &mut self.crossed);
        }
        for (number, user) in self.users.iter_mut().enumerate() {
            if user.advance(now) {
                for line in self.lines.iter_mut().filter(|line| line.user == number) {
                    line.lose(now, source, &mut self.crossed);
                }
            }
        }
        self.transmit(tti, Direction::Down, source);
        self.transmit(tti, Direction::Up, source);
    }

    /// Transmits in one direction: first repeats, then new data.
    fn transmit(&mut self, tti: u64, direction: Direction, source: &mut dyn Source<T>) {
        let units = self.spec.units(tti, direction);
        if units == 0 {
            return;
        }
        let mut left = units;
        self.repeat(tti, direction, &mut left);
        let now = self.spec.start(tti);
        let Self { spec, users, lines, carriers, members, .. } = self;
        let (carrier, members) = (&mut carriers[direction as usize], &members[direction as usize]);
        let may_send = |line: &usize| lines[*line].may_send(spec, now) && users[lines[*line].user].gap_end() <= now;
        if left == 0 || !members.iter().any(may_send) {
            return;
        }
        left = carrier.begin(spec, tti, left);
        for member in (0..members.len()).filter(|member| may_send(&members[*member])) {
            carrier.join(spec, tti, member);
        }
        while left > 0
            && let Some((member, density)) = carrier.best(spec, tti)
        {
            if member >= carrier.lines() {
                carrier.serve_other(spec, tti, (member, density), left);
                break;
            }
            let line = &mut lines[members[member]];
            let (bits, taken) = line.send(now, (left, density), source);
            carrier.serve(member, bits);
            left -= taken;
            if taken > 0 {
                occupy(spec, line, &mut users[line.user], now, taken);
            }
        }
        carrier.end();
    }

    /// Transmits the repeats that are due, in the order of their times, until no more fit. They take precedence over
    /// new data.
    fn repeat(&mut self, tti: u64, direction: Direction, left: &mut u32) {
        let now = self.spec.start(tti);
        let Self { spec, users, lines, members, .. } = self;
        // Time and place of the last repeat that did not fit: those after it are tried in its place.
        let mut refused: Option<(Instant, usize)> = None;
        while *left > 0 {
            let due = members[direction as usize].iter().filter_map(|place| {
                let line = &lines[*place];
                let at = line.next_repeat().filter(|at| *at <= now && users[line.user].gap_end() <= now)?;
                Some((at, *place)).filter(|key| refused.is_none_or(|refused| *key > refused))
            });
            let Some((at, place)) = due.min() else { break };
            let line = &mut lines[place];
            match line.repeat(now, *left) {
                Some(taken) => {
                    *left -= taken;
                    occupy(spec, line, &mut users[line.user], now, taken);
                }
                None => refused = Some((at, place)),
            }
        }
    }

    /// Returns the TTI of the next event of a line.
    fn next_of(&self, line: &Line<T>) -> Option<u64> {
        if line.is_on_air() {
            return Some(self.tti);
        }
        if !line.is_active() {
            return None;
        }
        let user = &self.users[line.user];
        let transmission = line.next_transmission(&self.spec).map(|at| {
            let tti = self.spec.tti_from(at.max(user.gap_end())).max(self.tti);
            self.spec.next_tti(tti, line.direction)
        });
        let failure = user.next_failure().map(|at| self.spec.tti_from(at).max(self.tti));
        [transmission, failure].into_iter().flatten().min()
    }

    fn is_active(&self, user: usize) -> bool {
        self.lines.iter().any(|line| line.user == user && line.is_active())
    }

    /// Returns the line of a user in a direction.
    fn line_of(&mut self, user: usize, direction: Direction) -> Option<&mut Line<T>> {
        self.lines.iter_mut().find(|line| line.user == user && line.direction == direction)
    }
}

/// Records a transmission of some resource blocks that starts now.
fn occupy<T>(spec: &CellSpec, line: &mut Line<T>, user: &mut User, now: Instant, units: u32) {
    let share = spec.tti.saturating_mul(u64::from(units)) / u64::from(spec.carrier(line.direction).blocks.max(1));
    line.occupy(now, share);
    user.active = now + spec.tti;
}

const fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

impl<T: Send> AccessMedium<T> for Cell<T> {
    fn handle_frame(&mut self, now: Instant, line: LineId) {
        let Some(&Line { user: number, direction, is_queued, .. }) = self.lines.get(line.0) else { return };
        if is_queued {
            return;
        }
        let (is_active, has_data) = (self.is_active(number), self.lines[line.0].has_data());
        let user = &mut self.users[number];
        if !is_active {
            // A handover that failed meanwhile had no frames to lose.
            user.advance(now);
        }
        let mut ready = now;
        if !has_data {
            match direction {
                // A receiver that waits for a grant does not sleep beyond it.
                Direction::Down => {
                    ready += user.sleep(now, self.spec.drx);
                    if let Some(up) = self.line_of(number, Direction::Up).filter(|up| up.has_data()) {
                        ready = ready.min(up.ready.max(now));
                    }
                }
                Direction::Up => {
                    ready += user.grant(self.spec.grant);
                    if let Some(down) = self.line_of(number, Direction::Down) {
                        down.ready = down.ready.min(ready);
                    }
                }
            }
            self.lines[line.0].ready = ready;
        }
        self.lines[line.0].is_queued = true;
        // A grant may also end the sleep of the downlink.
        let lines = self.lines.iter().filter(|line| line.user == number);
        let next = lines.filter_map(|line| self.next_of(line)).min();
        self.next = [self.next, next].into_iter().flatten().min();
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.next.map(|tti| self.spec.start(tti))
    }

    fn handle_timeout(&mut self, now: Instant, source: &mut dyn Source<T>) {
        // Late or not, the driver's queues see its own clock.
        let mut source = |_: Instant, line: LineId| source.take(now, line);
        while let Some(tti) = self.next.filter(|tti| self.spec.start(*tti) <= now) {
            self.begin(tti, &mut source);
            self.next = self.lines.iter().filter_map(|line| self.next_of(line)).min();
        }
    }

    fn poll_crossed(&mut self) -> Option<Crossed<T>> {
        self.crossed.pop_front()
    }

    fn held(&self, line: LineId) -> usize {
        self.lines.get(line.0).map_or(0, Line::incomplete)
    }

    fn busy(&self, now: Instant, line: LineId) -> Duration {
        self.lines.get(line.0).map_or(Duration::ZERO, |line| line.busy(now, self.spec.tti))
    }
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod share_tests;

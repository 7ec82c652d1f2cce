//! When each step of a handoff is due, and what follows it.

use std::collections::BTreeMap;

use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};

use super::{HandoffKind, Mobility, Moves};

/// From one station of a host to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// The station that it begins at.
    pub from: usize,
    /// The one that it leads to.
    pub to: usize,
}

impl Course {
    /// The way back.
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// What a host moves on: carries out the steps of its handoffs.
pub trait Ground {
    /// The host leaves its station, or turns elsewhere on its way; it goes to the station `heading`.
    fn leave(&mut self, now: Instant, heading: usize);

    /// The station where the host is, or was last.
    fn served(&self) -> usize;

    /// How often the host has left a station.
    fn times_left(&self, station: usize) -> u64;

    /// Bytes of state at a station that the host depends on.
    fn hard_state(&self, station: usize) -> u64;

    /// How long `bytes` take from one station to another over the wire; none take the links' delays.
    fn wire_time(&self, course: Course, bytes: u64) -> Duration;

    /// How long after the host's arrival routes have changed.
    fn route_update(&self, course: Course) -> Duration;

    /// The host is at the station that it went to.
    fn attach(&mut self, now: Instant);

    /// What elements of the old station know is at the new one now, or nowhere.
    fn move_state(&mut self, now: Instant, course: Course);

    /// The station where the host is sends what it kept for it.
    fn send_kept(&mut self, now: Instant);

    /// The old station, which the host left for the `left`th time, hears where it is now.
    fn tell(&mut self, now: Instant, course: Course, left: u64);

    /// Routes lead to the station `to` from now on.
    fn reroute(&mut self, now: Instant, to: usize);
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The host leaves its station, or turns elsewhere.
    Leave,
    /// The new station has taken it on, unless it has turned elsewhere since.
    Register { turn: u64 },
    /// The state that it depends on is there, unless it has turned elsewhere since.
    Attach { turn: u64 },
    /// The old station hears of the new one.
    Tell { course: Course, left: u64 },
    /// Routes have changed.
    Reroute { to: usize },
}

/// What is to come of the moves of a host.
pub struct Itinerary {
    plan: Mobility,
    /// By time, and in the order in which it was entered.
    agenda: BTreeMap<(Instant, u64), Step>,
    entered: u64,
    draws: Stream,
    /// How many of a timetable's moves have been.
    moved: usize,
    /// Where the host is or goes.
    heading: usize,
    /// How often it has turned to another station.
    turn: u64,
}

impl Itinerary {
    /// One that begins at time zero, with the first station. Random moves are drawn from `mobility/moves`.
    pub fn new(plan: Mobility, root: Root) -> Self {
        let mut itinerary = Self {
            draws: root.stream("mobility/moves"),
            agenda: BTreeMap::new(),
            entered: 0,
            moved: 0,
            heading: 0,
            turn: 0,
            plan,
        };
        itinerary.plan_move(Instant::ZERO);
        itinerary
    }

    /// When the next step is due; none when the host stays where it is.
    pub fn next(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// Has `ground` take the steps that are due by `now`.
    pub fn act(&mut self, now: Instant, ground: &mut impl Ground) {
        while let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 <= now) {
            let step = first.remove();
            self.take(now, ground, step);
        }
    }

    fn take(&mut self, now: Instant, ground: &mut impl Ground, step: Step) {
        match step {
            Step::Leave => {
                self.heading = self.choose();
                self.turn += 1;
                ground.leave(now, self.heading);
                let at = now + self.plan.detection + self.plan.registration;
                self.enter(at, Step::Register { turn: self.turn });
                self.plan_move(now);
            }
            Step::Register { turn } if turn == self.turn => {
                let course = Course { from: ground.served(), to: self.heading };
                let bytes = ground.hard_state(course.from);
                if course.from == course.to || bytes == 0 {
                    return self.take(now, ground, Step::Attach { turn });
                }
                self.enter(now + self.plan.state_setup + ground.wire_time(course, bytes), Step::Attach { turn });
            }
            Step::Attach { turn } if turn == self.turn => {
                let course = Course { from: ground.served(), to: self.heading };
                let left = ground.times_left(course.from);
                ground.attach(now);
                if course.from != course.to {
                    ground.move_state(now, course);
                }
                ground.send_kept(now);
                if course.from != course.to {
                    self.spread(now, ground, course, left);
                }
            }
            Step::Register { .. } | Step::Attach { .. } => {}
            Step::Tell { course, left } => ground.tell(now, course, left),
            Step::Reroute { to } => ground.reroute(now, to),
        }
    }

    /// Enters when others hear that the host has gone that way.
    fn spread(&mut self, now: Instant, ground: &impl Ground, course: Course, left: u64) {
        match self.plan.kind {
            HandoffKind::Multicast => return,
            HandoffKind::Forwarding => {
                self.enter(now + ground.wire_time(course.back(), 0), Step::Tell { course, left });
            }
            HandoffKind::Hard | HandoffKind::Hierarchical => {}
        }
        self.enter(now + ground.route_update(course), Step::Reroute { to: course.to });
    }

    fn enter(&mut self, at: Instant, step: Step) {
        self.agenda.insert((at, self.entered), step);
        self.entered += 1;
    }

    /// Enters the next move after `now`.
    fn plan_move(&mut self, now: Instant) {
        let at = match &self.plan.moves {
            Moves::At(times) => times.get(self.moved).copied(),
            Moves::Every(period) => Some(now + *period),
            Moves::Mean(mean) => {
                let seconds = self.draws.exponential(mean.as_secs_f64());
                Some(now + Duration::from_secs_f64(seconds))
            }
        };
        self.moved += 1;
        if let Some(at) = at.filter(|_| self.plan.stations.len() > 1) {
            self.enter(at, Step::Leave);
        }
    }

    /// Where the host goes next.
    fn choose(&mut self) -> usize {
        let stations = self.plan.stations.len();
        let ahead = match self.plan.moves {
            Moves::At(_) | Moves::Every(_) => 1,
            Moves::Mean(_) => 1 + self.draws.below(stations as u64 - 1) as usize,
        };
        (self.heading + ahead) % stations
    }
}

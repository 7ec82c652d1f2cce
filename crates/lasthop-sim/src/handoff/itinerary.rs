//! Schedule of the steps of a handoff.

use std::collections::BTreeMap;

use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};

use super::{HandoffKind, Mobility, Moves};

/// A move from one station of a host to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// Station that the host leaves.
    pub from: usize,
    /// Station that the host goes to.
    pub to: usize,
}

impl Course {
    /// Returns the opposite direction.
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// Environment of a moving host: carries out the steps of its handoffs.
pub trait Ground {
    /// Makes the host leave its station for `heading`, or change its destination on the way.
    fn leave(&mut self, now: Instant, heading: usize);

    /// Returns the station where the host is or was last.
    fn served(&self) -> usize;

    /// Returns the number of times that the host has left a station.
    fn times_left(&self, station: usize) -> u64;

    /// Returns the bytes of state at a station that the host depends on.
    fn hard_state(&self, station: usize) -> u64;

    /// Returns the time that `bytes` take from one station to another over the wire. With 0 bytes, it is the sum of the
    /// links' delays.
    fn wire_time(&self, course: Course, bytes: u64) -> Duration;

    /// Returns the time from the host's arrival to the change of routes.
    fn route_update(&self, course: Course) -> Duration;

    /// Attaches the host to the station that it went to.
    fn attach(&mut self, now: Instant);

    /// Moves the state of elements from the old station to the new one, or discards it.
    fn move_state(&mut self, now: Instant, course: Course);

    /// Sends the packets that the host's station kept for it.
    fn send_kept(&mut self, now: Instant);

    /// Informs the old station, which the host left for the `left`th time, of the new one.
    fn tell(&mut self, now: Instant, course: Course, left: u64);

    /// Changes the routes to lead to the station `to`.
    fn reroute(&mut self, now: Instant, to: usize);
}

/// A step of a handoff.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The host leaves its station, or changes its destination.
    Leave,
    /// The new station has registered the host, unless it has changed its destination since.
    Register { turn: u64 },
    /// The state that the host depends on has arrived, unless the host has changed its destination since.
    Attach { turn: u64 },
    /// The old station learns of the new one.
    Tell { course: Course, left: u64 },
    /// Routes change.
    Reroute { to: usize },
}

/// Future steps of a host's handoffs.
pub struct Itinerary {
    plan: Mobility,
    /// Steps by time; at equal times, in the order in which they were entered.
    agenda: BTreeMap<(Instant, u64), Step>,
    entered: u64,
    draws: Stream,
    /// Number of moves of a timetable that have been entered.
    moved: usize,
    /// Current or next station.
    heading: usize,
    /// Number of times that the host has changed its destination.
    turn: u64,
}

impl Itinerary {
    /// Creates an itinerary that begins at time zero at the first station. Draws random moves from `mobility/moves`.
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

    /// Returns the time of the next step; `None` if the host stays where it is.
    pub fn next(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// Makes `ground` carry out the steps that are due by `now`.
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

    /// Enters the steps that inform others of the move.
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

    /// Chooses the host's next station.
    fn choose(&mut self) -> usize {
        let stations = self.plan.stations.len();
        let ahead = match self.plan.moves {
            Moves::At(_) | Moves::Every(_) => 1,
            Moves::Mean(_) => 1 + self.draws.below(stations as u64 - 1) as usize,
        };
        (self.heading + ahead) % stations
    }
}

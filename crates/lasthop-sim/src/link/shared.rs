//! Half-duplex media: both ends of a link share the time on the air.

use std::collections::VecDeque;

use lasthop_proto::queue::Sight;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::feed::{Access, Feed, Seeds};
use super::{Accepted, Cut, Direction, Frame, InFlight};
use crate::network::LinkSpec;
use crate::trace::DropReason;

/// One direction of a shared medium.
pub(super) struct Station {
    pub feed: Feed,
    /// Frames on the air or propagating, in order.
    pub propagating: VecDeque<InFlight>,
}

impl Station {
    /// Creates a station without frames.
    pub fn new(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        let feed = Feed::new(&link.directions[direction.index()], direction, Seeds::new(link, root));
        Self { feed, propagating: VecDeque::new() }
    }
}

/// A half-duplex medium. The two stations alternate while both have frames.
pub struct SharedMedium {
    delay: Duration,
    frame_overhead: Duration,
    turnaround: Duration,
    /// Direction of the last frame.
    last: Option<Direction>,
    stations: [Station; 2],
    /// Station on the air, and the end of its transmission.
    on_air: Option<(Direction, Instant)>,
}

impl SharedMedium {
    /// Creates the medium of a link, without frames. Each access takes `frame_overhead` in addition to the bytes;
    /// radios take `turnaround` to change direction.
    pub fn new(link: &LinkSpec, frame_overhead: Duration, turnaround: Duration, root: Root) -> Self {
        let stations = [Direction::Down, Direction::Up].map(|direction| Station::new(link, direction, root));
        Self { delay: link.delay, frame_overhead, turnaround, last: None, stations, on_air: None }
    }

    /// Queues a frame. `look` returns the properties of its packet.
    pub fn enqueue(
        &mut self,
        now: Instant,
        direction: Direction,
        frame: Frame,
        look: impl FnOnce() -> Sight,
    ) -> Accepted {
        let idle = self.on_air.is_none();
        let at_once = if idle { Switch::On } else { Switch::Off };
        if self.stations[direction.index()].feed.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        if idle {
            self.transmit(now, direction);
        }
        match self.poll_deadline() {
            Some(at) if idle => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    /// Returns a frame that a managed queue dropped, its direction, and the reason.
    pub fn take_dropped(&mut self) -> Option<(Direction, Frame, DropReason)> {
        [Direction::Down, Direction::Up].into_iter().find_map(|direction| {
            let (frame, why) = self.stations[direction.index()].feed.take_dropped()?;
            Some((direction, frame, why))
        })
    }

    /// Starts to keep the frames that begin transmission in a direction for [`Self::take_begun`].
    pub fn keep_begun(&mut self, direction: Direction) {
        self.stations[direction.index()].feed.keep_begun();
    }

    /// Returns a frame that began transmission, and its direction.
    pub fn take_begun(&mut self) -> Option<(Direction, Frame)> {
        [Direction::Down, Direction::Up]
            .into_iter()
            .find_map(|direction| Some((direction, self.stations[direction.index()].feed.take_begun()?)))
    }

    /// Returns the number of frames queued in a direction.
    pub fn waiting(&self, direction: Direction) -> usize {
        self.stations[direction.index()].feed.len()
    }

    /// Returns the time on the air in a direction until `now`.
    pub fn busy(&self, now: Instant, direction: Direction) -> Duration {
        self.stations[direction.index()].feed.busy(now)
    }

    /// Removes all frames of a direction, except those that a managed queue drops. Starts no transmission: the caller
    /// cuts the other direction as well.
    pub fn cut(&mut self, now: Instant, direction: Direction) -> Cut {
        let station = &mut self.stations[direction.index()];
        let sent = station.propagating.drain(..).map(|sent| sent.frame).collect();
        let waiting = station.feed.drain(now);
        self.on_air.take_if(|(on_air, _)| *on_air == direction);
        Cut { sent, waiting }
    }

    fn transmit(&mut self, now: Instant, direction: Direction) {
        let Station { feed, propagating } = &mut self.stations[direction.index()];
        let turns = self.last.is_some_and(|last| last != direction);
        let turn = if turns { self.turnaround } else { Duration::ZERO };
        let access = Access { turn, overhead: self.frame_overhead };
        if let Some(end) = feed.send(now, access, |sent| propagating.push_back(sent)) {
            self.last = Some(direction);
            self.on_air = Some((direction, end));
        }
    }

    /// Returns the time of the next event.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let arrivals = self.stations.iter().filter_map(|station| station.propagating.front());
        let arrivals = arrivals.map(|sent| sent.end + self.delay);
        arrivals.chain(self.on_air.iter().map(|(_, end)| *end)).min()
    }

    /// Processes the events due at `now`. Returns a frame that arrives; `None` if there is none.
    pub fn advance(&mut self, now: Instant) -> Option<(Direction, InFlight)> {
        if let Some((direction, end)) = self.on_air
            && end <= now
        {
            self.on_air = None;
            let waits = !self.stations[direction.other().index()].feed.is_empty();
            let first = if waits { direction.other() } else { direction };
            self.transmit(end, first);
            if self.on_air.is_none() {
                // The queue dropped all frames of that station.
                self.transmit(end, first.other());
            }
        }
        for direction in [Direction::Down, Direction::Up] {
            let station = &mut self.stations[direction.index()];
            if let Some(sent) = station.propagating.front().copied()
                && sent.end + self.delay <= now
            {
                station.propagating.pop_front();
                return Some((direction, sent));
            }
        }
        None
    }
}

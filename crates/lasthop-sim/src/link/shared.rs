//! Half-duplex media: both ends of a link share the time on the air.

use std::collections::VecDeque;

use lasthop_proto::queue::View;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::carrier::SharedCarrier;
use super::feed::{Access, Feed, Seeds};
use super::{Accepted, Cut, Direction, Frame, InFlight};
use crate::network::LinkSpec;

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
        let stations = Direction::BOTH.map(|direction| Station::new(link, direction, root));
        Self { delay: link.delay, frame_overhead, turnaround, last: None, stations, on_air: None }
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
}

impl SharedCarrier for SharedMedium {
    fn enqueue(&mut self, now: Instant, place: usize, frame: Frame, look: impl FnOnce() -> View) -> Accepted {
        let direction = Direction::BOTH[place];
        let idle = self.on_air.is_none();
        let at_once = if idle { Switch::On } else { Switch::Off };
        if self.stations[place].feed.push(now, frame, look, at_once) == Accepted::Dropped {
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

    fn places(&self) -> usize {
        self.stations.len()
    }

    fn feed(&self, place: usize) -> &Feed {
        &self.stations[place].feed
    }

    fn feed_mut(&mut self, place: usize) -> &mut Feed {
        &mut self.stations[place].feed
    }

    /// Starts no transmission: the caller cuts the other direction as well.
    fn cut(&mut self, now: Instant, place: usize) -> Cut {
        let station = &mut self.stations[place];
        let sent = station.propagating.drain(..).map(|sent| sent.frame).collect();
        let waiting = station.feed.drain(now);
        self.on_air.take_if(|(on_air, _)| on_air.index() == place);
        Cut { sent, waiting }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        let arrivals = self.stations.iter().filter_map(|station| station.propagating.front());
        let arrivals = arrivals.map(|sent| sent.end + self.delay);
        arrivals.chain(self.on_air.iter().map(|(_, end)| *end)).min()
    }

    fn advance(&mut self, now: Instant) -> Option<(usize, InFlight)> {
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
        for (place, station) in self.stations.iter_mut().enumerate() {
            if let Some(sent) = station.propagating.front().copied()
                && sent.end + self.delay <= now
            {
                station.propagating.pop_front();
                return Some((place, sent));
            }
        }
        None
    }
}

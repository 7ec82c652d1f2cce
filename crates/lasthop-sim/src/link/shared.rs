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
    /// What is on the air or has left it, in order.
    pub propagating: VecDeque<InFlight>,
}

impl Station {
    /// One that has nothing to send.
    pub fn new(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        let feed = Feed::new(&link.directions[direction.index()], direction, Seeds::new(link, root));
        Self { feed, propagating: VecDeque::new() }
    }
}

/// A half-duplex medium: the two stations take turns while both have frames.
pub struct SharedMedium {
    delay: Duration,
    frame_overhead: Duration,
    turnaround: Duration,
    /// Which way the last frame went.
    last: Option<Direction>,
    stations: [Station; 2],
    /// Which station has the medium, and until when.
    on_air: Option<(Direction, Instant)>,
}

impl SharedMedium {
    /// The medium of a link, without frames, where each access takes `frame_overhead` besides the bytes and radios take `turnaround` to
    /// turn from one direction to the other.
    pub fn new(link: &LinkSpec, frame_overhead: Duration, turnaround: Duration, root: Root) -> Self {
        let stations = [Direction::Down, Direction::Up].map(|direction| Station::new(link, direction, root));
        Self { delay: link.delay, frame_overhead, turnaround, last: None, stations, on_air: None }
    }

    /// Takes a packet to send, which shows what `look` sees.
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
        match self.next_event() {
            Some(at) if idle => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    /// A frame that a managed queue dropped, which way it was to go, and why it was dropped.
    pub fn take_dropped(&mut self) -> Option<(Direction, Frame, DropReason)> {
        [Direction::Down, Direction::Up].into_iter().find_map(|direction| {
            let (frame, why) = self.stations[direction.index()].feed.take_dropped()?;
            Some((direction, frame, why))
        })
    }

    /// Keeps the frames that begin transmission in a direction for [`Self::take_begun`] from now on.
    pub fn keep_begun(&mut self, direction: Direction) {
        self.stations[direction.index()].feed.keep_begun();
    }

    /// A frame that began transmission, and in which direction.
    pub fn take_begun(&mut self) -> Option<(Direction, Frame)> {
        [Direction::Down, Direction::Up]
            .into_iter()
            .find_map(|direction| Some((direction, self.stations[direction.index()].feed.take_begun()?)))
    }

    /// Frames that wait to go in a direction.
    pub fn waiting(&self, direction: Direction) -> usize {
        self.stations[direction.index()].feed.len()
    }

    /// Time for which it has been on the air in a direction until `now`.
    pub fn busy(&self, now: Instant, direction: Direction) -> Duration {
        self.stations[direction.index()].feed.busy(now)
    }

    /// Takes out all frames of a direction, but for those that a managed queue drops. Nothing moves before the other direction is empty
    /// too.
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

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let arrivals = self.stations.iter().filter_map(|station| station.propagating.front());
        let arrivals = arrivals.map(|sent| sent.end + self.delay);
        arrivals.chain(self.on_air.iter().map(|(_, end)| *end)).min()
    }

    /// Acts on what is due at `now`; `None` when nothing arrived by it.
    pub fn advance(&mut self, now: Instant) -> Option<(Direction, InFlight)> {
        if let Some((direction, end)) = self.on_air
            && end <= now
        {
            self.on_air = None;
            let waits = !self.stations[direction.other().index()].feed.is_empty();
            let first = if waits { direction.other() } else { direction };
            self.transmit(end, first);
            if self.on_air.is_none() {
                // All that waited there was dropped.
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

//! A channel shared by several half-duplex hops, as packet radios in a chain do: a station on the air keeps its
//! neighbours from sending.

use lasthop_proto::queue::Sight;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::feed::Access;
use super::shared::Station;
use super::{Accepted, Direction, Frame, InFlight};
use crate::network::LinkSpec;
use crate::trace::DropReason;

const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// A hop of the channel.
struct Hop {
    delay: Duration,
    frame_overhead: Duration,
    /// Direction and frame of the transmission in progress.
    on_air: Option<(Direction, InFlight)>,
    /// Hops that may not send while this one does, including itself.
    excludes: Vec<usize>,
}

/// Sending end of a hop's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationId(pub usize);

impl StationId {
    /// Returns the station at the sending end of a hop's direction. Hops count from 0 within their channel.
    pub const fn new(hop: usize, direction: Direction) -> Self {
        Self(2 * hop + direction.index())
    }

    const fn hop(self) -> usize {
        self.0 / 2
    }

    const fn direction(self) -> Direction {
        if self.0.is_multiple_of(2) { Direction::Down } else { Direction::Up }
    }
}

/// Hops that share a channel. Two hops exclude each other if they have an end in common, or if a hop of the channel
/// joins an end of one to an end of the other: of three adjacent hops in a chain, at most one sends.
///
/// Stations send in the order of their claims. A station claims the channel when a frame enters its empty queue, and
/// again, behind all others, after each frame. A waiting claim keeps younger ones that exclude it from the channel, so
/// that each station gets its turn.
pub struct SharedChannel {
    hops: Vec<Hop>,
    /// Stations of each hop: the one that sends down and the one that sends up.
    stations: Vec<Station>,
    /// Stations with frames to send, oldest claim first.
    claims: Vec<StationId>,
}

impl SharedChannel {
    /// Creates a channel without frames. `links` lists the links with the overhead of each frame.
    pub fn new(links: &[(&LinkSpec, Duration)], root: Root) -> Self {
        let meet = |a: &LinkSpec, b: &LinkSpec| a.ends.iter().any(|end| b.ends.contains(end));
        let excludes = |a: &LinkSpec, b: &LinkSpec| {
            meet(a, b) || links.iter().any(|(between, _)| meet(a, between) && meet(between, b))
        };
        let hop = |&(link, frame_overhead): &(&LinkSpec, Duration)| Hop {
            delay: link.delay,
            frame_overhead,
            on_air: None,
            excludes: (0..links.len()).filter(|&other| excludes(link, links[other].0)).collect(),
        };
        Self {
            hops: links.iter().map(hop).collect(),
            stations: links
                .iter()
                .flat_map(|(link, _)| DIRECTIONS.map(|direction| Station::new(link, direction, root)))
                .collect(),
            claims: Vec::new(),
        }
    }

    /// Queues a frame. `look` returns the properties of its packet.
    pub fn enqueue(&mut self, now: Instant, id: StationId, frame: Frame, look: impl FnOnce() -> Sight) -> Accepted {
        // A frame that begins at once never waits, and needs no space in the queue.
        let claims = self.claims.contains(&id);
        let waits = claims || self.is_kept_back(id.hop(), &self.claims);
        let at_once = if waits { Switch::Off } else { Switch::On };
        if self.stations[id.0].feed.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        if !claims {
            self.claims.push(id);
            self.start(now);
        }
        match self.poll_deadline() {
            Some(at) if !waits => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    /// Starts to keep the frames that begin transmission at a station for [`Self::take_begun`].
    pub fn keep_begun(&mut self, id: StationId) {
        self.stations[id.0].feed.keep_begun();
    }

    /// Returns a frame that began transmission, and its station.
    pub fn take_begun(&mut self) -> Option<(StationId, Frame)> {
        (0..self.stations.len())
            .find_map(|station| Some((StationId(station), self.stations[station].feed.take_begun()?)))
    }

    /// Returns the number of frames queued at a station.
    pub fn waiting(&self, id: StationId) -> usize {
        self.stations[id.0].feed.len()
    }

    /// Returns the time for which a station has been on the air until `now`.
    pub fn busy(&self, now: Instant, id: StationId) -> Duration {
        self.stations[id.0].feed.busy(now)
    }

    /// Returns a frame that a managed queue dropped, its station, and the reason.
    pub fn take_dropped(&mut self) -> Option<(StationId, Frame, DropReason)> {
        self.stations.iter_mut().enumerate().find_map(|(index, station)| {
            let (frame, why) = station.feed.take_dropped()?;
            Some((StationId(index), frame, why))
        })
    }

    /// Returns whether a hop may not send now: one that it excludes is on the air, or has one of the `older` claims.
    fn is_kept_back(&self, hop: usize, older: &[StationId]) -> bool {
        let busy = |&other: &usize| self.hops[other].on_air.is_some() || older.iter().any(|id| id.hop() == other);
        self.hops[hop].excludes.iter().any(busy)
    }

    /// Starts the transmissions of the stations whose turn it is.
    fn start(&mut self, now: Instant) {
        let mut older = 0;
        while let Some(&id) = self.claims.get(older) {
            if self.is_kept_back(id.hop(), &self.claims[..older]) {
                older += 1;
                continue;
            }
            self.claims.remove(older);
            let station = &mut self.stations[id.0];
            let hop = &mut self.hops[id.hop()];
            let access = Access { overhead: hop.frame_overhead, ..Access::default() };
            let mut on_air = None;
            if station.feed.send(now, access, |sent| on_air = Some((id.direction(), sent))).is_none() {
                continue;
            }
            hop.on_air = on_air;
            if !station.feed.is_empty() {
                self.claims.push(id);
            }
        }
    }

    /// Returns the time of the next event.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let arrival = |(index, station): (usize, &Station)| {
            station.propagating.front().map(|sent| sent.end + self.hops[index / 2].delay)
        };
        let arrivals = self.stations.iter().enumerate().filter_map(arrival);
        let ends = self.hops.iter().filter_map(|hop| hop.on_air.as_ref()).map(|(_, sent)| sent.end);
        arrivals.chain(ends).min()
    }

    /// Processes the events due at `now`. Returns a frame that arrives; `None` if there is none.
    pub fn advance(&mut self, now: Instant) -> Option<(StationId, InFlight)> {
        let mut ended = false;
        for index in 0..self.hops.len() {
            if let Some((direction, sent)) = self.hops[index].on_air.take_if(|(_, sent)| sent.end <= now) {
                self.stations[StationId::new(index, direction).0].propagating.push_back(sent);
                ended = true;
            }
        }
        if ended {
            self.start(now);
        }
        for (index, station) in self.stations.iter_mut().enumerate() {
            if station.propagating.front().is_some_and(|sent| sent.end + self.hops[index / 2].delay <= now) {
                return station.propagating.pop_front().map(|sent| (StationId(index), sent));
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;

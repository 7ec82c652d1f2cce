//! A channel shared by several half-duplex hops, as packet radios in a chain do: a station on the air keeps its
//! neighbours from sending.

use lasthop_proto::queue::View;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::carrier::SharedCarrier;
use super::feed::{Access, Feed};
use super::shared::Station;
use super::{Accepted, Direction, Frame, InFlight};
use crate::network::{LinkSpec, Medium};

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
    /// Creates the channel of `links`, without frames.
    pub fn new(links: &[&LinkSpec], root: Root) -> Self {
        let meet = |a: &LinkSpec, b: &LinkSpec| a.ends.iter().any(|end| b.ends.contains(end));
        let excludes =
            |a: &LinkSpec, b: &LinkSpec| meet(a, b) || links.iter().any(|between| meet(a, between) && meet(between, b));
        let hop = |link: &&LinkSpec| Hop {
            delay: link.delay,
            frame_overhead: match link.medium {
                Medium::Shared { frame_overhead, .. } => frame_overhead,
                _ => Duration::ZERO,
            },
            on_air: None,
            excludes: (0..links.len()).filter(|&other| excludes(link, links[other])).collect(),
        };
        Self {
            hops: links.iter().map(hop).collect(),
            stations: links
                .iter()
                .flat_map(|link| Direction::BOTH.map(|direction| Station::new(link, direction, root)))
                .collect(),
            claims: Vec::new(),
        }
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
}

impl SharedCarrier for SharedChannel {
    fn enqueue(&mut self, now: Instant, place: usize, frame: Frame, look: impl FnOnce() -> View) -> Accepted {
        let id = StationId(place);
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

    fn poll_deadline(&self) -> Option<Instant> {
        let arrival = |(index, station): (usize, &Station)| {
            station.propagating.front().map(|sent| sent.end + self.hops[index / 2].delay)
        };
        let arrivals = self.stations.iter().enumerate().filter_map(arrival);
        let ends = self.hops.iter().filter_map(|hop| hop.on_air.as_ref()).map(|(_, sent)| sent.end);
        arrivals.chain(ends).min()
    }

    fn advance(&mut self, now: Instant) -> Option<(usize, InFlight)> {
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
                return station.propagating.pop_front().map(|sent| (index, sent));
            }
        }
        None
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
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;

//! A channel that several half-duplex hops share, as packet radios in a chain do: who is on the air keeps its neighbours from sending.

use std::collections::VecDeque;

use lasthop_proto::queue::Sight;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::shared::Station;
use super::{Accepted, Direction, Frame, InFlight};
use crate::network::LinkSpec;
use crate::trace::DropReason;

/// A hop of the channel.
struct Hop {
    delay: Duration,
    frame_overhead: Duration,
    /// Which of its two stations sends, and what.
    on_air: Option<(Direction, InFlight)>,
    /// The hops of which none sends while this one does, itself among them.
    excludes: Vec<usize>,
}

/// A station at one end of a hop: what it has to send, and since when, in the order of claims.
struct Claimant {
    station: Station,
    claim: Option<u64>,
}

/// Who sends over a hop, in which direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationId(pub usize);

impl StationId {
    /// The station at the sending end of a hop's direction; hops count from 0 within their channel.
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

/// Hops that share a channel. Two exclude each other when they have an end in common, or when a hop of the channel joins an end of
/// one to an end of the other: of three adjacent hops in a chain at most one sends.
///
/// Stations send in the order of their claims. A station claims the channel when a frame comes to its empty queue, and anew, behind all
/// others, when it has sent one. An older claim that has to wait keeps the channel from younger ones that exclude it, so that each
/// station has its turn.
pub struct SharedChannel {
    hops: Vec<Hop>,
    stations: Vec<Claimant>,
    claims: u64,
}

impl SharedChannel {
    /// A channel without frames; `links` with the time that each frame takes besides its bytes.
    pub fn new(links: &[(&LinkSpec, Duration)]) -> Self {
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
        let claimant = |spec| Claimant { station: Station::new(spec), claim: None };
        Self {
            hops: links.iter().map(hop).collect(),
            stations: links.iter().flat_map(|(link, _)| &link.directions).map(claimant).collect(),
            claims: 0,
        }
    }

    /// Takes a packet to send, which shows what `look` sees.
    pub fn enqueue(&mut self, now: Instant, id: StationId, frame: Frame, look: impl FnOnce() -> Sight) -> Accepted {
        // Whether it begins at once: then it never waits, and needs no room.
        let waits = self.stations[id.0].claim.is_some() || self.is_kept_back(id.hop());
        let at_once = if waits { Switch::Off } else { Switch::On };
        if self.stations[id.0].station.queue.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        if self.stations[id.0].claim.is_none() {
            self.claim(id.0);
            self.start(now);
        }
        match self.next_event() {
            Some(at) if !waits => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    /// Frames that wait at a station.
    pub fn waiting(&self, id: StationId) -> usize {
        self.stations[id.0].station.queue.len()
    }

    /// A frame that a managed queue dropped, who was to send it, and why it was dropped.
    pub fn take_dropped(&mut self) -> Option<(StationId, Frame, DropReason)> {
        self.stations.iter_mut().enumerate().find_map(|(index, claimant)| {
            let (frame, why) = claimant.station.queue.take_dropped()?;
            Some((StationId(index), frame, why))
        })
    }

    fn claim(&mut self, index: usize) {
        self.stations[index].claim = Some(self.claims);
        self.claims += 1;
    }

    /// Whether a hop may not send now: one that it excludes is on the air, or waits for its turn.
    fn is_kept_back(&self, hop: usize) -> bool {
        let busy = |&other: &usize| {
            let claims = |direction| self.stations[StationId::new(other, direction).0].claim.is_some();
            self.hops[other].on_air.is_some() || claims(Direction::Down) || claims(Direction::Up)
        };
        self.hops[hop].excludes.iter().any(busy)
    }

    /// Lets those begin whose turn it is.
    fn start(&mut self, now: Instant) {
        let mut order: Vec<(u64, usize)> = Vec::new();
        order.extend(self.stations.iter().enumerate().filter_map(|(index, one)| Some((one.claim?, index))));
        order.sort_unstable();
        let mut kept_back = vec![false; self.hops.len()];
        for hop in self.hops.iter().filter(|hop| hop.on_air.is_some()) {
            hop.excludes.iter().for_each(|&other| kept_back[other] = true);
        }
        for (_, index) in order {
            let id = StationId(index);
            if !kept_back[id.hop()] {
                self.stations[index].claim = None;
                let Some(frame) = self.stations[index].station.queue.pop(now) else { continue };
                let hop = &mut self.hops[id.hop()];
                let end = now + self.stations[index].station.time.of(frame.bytes()) + hop.frame_overhead;
                hop.on_air = Some((id.direction(), InFlight { start: now, end, frame }));
                if !self.stations[index].station.queue.is_empty() {
                    self.claim(index);
                }
            }
            self.hops[id.hop()].excludes.iter().for_each(|&other| kept_back[other] = true);
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = |(index, claimant): (usize, &Claimant)| {
            claimant.station.propagating.front().map(|sent| sent.end + self.hops[index / 2].delay)
        };
        let arrivals = self.stations.iter().enumerate().filter_map(arrival);
        let ends = self.hops.iter().filter_map(|hop| hop.on_air.as_ref()).map(|(_, sent)| sent.end);
        arrivals.chain(ends).min()
    }

    /// Acts on what is due at `now`; `None` when nothing arrived by it.
    pub fn advance(&mut self, now: Instant) -> Option<(StationId, InFlight)> {
        let mut ended = false;
        for index in 0..self.hops.len() {
            if let Some((direction, sent)) = self.hops[index].on_air.take_if(|(_, sent)| sent.end <= now) {
                self.stations[StationId::new(index, direction).0].station.propagating.push_back(sent);
                ended = true;
            }
        }
        if ended {
            self.start(now);
        }
        for (index, claimant) in self.stations.iter_mut().enumerate() {
            let propagating: &mut VecDeque<InFlight> = &mut claimant.station.propagating;
            if propagating.front().is_some_and(|sent| sent.end + self.hops[index / 2].delay <= now) {
                return propagating.pop_front().map(|sent| (StationId(index), sent));
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;

//! Carriers of media that schedule frames by themselves: Wi-Fi, and cells of LTE and NR.

use std::collections::VecDeque;

use lasthop_proto::link::access::{AccessMedium, Crossed, Fate, LineId};
use lasthop_proto::link::cell::{self, Cell, CellLine, CellSpec, CellUser};
use lasthop_proto::link::wifi::{LineSpec, Wifi, WifiSpec};
use lasthop_proto::queue::View;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::carrier::SharedCarrier;
use super::feed::{Feed, Seeds};
use super::{Accepted, Direction, Frame, Held, InFlight};
use crate::network::{LinkSpec, Medium, NodeId};

/// A medium with the queues of its lines. Each link has two lines, down and up.
pub struct AccessCarrier {
    medium: Box<dyn AccessMedium<Frame>>,
    queues: Vec<Feed>,
    /// Propagation delay of each line.
    delays: Vec<Duration>,
    /// Frames that have been received and propagate, with their lines.
    propagating: Held<(usize, InFlight)>,
    /// Frames that the medium gave up, not yet taken.
    given_up: VecDeque<(usize, Frame)>,
}

impl AccessCarrier {
    /// Creates the carrier of `links` over their medium, without frames.
    pub fn new(medium: Box<dyn AccessMedium<Frame>>, links: &[&LinkSpec], root: Root) -> Self {
        let lines = || links.iter().flat_map(|link| Direction::BOTH.map(|direction| (link, direction)));
        let queue = |(link, direction): (&&LinkSpec, Direction)| {
            Feed::new(&link.directions[direction.index()], direction, Seeds::new(link, root))
        };
        Self {
            medium,
            queues: lines().map(queue).collect(),
            delays: lines().map(|(link, _)| link.delay).collect(),
            propagating: Held::default(),
            given_up: VecDeque::new(),
        }
    }
}

/// Creates the Wi-Fi channel of `links`. Each node with such a link is a station.
pub(super) fn wifi(channel: WifiSpec, links: &[&LinkSpec], root: Root) -> Box<dyn AccessMedium<Frame>> {
    let mut nodes: Vec<NodeId> = links.iter().flat_map(|link| link.ends).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let station = |node: NodeId| nodes.binary_search(&node).unwrap_or_default();
    let lines = links.iter().flat_map(|link| {
        let transmitters = match &link.medium {
            Medium::Wifi { wifi, .. } => wifi.transmitters.to_vec(),
            _ => Vec::new(),
        };
        let [down, up] = link.ends.map(station);
        [(down, up), (up, down)].into_iter().zip(transmitters)
    });
    let lines: Vec<_> =
        lines.map(|((sender, receiver), transmitter)| LineSpec { sender, receiver, transmitter }).collect();
    Box::new(Wifi::new(channel, &lines, &format!("links/{}/wifi", links[0].name), root))
}

/// Creates the cell of `links`. The second end of each is a user with the name of the link.
pub(super) fn cell(spec: CellSpec, links: &[&LinkSpec], root: Root) -> Box<dyn AccessMedium<Frame>> {
    let user = |link: &&LinkSpec| match &link.medium {
        Medium::Cell { cell, .. } => {
            Some(CellUser { name: link.name.clone(), down: cell.down, up: cell.up, handover: cell.handover })
        }
        _ => None,
    };
    let users: Vec<_> = links.iter().filter_map(user).collect();
    let both = |user| [cell::Direction::Down, cell::Direction::Up].map(|direction| CellLine { user, direction });
    let lines: Vec<_> = (0..users.len()).flat_map(both).collect();
    let stream = |part: &str| root.stream(&format!("links/{}/cell/{part}", links[0].name));
    Box::new(Cell::new(spec, &users, &lines, stream).expect("the parameters of a scenario's cells are valid"))
}

impl SharedCarrier for AccessCarrier {
    fn enqueue(&mut self, now: Instant, place: usize, frame: Frame, look: impl FnOnce() -> View) -> Accepted {
        if self.queues[place].push(now, frame, look, Switch::Off) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        self.medium.handle_frame(now, LineId(place));
        self.poll_deadline().map_or(Accepted::Queued, Accepted::Next)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        [self.medium.poll_deadline(), self.propagating.next()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant) -> Option<(usize, InFlight)> {
        let Self { medium, queues, delays, propagating, given_up } = self;
        if medium.poll_deadline().is_some_and(|at| at <= now) {
            medium.handle_timeout(now, &mut |now: Instant, line: LineId| {
                let frame = queues[line.0].take(now)?;
                Some((frame, frame.bytes()))
            });
            while let Some(Crossed { line: LineId(place), item: frame, start, end, fate }) = medium.poll_crossed() {
                match fate {
                    Fate::Received => propagating.hold(end + delays[place], (place, InFlight { start, end, frame })),
                    Fate::GivenUp => given_up.push_back((place, frame)),
                }
            }
        }
        propagating.release(now)
    }

    fn places(&self) -> usize {
        self.queues.len()
    }

    fn feed(&self, place: usize) -> &Feed {
        &self.queues[place]
    }

    fn feed_mut(&mut self, place: usize) -> &mut Feed {
        &mut self.queues[place]
    }

    fn drops_later(&self) -> bool {
        true
    }

    fn take_given_up(&mut self) -> Option<(usize, Frame)> {
        self.given_up.pop_front()
    }

    fn waiting(&self, place: usize) -> usize {
        self.queues[place].len() + self.medium.held(LineId(place))
    }

    fn busy(&self, now: Instant, place: usize) -> Duration {
        self.medium.busy(now, LineId(place))
    }
}

//! Carriers of an emulated link's frames: the simulator's state machines.

use lasthop_proto::queue::Sight;
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::link::{Accepted, Cut, Direction, DuplexDirection, Frame, InFlight, ManagedDirection, SharedMedium};
use lasthop_sim::network::{LinkSpec, Medium};
use lasthop_sim::trace::DropReason;

/// Both directions of a link.
pub(super) enum Carrier {
    Duplex(Box<[OneWay; 2]>),
    Shared(Box<SharedMedium>),
}

/// One direction of a duplex link.
pub(super) enum OneWay {
    Plain(DuplexDirection),
    Managed(ManagedDirection),
}

impl OneWay {
    fn new(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        let managed = || Self::Managed(ManagedDirection::new(link, direction, root));
        let plain = DuplexDirection::new(&link.directions[direction.index()], link.delay);
        plain.map_or_else(managed, Self::Plain)
    }

    fn enqueue(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight) -> Accepted {
        match self {
            Self::Plain(wire) => wire.enqueue(now, frame),
            Self::Managed(wire) => wire.enqueue(now, frame, look),
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        match self {
            Self::Plain(wire) => wire.first().map(|(_, at)| at),
            Self::Managed(wire) => wire.poll_deadline(),
        }
    }

    fn advance(&mut self, at: Instant) -> Option<InFlight> {
        match self {
            Self::Plain(wire) => wire.arrive(at).0,
            Self::Managed(wire) => wire.advance(at),
        }
    }

    fn cut(&mut self, now: Instant) -> Cut {
        match self {
            Self::Plain(wire) => wire.cut(now),
            Self::Managed(wire) => wire.cut(now),
        }
    }

    fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        match self {
            Self::Plain(_) => None,
            Self::Managed(wire) => wire.take_dropped(),
        }
    }
}

impl Carrier {
    /// Creates a link without frames.
    pub(super) fn new(spec: &LinkSpec, root: Root) -> Self {
        let shared = |frame_overhead, turnaround| {
            Carrier::Shared(Box::new(SharedMedium::new(spec, frame_overhead, turnaround, root)))
        };
        match spec.medium {
            Medium::Duplex => {
                let one_way = |direction| OneWay::new(spec, direction, root);
                Carrier::Duplex(Box::new([Direction::Down, Direction::Up].map(one_way)))
            }
            Medium::HalfDuplex { frame_overhead, turnaround } => shared(frame_overhead, turnaround),
            // Plans with channels shared by several links are rejected.
            Medium::Shared { frame_overhead, .. } => shared(frame_overhead, Duration::ZERO),
        }
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        direction: Direction,
        frame: Frame,
        look: impl FnOnce() -> Sight,
    ) -> Accepted {
        match self {
            Self::Duplex(directions) => directions[direction.index()].enqueue(now, frame, look),
            Self::Shared(medium) => medium.enqueue(now, direction, frame, look),
        }
    }

    /// Removes all frames of a direction.
    pub(super) fn cut(&mut self, now: Instant, direction: Direction) -> Cut {
        match self {
            Self::Duplex(directions) => directions[direction.index()].cut(now),
            Self::Shared(medium) => medium.cut(now, direction),
        }
    }

    /// Returns the number of frames queued in a direction at `now`.
    pub(super) fn waiting(&self, now: Instant, direction: Direction) -> usize {
        match self {
            Self::Duplex(directions) => match &directions[direction.index()] {
                OneWay::Plain(wire) => wire.waiting(now),
                OneWay::Managed(wire) => wire.waiting(),
            },
            Self::Shared(medium) => medium.waiting(direction),
        }
    }

    /// Returns a frame that a managed queue dropped, its direction, and the reason.
    pub(super) fn take_dropped(&mut self) -> Option<(Direction, Frame, DropReason)> {
        match self {
            Self::Duplex(directions) => [Direction::Down, Direction::Up].into_iter().find_map(|direction| {
                let (frame, why) = directions[direction.index()].take_dropped()?;
                Some((direction, frame, why))
            }),
            Self::Shared(medium) => medium.take_dropped(),
        }
    }

    pub(super) fn poll_deadline(&self) -> Option<Instant> {
        match self {
            Self::Duplex(directions) => directions.iter().filter_map(OneWay::poll_deadline).min(),
            Self::Shared(medium) => medium.poll_deadline(),
        }
    }

    /// Processes the event due at `at`, the time that [`Carrier::poll_deadline`] returned.
    pub(super) fn advance(&mut self, at: Instant) -> Option<(Direction, InFlight)> {
        match self {
            Self::Duplex(directions) => {
                let due =
                    |direction: &Direction| directions[direction.index()].poll_deadline().is_some_and(|due| due <= at);
                let direction = [Direction::Down, Direction::Up].into_iter().find(due)?;
                Some((direction, directions[direction.index()].advance(at)?))
            }
            Self::Shared(medium) => medium.advance(at),
        }
    }
}

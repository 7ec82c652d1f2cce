//! Carriers of frames: a wire for each direction, or a medium that several directions share. The simulator and the lab
//! use the same ones.

use lasthop_proto::queue::View;
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};

use super::access::{self, AccessCarrier};
use super::feed::Feed;
use super::{
    Accepted, Cut, Direction, DuplexDirection, Frame, InFlight, ManagedDirection, SharedChannel, SharedMedium,
};
use crate::datagrams::CrossedDirection;
use crate::leg::LegId;
use crate::network::{LinkId, LinkSpec, Medium, Network, WifiLink};
use crate::trace::DropReason;

/// A medium that several directions share. Each has a *place*, numbered from 0.
pub(super) trait SharedCarrier {
    /// Queues a frame. `look` returns the properties of its packet.
    fn enqueue(&mut self, now: Instant, place: usize, frame: Frame, look: impl FnOnce() -> View) -> Accepted;

    /// Returns the time of the next event.
    fn poll_deadline(&self) -> Option<Instant>;

    /// Processes the events due at `now`. Returns a frame that arrives, and the place that sent it; `None` if there is
    /// none.
    fn advance(&mut self, now: Instant) -> Option<(usize, InFlight)>;

    /// Returns the number of places.
    fn places(&self) -> usize;

    /// Returns the frames of a place before their transmission.
    fn feed(&self, place: usize) -> &Feed;

    /// Returns the frames of a place before their transmission, to change them.
    fn feed_mut(&mut self, place: usize) -> &mut Feed;

    /// Returns a frame that the medium gave up, and its place.
    fn take_given_up(&mut self) -> Option<(usize, Frame)> {
        None
    }

    /// Returns a frame that a managed queue dropped or that the medium gave up, its place, and the reason.
    fn take_dropped(&mut self) -> Option<(usize, Frame, DropReason)> {
        if let Some((place, frame)) = self.take_given_up() {
            return Some((place, frame, DropReason::Channel));
        }
        (0..self.places()).find_map(|place| {
            let (frame, why) = self.feed_mut(place).take_dropped()?;
            Some((place, frame, why))
        })
    }

    /// Returns whether [`Self::take_dropped`] may return frames.
    fn drops_later(&self) -> bool {
        (0..self.places()).any(|place| self.feed(place).drops_later())
    }

    /// Returns the number of frames queued at a place.
    fn waiting(&self, place: usize) -> usize {
        self.feed(place).len()
    }

    /// Returns the time for which a place has used the medium until `now`.
    fn busy(&self, now: Instant, place: usize) -> Duration {
        self.feed(place).busy(now)
    }

    /// Removes all frames of a place, except those that a managed queue drops. The default removes none, since scenarios
    /// with a moving host have only half-duplex and duplex links.
    fn cut(&mut self, _: Instant, _: usize) -> Cut {
        Cut::default()
    }
}

/// A shared medium of any kind. Without dynamic calls: half-duplex links have several for each frame.
enum AnyShared {
    HalfDuplex(Box<SharedMedium>),
    Channel(Box<SharedChannel>),
    Access(Box<AccessCarrier>),
}

/// Evaluates an expression for the medium in an [`AnyShared`].
macro_rules! with {
    ($shared:expr, $carrier:ident => $result:expr) => {
        match $shared {
            AnyShared::HalfDuplex($carrier) => $result,
            AnyShared::Channel($carrier) => $result,
            AnyShared::Access($carrier) => $result,
        }
    };
}

/// A shared medium, and the leg of each of its places. Its events are filed under the first leg.
struct Shared {
    carrier: AnyShared,
    legs: Vec<LegId>,
    /// Places that keep the frames that begin transmission.
    tracked: Vec<usize>,
}

/// All shared media of a network.
#[derive(Default)]
pub struct Media(Vec<Shared>);

impl Media {
    /// Returns the leg under which the events of a medium are filed.
    fn source(&self, medium: usize) -> LegId {
        self.0[medium].legs[0]
    }
}

/// Frames that a carrier may keep until they are taken. Most keep none, and are not asked after each event.
#[derive(Clone, Copy, Default, Debug)]
pub struct Keeps {
    /// Indicates that it may keep frames dropped after they were queued.
    pub dropped: bool,
    /// Indicates that it may keep frames that began transmission, of any leg of the carrier.
    pub begun: bool,
    /// Indicates that it may keep frames of this leg that began transmission.
    pub own_begun: bool,
}

/// Carrier of the frames of a leg.
pub enum Carrier {
    /// A wire with a drop-tail queue and a constant rate.
    Own(DuplexDirection),
    /// A wire that chooses each frame at the time of its transmission.
    Managed(Box<ManagedDirection>),
    /// A wire that is shared with datagrams without events, which must have caught up before each call.
    Crossed(Box<CrossedDirection>),
    /// A place on a shared medium.
    Shared {
        /// Index of the medium.
        medium: usize,
        /// Place on it.
        place: usize,
    },
    /// None, while the moving host is elsewhere. Contains the carrier for its return.
    Cut(Box<Carrier>),
}

/// Result of an event on a carrier.
pub struct Advanced {
    /// Frame that arrives, if any, and the leg that carried it.
    pub arrival: Option<(LegId, InFlight)>,
    /// Time of the carrier's next event.
    pub next: Option<Instant>,
}

impl Carrier {
    /// Creates the carriers of a network: those of each leg, and the shared media.
    pub fn all(network: &Network, root: Root) -> (Vec<Self>, Media) {
        // Links of each medium. Two links share one if they are on the same channel.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut carriers = Vec::with_capacity(2 * network.links.len());
        for (index, link) in network.links.iter().enumerate() {
            if link.medium == Medium::Duplex {
                carriers.extend(Direction::BOTH.map(|direction| Self::wire(link, direction, root)));
                continue;
            }
            let joins = |group: &Vec<usize>| network.links[group[0]].medium.is_one_with(&link.medium);
            let medium = groups.iter().position(joins).unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            let hop = groups[medium].len();
            groups[medium].push(index);
            carriers
                .extend(Direction::BOTH.map(|direction| Self::Shared { medium, place: 2 * hop + direction.index() }));
        }
        let legs = |link: usize| Direction::BOTH.map(|direction| LegId::new(LinkId(link), direction));
        let shared = |group: Vec<usize>| Shared {
            carrier: Self::shared(&group.iter().map(|link| &network.links[*link]).collect::<Vec<_>>(), root),
            legs: group.into_iter().flat_map(legs).collect(),
            tracked: Vec::new(),
        };
        (carriers, Media(groups.into_iter().map(shared).collect()))
    }

    fn wire(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        let managed = || Self::Managed(Box::new(ManagedDirection::new(link, direction, root)));
        DuplexDirection::new(&link.directions[direction.index()], link.delay).map_or_else(managed, Self::Own)
    }

    /// Creates the medium of `links`, which have the same kind of medium.
    fn shared(links: &[&LinkSpec], root: Root) -> AnyShared {
        let access = |medium| AnyShared::Access(Box::new(AccessCarrier::new(medium, links, root)));
        match &links[0].medium {
            &Medium::HalfDuplex { frame_overhead, turnaround } => {
                AnyShared::HalfDuplex(Box::new(SharedMedium::new(links[0], frame_overhead, turnaround, root)))
            }
            Medium::Wifi { wifi: WifiLink { channel, .. }, .. } => access(access::wifi(*channel, links, root)),
            Medium::Cell { cell, .. } => access(access::cell(cell.spec, links, root)),
            Medium::Duplex | Medium::Shared { .. } => AnyShared::Channel(Box::new(SharedChannel::new(links, root))),
        }
    }

    /// Queues a frame on `leg`. `look` returns the properties of its packet. Returns the result as well as the leg under
    /// which the carrier's events are filed.
    #[inline]
    pub fn enqueue(
        &mut self,
        media: &mut Media,
        now: Instant,
        leg: LegId,
        frame: Frame,
        look: impl FnOnce() -> View,
    ) -> (Accepted, LegId) {
        match self {
            Self::Own(wire) => (wire.enqueue(now, frame), leg),
            Self::Managed(wire) => (wire.enqueue(now, frame, look), leg),
            Self::Crossed(wire) => (wire.enqueue(now, frame), leg),
            Self::Shared { medium, place } => {
                let accepted =
                    with!(&mut media.0[*medium].carrier, carrier => carrier.enqueue(now, *place, frame, look));
                (accepted, media.source(*medium))
            }
            Self::Cut(_) => (Accepted::Dropped, leg),
        }
    }

    /// Processes the events due at `now` of the carrier whose events are filed under `leg`.
    #[inline]
    pub fn advance(&mut self, media: &mut Media, now: Instant, leg: LegId) -> Advanced {
        match self {
            Self::Own(wire) => {
                let (sent, next) = wire.arrive(now);
                Advanced { arrival: sent.map(|sent| (leg, sent)), next }
            }
            Self::Crossed(wire) => {
                let (sent, next) = wire.arrive(now);
                Advanced { arrival: sent.map(|sent| (leg, sent)), next }
            }
            Self::Managed(wire) => {
                let sent = wire.advance(now);
                Advanced { arrival: sent.map(|sent| (leg, sent)), next: wire.poll_deadline() }
            }
            Self::Shared { medium, .. } => {
                let Shared { carrier, legs, .. } = &mut media.0[*medium];
                let (arrival, next) = with!(carrier, carrier => (carrier.advance(now), carrier.poll_deadline()));
                Advanced { arrival: arrival.map(|(place, sent)| (legs[place], sent)), next }
            }
            Self::Cut(_) => Advanced { arrival: None, next: None },
        }
    }

    /// Returns the time of the next event that is filed under `leg`. A wire with datagrams without events has none here.
    pub fn poll_deadline(&self, media: &Media, leg: LegId) -> Option<Instant> {
        match self {
            Self::Own(wire) => wire.first().map(|(_, at)| at),
            Self::Managed(wire) => wire.poll_deadline(),
            Self::Shared { medium, .. } if media.source(*medium) == leg => {
                with!(&media.0[*medium].carrier, carrier => carrier.poll_deadline())
            }
            Self::Shared { .. } | Self::Crossed(_) | Self::Cut(_) => None,
        }
    }

    /// Returns the leg under which the events of the carrier of `leg` are filed.
    pub fn source(&self, media: &Media, leg: LegId) -> LegId {
        if let Self::Shared { medium, .. } = self { media.source(*medium) } else { leg }
    }

    /// Returns a frame that the carrier of `leg` dropped, its leg, and the reason.
    #[inline]
    pub fn take_dropped(&mut self, media: &mut Media, leg: LegId) -> Option<(LegId, Frame, DropReason)> {
        match self {
            Self::Managed(wire) => wire.take_dropped().map(|(frame, why)| (leg, frame, why)),
            Self::Shared { medium, .. } => {
                let Shared { carrier, legs, .. } = &mut media.0[*medium];
                let dropped = with!(carrier, carrier => carrier.take_dropped());
                dropped.map(|(place, frame, why)| (legs[place], frame, why))
            }
            Self::Own(_) | Self::Crossed(_) | Self::Cut(_) => None,
        }
    }

    /// Starts to keep the frames with payload that begin transmission for [`Self::take_begun`], if that is not known in
    /// advance.
    pub fn keep_begun(&mut self, media: &mut Media) {
        match self {
            Self::Managed(wire) => wire.keep_begun(),
            Self::Shared { medium, place } => {
                let Shared { carrier, tracked, .. } = &mut media.0[*medium];
                with!(carrier, carrier => carrier.feed_mut(*place).keep_begun());
                if !tracked.contains(place) {
                    tracked.push(*place);
                }
            }
            Self::Cut(open) => open.keep_begun(media),
            Self::Own(_) | Self::Crossed(_) => {}
        }
    }

    /// Returns the frames that the carrier may keep for [`Self::take_dropped`] and [`Self::take_begun`].
    pub fn keeps(&self, media: &Media) -> Keeps {
        match self {
            Self::Managed(wire) => {
                let begun = wire.keeps_begun();
                Keeps { dropped: wire.drops_later(), begun, own_begun: begun }
            }
            Self::Shared { medium, place } => {
                let Shared { carrier, tracked, .. } = &media.0[*medium];
                Keeps {
                    dropped: with!(carrier, carrier => carrier.drops_later()),
                    begun: !tracked.is_empty(),
                    own_begun: tracked.contains(place),
                }
            }
            Self::Cut(open) => open.keeps(media),
            Self::Own(_) | Self::Crossed(_) => Keeps::default(),
        }
    }

    /// Returns a frame with payload that began transmission on the carrier of `leg`, and its leg.
    #[inline]
    pub fn take_begun(&mut self, media: &mut Media, leg: LegId) -> Option<(LegId, Frame)> {
        match self {
            Self::Managed(wire) => wire.take_begun().map(|frame| (leg, frame)),
            Self::Shared { medium, .. } => {
                let Shared { carrier, legs, tracked } = &mut media.0[*medium];
                let begun = |place: &usize| {
                    let frame = with!(carrier, carrier => carrier.feed_mut(*place).take_begun());
                    frame.map(|frame| (legs[*place], frame))
                };
                tracked.iter().find_map(begun)
            }
            Self::Own(_) | Self::Crossed(_) | Self::Cut(_) => None,
        }
    }

    /// Returns the number of frames queued.
    pub fn waiting(&self, media: &Media, now: Instant) -> usize {
        match self {
            Self::Own(wire) => wire.waiting(now),
            Self::Managed(wire) => wire.waiting(),
            Self::Crossed(wire) => wire.waiting(now),
            Self::Shared { medium, place } => with!(&media.0[*medium].carrier, carrier => carrier.waiting(*place)),
            Self::Cut(_) => 0,
        }
    }

    /// Returns the number of frames queued and on the way.
    pub fn held(&self, media: &Media) -> usize {
        match self {
            Self::Own(wire) => wire.held(),
            Self::Managed(wire) => wire.held(),
            Self::Crossed(wire) => wire.held(),
            Self::Shared { medium, place } => with!(&media.0[*medium].carrier, carrier => carrier.waiting(*place)),
            Self::Cut(carrier) => carrier.held(media),
        }
    }

    /// Returns the time for which the leg has transmitted until `now`.
    pub fn busy(&self, media: &Media, now: Instant) -> Duration {
        match self {
            Self::Own(wire) => wire.busy(now),
            Self::Managed(wire) => wire.busy(now),
            Self::Crossed(wire) => wire.busy(now),
            Self::Shared { medium, place } => with!(&media.0[*medium].carrier, carrier => carrier.busy(now, *place)),
            Self::Cut(carrier) => carrier.busy(media, now),
        }
    }

    /// Removes all frames of the leg.
    pub fn cut(&mut self, media: &mut Media, now: Instant) -> Cut {
        match self {
            Self::Own(wire) => wire.cut(now),
            Self::Managed(wire) => wire.cut(now),
            Self::Shared { medium, place } => with!(&mut media.0[*medium].carrier, carrier => carrier.cut(now, *place)),
            Self::Crossed(_) | Self::Cut(_) => Cut::default(),
        }
    }
}

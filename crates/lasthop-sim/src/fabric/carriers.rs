//! Carriers of each link's frames: a wire per direction, a medium that both directions share, or a channel shared with
//! other links.

use lasthop_proto::random::Root;
use lasthop_proto::time::Duration;

use super::{Carrier, ChannelLegs, LegId};
use crate::link::{Direction, DuplexDirection, ManagedDirection, SharedChannel, SharedMedium, StationId};
use crate::network::{LinkId, LinkSpec, Medium, Network};

/// Directions of a link, in the order of its legs.
const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// All carriers of a network.
pub(super) struct Carriers {
    /// Carriers of each link, down and up.
    pub of_links: Vec<[Carrier; 2]>,
    pub media: Vec<SharedMedium>,
    pub channels: Vec<ChannelLegs>,
}

/// A channel with its number in the network and its hops: index of the link, and the overhead of each frame.
struct Members {
    number: u32,
    hops: Vec<(usize, Duration)>,
}

impl Carriers {
    pub fn new(network: &Network, root: Root) -> Self {
        let mut media = Vec::new();
        let mut channels: Vec<Members> = Vec::new();
        let carriers = |(index, link): (usize, &LinkSpec)| match link.medium {
            Medium::Duplex => DIRECTIONS.map(|direction| wire(link, direction, root)),
            Medium::HalfDuplex { frame_overhead, turnaround } => {
                media.push(SharedMedium::new(link, frame_overhead, turnaround, root));
                DIRECTIONS.map(|direction| Carrier::Shared(media.len() - 1, direction))
            }
            Medium::Shared { frame_overhead, channel: number } => {
                let at = channels.iter().position(|channel| channel.number == number).unwrap_or_else(|| {
                    channels.push(Members { number, hops: Vec::new() });
                    channels.len() - 1
                });
                let hops = &mut channels[at].hops;
                hops.push((index, frame_overhead));
                DIRECTIONS.map(|direction| Carrier::Channel(at, StationId::new(hops.len() - 1, direction)))
            }
        };
        let of_links = network.links.iter().enumerate().map(carriers).collect();
        Self { of_links, media, channels: channels.into_iter().map(|members| members.join(network, root)).collect() }
    }
}

impl Members {
    fn join(self, network: &Network, root: Root) -> ChannelLegs {
        let links: Vec<_> = self.hops.iter().map(|&(link, overhead)| (&network.links[link], overhead)).collect();
        let legs =
            self.hops.iter().flat_map(|&(link, _)| DIRECTIONS.map(|direction| LegId::new(LinkId(link), direction)));
        ChannelLegs { channel: SharedChannel::new(&links, root), legs: legs.collect() }
    }
}

fn wire(link: &LinkSpec, direction: Direction, root: Root) -> Carrier {
    let managed = || Carrier::Managed(Box::new(ManagedDirection::new(link, direction, root)));
    DuplexDirection::new(&link.directions[direction.index()], link.delay).map_or_else(managed, Carrier::Own)
}

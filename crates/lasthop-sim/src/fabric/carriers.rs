//! What carries the frames of each link: wires of its own, a medium that both its directions share, or a channel that it shares with other
//! links.

use lasthop_proto::time::Duration;

use super::{Carrier, ChannelLegs, LegId};
use crate::link::{Direction, DuplexDirection, ManagedDirection, SharedChannel, SharedMedium, StationId};
use crate::network::{DirectionSpec, LinkId, LinkSpec, Medium, Network};

/// The directions of a link, as legs are numbered.
const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// All carriers of a network.
pub(super) struct Carriers {
    /// Of each link, down and up.
    pub of_links: Vec<[Carrier; 2]>,
    pub media: Vec<SharedMedium>,
    pub channels: Vec<ChannelLegs>,
}

/// A channel, by its number in the network, and its hops: the index of the link, and what each frame takes besides its bytes.
struct Members {
    number: u32,
    hops: Vec<(usize, Duration)>,
}

impl Carriers {
    pub fn new(network: &Network) -> Self {
        let mut media = Vec::new();
        let mut channels: Vec<Members> = Vec::new();
        let carriers = |(index, link): (usize, &LinkSpec)| match link.medium {
            Medium::Duplex => link.directions.each_ref().map(|spec| wire(spec, link.delay)),
            Medium::HalfDuplex { frame_overhead, turnaround } => {
                media.push(SharedMedium::turning(&link.directions, link.delay, frame_overhead, turnaround));
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
        Self { of_links, media, channels: channels.into_iter().map(|members| members.join(network)).collect() }
    }
}

impl Members {
    fn join(self, network: &Network) -> ChannelLegs {
        let links: Vec<_> = self.hops.iter().map(|&(link, overhead)| (&network.links[link], overhead)).collect();
        let legs =
            self.hops.iter().flat_map(|&(link, _)| DIRECTIONS.map(|direction| LegId::new(LinkId(link), direction)));
        ChannelLegs { channel: SharedChannel::new(&links), legs: legs.collect() }
    }
}

fn wire(spec: &DirectionSpec, delay: Duration) -> Carrier {
    let managed = || ManagedDirection::new(spec, delay).map(|wire| Carrier::Managed(Box::new(wire)));
    let own = DuplexDirection::new(spec, delay).map(Carrier::Own);
    own.or_else(managed).expect("a queue is managed or not")
}

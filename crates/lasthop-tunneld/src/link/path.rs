//! One path to a peer: addresses, packet numbers on the wire, and its MTU.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use lasthop_daemon::ab::Arm;
use lasthop_proto::link::hybrid::{Fate, PacketNumber, Terms, Tier};
use lasthop_proto::time::{Duration, Instant};

use super::Tally;

/// Time for which a new path is assumed to have the interface's MTU, until the search knows its MTU: six probes, one
/// per second.
const OPTIMISM: Duration = Duration::from_secs(7);
/// Maximum number of transmissions whose sizes are remembered.
const MOST_SIZES: usize = 1 << 15;

/// A path.
#[derive(Clone, Debug)]
pub struct LinkPath {
    /// Address of the peer.
    pub address: Option<SocketAddr>,
    /// Address of this end that the peer sends to.
    pub local: Option<IpAddr>,
    /// Wire number of the hop's packet 0.
    pub offset: u64,
    /// Datagram sizes by the hop's packet number, starting at `first_size`.
    sizes: VecDeque<(u16, Arm)>,
    first_size: u64,
    /// Maximum UDP payload that the path is known to carry, in bytes; and the end of the time in which a larger size is
    /// assumed.
    size: u16,
    optimistic_until: Option<Instant>,
    /// MTU of the interface by which this end sends, in bytes.
    link_mtu: u16,
    /// Datagrams with frames of the link to the peer.
    pub frames: Tally,
    /// Repair among these datagrams.
    pub repair: Tally,
    /// All datagrams in both directions, with their IP or Ethernet headers.
    pub volume: Tally,
    /// Terms that the other end announced.
    pub peer_terms: Terms,
    /// Earliest tier that the data volume permits.
    pub limit: Tier,
}

impl LinkPath {
    /// Creates a path without addresses, by an interface with this MTU.
    pub fn new(link_mtu: u16) -> Self {
        Self {
            link_mtu,
            address: None,
            local: None,
            offset: 0,
            sizes: VecDeque::new(),
            first_size: 0,
            size: lasthop_tunnel::pmtu::BASE,
            optimistic_until: None,
            frames: Tally::default(),
            repair: Tally::default(),
            volume: Tally::default(),
            peer_terms: Terms::default(),
            limit: Tier::default(),
        }
    }

    /// Sets the MTU of the interface.
    pub fn set_link_mtu(&mut self, link_mtu: u16) {
        self.link_mtu = link_mtu;
    }

    /// Starts to number packets at `offset` on the wire, because the hop has restarted.
    pub fn begin_anew(&mut self, offset: u64) {
        self.offset = offset;
        self.sizes.clear();
        self.first_size = 0;
    }

    /// Handles a new address of the peer, to which `size` bytes pass.
    pub fn move_to(&mut self, now: Instant, (address, local): (SocketAddr, Option<IpAddr>), size: u16) {
        (self.address, self.size) = (Some(address), size);
        self.local = local.or(self.local);
        self.optimistic_until = Some(now + OPTIMISM);
    }

    /// Handles a new MTU.
    pub fn on_size(&mut self, size: u16) {
        // Above the base, the search is past the first, largest size; a decrease shows a narrower path.
        if size > lasthop_tunnel::pmtu::BASE || size < self.size {
            self.optimistic_until = None;
        }
        self.size = size;
    }

    /// Returns the size of datagrams that is assumed to pass after `headers` bytes, in bytes: initially what the interface
    /// allows.
    pub fn size(&self, now: Instant, headers: u16) -> u16 {
        let is_optimistic = self.optimistic_until.is_some_and(|until| now < until);
        if is_optimistic { self.link_mtu.saturating_sub(headers) } else { self.size }
    }

    /// Records a transmission of `payload` bytes of UDP payload. Returns its wire number.
    pub fn on_frame(&mut self, PacketNumber(number): PacketNumber, payload: usize, is_repair: bool, arm: Arm) -> u64 {
        self.frames.count(payload);
        if is_repair {
            self.repair.count(payload);
        }
        if self.sizes.is_empty() {
            self.first_size = number;
        }
        self.sizes.push_back((payload as u16, arm));
        if self.sizes.len() > MOST_SIZES {
            self.sizes.pop_front();
            self.first_size += 1;
        }
        self.offset + number
    }

    /// Returns size and arm of a transmission, if it is remembered.
    pub fn sent(&self, fate: Fate) -> Option<(u16, Arm)> {
        let (Fate::Arrived(PacketNumber(number)) | Fate::Lost(PacketNumber(number))) = fate;
        let index = number.checked_sub(self.first_size)?;
        self.sizes.get(index as usize).copied()
    }
}

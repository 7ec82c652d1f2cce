//! Assignment of inner addresses to peers, for routing of packets and validation of their sources.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::tunnel::api::PeerId;

/// Prefixes and their peers; the longest matching prefix applies.
#[derive(Default)]
pub(crate) struct Allowed {
    prefixes: BTreeMap<IpNet, PeerId>,
    /// The same for searches, by length, longest first: of IPv4, of IPv6.
    lengths: [Vec<Length>; 2],
}

/// Prefixes of the same length.
struct Length {
    mask: u128,
    /// Networks as numbers, in increasing order, and their peers.
    networks: Vec<(u128, PeerId)>,
}

impl Allowed {
    /// Assigns the prefix to the peer. Returns its previous peer.
    pub(crate) fn insert(&mut self, prefix: IpNet, peer: PeerId) -> Option<PeerId> {
        let before = self.prefixes.insert(prefix.trunc(), peer);
        self.note_lengths();
        before
    }

    pub(crate) fn remove(&mut self, peer: PeerId) {
        self.prefixes.retain(|_, owner| *owner != peer);
        self.note_lengths();
    }

    fn note_lengths(&mut self) {
        let mut lengths: [BTreeMap<u8, Length>; 2] = Default::default();
        // Their order is that of addresses, and so that of the networks of each length.
        for (prefix, peer) in &self.prefixes {
            let lengths = &mut lengths[usize::from(matches!(prefix, IpNet::V6(_)))];
            let length = lengths.entry(prefix.prefix_len());
            let length = length.or_insert_with(|| Length { mask: number(prefix.netmask()), networks: Vec::new() });
            length.networks.push((number(prefix.network()), *peer));
        }
        self.lengths = lengths.map(|lengths| lengths.into_values().rev().collect());
    }

    /// Returns the peer to which the address belongs.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<PeerId> {
        let (lengths, address) = (&self.lengths[usize::from(address.is_ipv6())], number(address));
        lengths.iter().find_map(|Length { mask, networks }| {
            let found = networks.binary_search_by_key(&(address & mask), |(network, _)| *network).ok()?;
            Some(networks[found].1)
        })
    }
}

/// Returns an address as a number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let mut allowed = Allowed::default();
        let peers = [0, 1, 2, 3].map(PeerId);
        for (prefix, peer) in [("0.0.0.0/0", 0), ("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("2001:db8::/32", 3)] {
            assert_eq!(allowed.insert(prefix.parse().unwrap(), peers[peer]), None);
        }
        let owner = |address: &str| allowed.owner(address.parse().unwrap());
        assert_eq!(owner("10.1.2.3"), Some(peers[2]));
        assert_eq!(owner("10.2.2.3"), Some(peers[1]));
        assert_eq!(owner("192.0.2.1"), Some(peers[0]));
        assert_eq!(owner("2001:db8:1::1"), Some(peers[3]));
        assert_eq!(owner("2001:db9::1"), None);
        assert_eq!(allowed.insert("10.1.7.7/16".parse().unwrap(), peers[3]), Some(peers[2]));
        allowed.remove(peers[3]);
        assert_eq!(allowed.owner("10.1.2.3".parse().unwrap()), Some(peers[1]));
        assert_eq!(allowed.owner("2001:db8::1".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_all_prefixes_finds(
            entries in proptest::collection::vec((any::<[u8; 4]>(), 0..=32_u8), 0..30),
            address in any::<[u8; 4]>(), near in any::<prop::sample::Index>(),
        ) {
            let mut allowed = Allowed::default();
            let mut plain: Vec<(IpNet, PeerId)> = Vec::new();
            for (number, (address, length)) in entries.iter().enumerate() {
                let prefix = IpNet::new(IpAddr::from(*address), *length).unwrap().trunc();
                plain.retain(|(other, _)| *other != prefix);
                plain.push((prefix, PeerId(number as u32)));
                allowed.insert(prefix, PeerId(number as u32));
            }
            let near = (!entries.is_empty()).then(|| near.get(&entries).0);
            for address in [Some(address), near].into_iter().flatten() {
                let address = IpAddr::from(address);
                let best = plain.iter().filter(|(p, _)| p.contains(&address)).max_by_key(|(p, _)| p.prefix_len());
                prop_assert_eq!(allowed.owner(address), best.map(|(_, peer)| *peer));
            }
        }
    }
}

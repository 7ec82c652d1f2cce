//! Packets of programs that the scenario knows nothing of: what queues ask of them.

use lasthop_proto::packet::Ecn;

/// TCP, UDP, and others with ports in the same place.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Where IPv4's protocol, addresses and options are.
const PROTOCOL: usize = 9;
const ADDRESSES: std::ops::Range<usize> = 12..20;
/// A fragment behind the first has no ports.
const OFFSET: u16 = 0x1fff;

/// Tells the flow and direction of an IPv4 packet from others, by addresses, protocol and ports; above all numbers of the scenario's
/// own. `None` where it is no IPv4 packet.
pub(super) fn line(packet: &[u8]) -> Option<u32> {
    let first = *packet.first()?;
    if first >> 4 != 4 {
        return None;
    }
    let protocol = *packet.get(PROTOCOL)?;
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & OFFSET;
    let header = usize::from(first & 15) * 4;
    let has_ports = WITH_PORTS.contains(&protocol) && fragment == 0;
    let ports = packet.get(header..header + 4).filter(|_| has_ports).unwrap_or_default();
    let bytes = packet.get(ADDRESSES)?.iter().chain([&protocol]).chain(ports);
    // FNV-1a.
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The last number of all is that of no flow.
    Some((hash | 1 << 31).min(u32::MAX - 1))
}

/// What the packet says of congestion (RFC 3168).
pub(super) fn ecn(packet: &[u8]) -> Ecn {
    packet.get(1).map_or(Ecn::NotEct, |byte| Ecn::from_bits(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, ports: [u8; 4], fragment: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 2, 0, 40, 0, 0, 0, fragment, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(ports);
        packet
    }

    #[test]
    fn flows_are_told_apart_by_addresses_protocol_and_ports() {
        let tcp = line(&packet(6, [1, 2, 3, 4], 0)).unwrap();
        assert_eq!(line(&packet(6, [1, 2, 3, 4], 0)), Some(tcp));
        assert_ne!(line(&packet(6, [1, 2, 3, 5], 0)), Some(tcp));
        assert_ne!(line(&packet(17, [1, 2, 3, 4], 0)), Some(tcp));
        // Neither a later fragment nor a ping has ports.
        assert_eq!(line(&packet(17, [1, 2, 3, 4], 7)), line(&packet(17, [9; 4], 7)));
        assert_eq!(line(&packet(1, [8, 0, 1, 1], 0)), line(&packet(1, [8, 0, 9, 9], 0)));
        assert!(tcp >= 1 << 31);
        assert_eq!((line(&[]), line(&[0x60; 40])), (None, None));
        // Cut off anywhere, nothing breaks.
        let whole = packet(6, [1, 2, 3, 4], 0);
        (0..whole.len()).for_each(|len| assert!(line(&whole[..len]).is_none() || len >= 20));
    }

    #[test]
    fn marks_are_read() {
        assert_eq!((ecn(&packet(6, [0; 4], 0)), ecn(&[])), (Ecn::Ect0, Ecn::NotEct));
    }
}

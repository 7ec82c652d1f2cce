//! Fragmentation of IPv4 packets (RFC 791 §3.2).

use etherparse::Ipv4Header;

/// Splits an IPv4 packet, or a fragment of one, into fragments of at most `mtu` bytes. `None` if its header is malformed,
/// if no payload fits into the MTU, or if an offset would exceed its field. Ignores "don't fragment".
pub fn fragments(packet: &[u8], mtu: u16) -> Option<Vec<Vec<u8>>> {
    let (mut header, body) = Ipv4Header::from_slice(packet).ok()?;
    let room = usize::from(mtu).checked_sub(header.header_len())? / 8 * 8;
    if room == 0 {
        return None;
    }
    let (first, more) = (header.fragment_offset.value(), header.more_fragments);
    let last = body.len().div_ceil(room).checked_sub(1)?;
    let part = |(number, piece): (usize, &[u8])| {
        let offset = u16::try_from(number * room / 8).ok()?.checked_add(first)?;
        header.fragment_offset = offset.try_into().ok()?;
        header.more_fragments = more || number < last;
        header.set_payload_len(piece.len()).ok()?;
        header.header_checksum = header.calc_header_checksum();
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(piece);
        Some(bytes)
    };
    body.chunks(room).enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fragment, Ip};

    #[test]
    fn fragments_join_to_the_whole() {
        let mut packet = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(1, 2);
        builder.write(&mut packet, &[7; 1000]).unwrap();
        let parts = fragments(&packet, 600).unwrap();
        // The second part is itself a fragment that is split again.
        let again = fragments(&parts[0], 300).unwrap();
        for (parts, whole) in [(&parts, &packet), (&again, &parts[0])] {
            let mut joined = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                let ip = Ip::new_checked(part).unwrap();
                let more = index + 1 < parts.len() || whole.len() < packet.len();
                let Fragment::Part { offset, more: said, .. } = ip.fragment() else { panic!("{part:?}") };
                assert_eq!((offset as usize, said, ip.claimed_len()), (joined.len(), more, part.len()));
                joined.extend_from_slice(&part[20..]);
            }
            assert_eq!(joined, whole[20..]);
        }
        assert_eq!(fragments(&packet, 27), None);
        assert_eq!(fragments(&packet[..19], 600), None);
    }
}

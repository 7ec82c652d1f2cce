//! Segmentation of a super-segment that the kernel passes to the device.

use super::{
    CWR, FIN, FLAGS, Header, LONGEST, NEEDS_CHECKSUM, NONE, PSH, TCP_V4, TCP_V6, UDP_ANY, WITH_CWR, set_lengths,
};
use lasthop_wire::protocol::{TCP, UDP};
use lasthop_wire::{Tcp, Udp, V4_LEN, V6_LEN, Version, complete, seal_transport};

/// Maximum length of the headers of a super-segment, in bytes: extension headers of IPv6 among them.
const MOST_HEADERS: usize = 256;

/// Data from the device that are not a packet or a super-segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed data from the device: {0}")]
pub struct Malformed(&'static str);

/// Passes the packets in the data of one read, which begin with a virtio-net header, to `take` in order. Returns their
/// number.
///
/// Segments are built in place: the headers of each are written in front of its payload, over the end of the segment
/// before it, which `take` has handled by then.
///
/// # Errors
///
/// Returns an error if the data are malformed. No packet has been passed then.
pub fn split(data: &mut [u8], mut take: impl FnMut(&mut [u8])) -> Result<usize, Malformed> {
    let (header, packet) = data.split_first_chunk_mut().ok_or(Malformed("no header"))?;
    let header = Header::decode(header);
    let start = usize::from(header.start);
    if header.kind == NONE {
        let is_pending = header.flags & NEEDS_CHECKSUM != 0;
        if is_pending && !complete(packet, start, start + usize::from(header.offset)) {
            return Err(Malformed("checksum outside of the packet"));
        }
        take(packet);
        return Ok(1);
    }
    let (protocol, ip_len) = (protocol(header.kind, packet, start)?, start);
    let transport = packet.get(ip_len..).unwrap_or_default();
    let transport_len = match protocol {
        UDP => Udp::new_checked(transport).map(|_| Udp::HEADER_LEN),
        _ => Tcp::new_checked(transport).and_then(|tcp| tcp.header_len()),
    };
    let headers = ip_len + transport_len.ok_or(Malformed("incomplete headers"))?;
    let size = usize::from(header.size);
    if headers >= packet.len() || headers > MOST_HEADERS || size == 0 || packet.len() > LONGEST {
        return Err(Malformed("impossible sizes"));
    }
    let mut template = [0; MOST_HEADERS];
    template[..headers].copy_from_slice(&packet[..headers]);
    let mut count = 0;
    for from in (headers..packet.len()).step_by(size) {
        let to = packet.len().min(from + size);
        let is_last = to == packet.len();
        let segment = &mut packet[from - headers..to];
        segment[..headers].copy_from_slice(&template[..headers]);
        set_lengths(segment, ip_len, protocol == UDP);
        if Version::of(segment) == Some(Version::V4) {
            let id = u16::from_be_bytes([segment[4], segment[5]]).wrapping_add(count as u16);
            segment[4..6].copy_from_slice(&id.to_be_bytes());
        }
        if protocol == TCP {
            let tcp = &mut segment[ip_len..];
            let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add((count * size) as u32);
            tcp[4..8].copy_from_slice(&seq.to_be_bytes());
            // CWR belongs to the first segment (RFC 3168 §6.1.2), FIN and PSH to the last.
            tcp[FLAGS] &= if count == 0 { u8::MAX } else { !CWR };
            tcp[FLAGS] &= if is_last { u8::MAX } else { !(FIN | PSH) };
        }
        seal_transport(segment, ip_len, protocol);
        take(segment);
        count += 1;
    }
    Ok(count)
}

/// Returns the protocol of a super-segment of type `kind`, whose IP headers have `ip_len` bytes.
fn protocol(kind: u8, packet: &[u8], ip_len: usize) -> Result<u8, Malformed> {
    let (version, least) = match Version::of(packet) {
        Some(Version::V4) => (TCP_V4, V4_LEN),
        Some(Version::V6) => (TCP_V6, V6_LEN),
        None => return Err(Malformed("neither IPv4 nor IPv6")),
    };
    if ip_len < least {
        return Err(Malformed("incomplete headers"));
    }
    match kind & !WITH_CWR {
        UDP_ANY => Ok(UDP),
        kind if kind == version => Ok(TCP),
        _ => Err(Malformed("unknown type of super-segment")),
    }
}

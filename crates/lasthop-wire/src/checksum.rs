//! TCP's and IPv4's checksums (RFC 1071): verified, computed, and carried on over a change (RFC 1624).

use etherparse::IpNumber;

use crate::parse::View;

/// Where a TCP header has its checksum.
const FIELD: std::ops::Range<usize> = 16..18;

/// What a packet's TCP checksum field holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Checksum {
    /// The checksum as its sender computed it: it tells whether the packet arrived as it was sent.
    #[default]
    Complete,
    /// No checksum of these bytes: a device has yet to compute it, or it is another's, as in a super-segment whose parts were
    /// verified one by one. Who says so vouches for the bytes.
    Pending,
}

/// Which parts of a packet arrived as they were sent, as far as checksums tell (RFC 1071).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Both are right.
    Hold,
    /// IPv4's is right or there is none, TCP's is wrong.
    TcpWrong,
    /// IPv4's is wrong: nothing of the packet can be relied on.
    IpWrong,
}

/// Looks at the checksums of a packet, read as `view`; at TCP's only where it is complete. IPv4's always is.
pub fn checksums(packet: &[u8], view: &View, field: Checksum) -> Checksums {
    let (ip, transport) = packet[..view.total_len()].split_at(view.ip_len);
    // Right checksums make the sum of all words all ones: zero in one's complement.
    if is_v4(ip) && fold(sum(ip)) != u16::MAX {
        Checksums::IpWrong
    } else if field == Checksum::Pending || fold(tcp_sum(ip, transport)) == u16::MAX {
        Checksums::Hold
    } else {
        Checksums::TcpWrong
    }
}

/// Computes the checksums of a packet, read as `view`, anew: who calls this vouches for its bytes.
pub fn seal(packet: &mut [u8], view: &View) {
    let (ip, transport) = packet.split_at_mut(view.ip_len);
    transport[FIELD].fill(0);
    let checksum = !fold(tcp_sum(ip, transport));
    transport[FIELD].copy_from_slice(&checksum.to_ne_bytes());
    if is_v4(ip) {
        ip[10..12].fill(0);
        let checksum = !fold(sum(ip));
        ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// Changes the TCP header of a packet, read as `view`, and carries its checksum on by what changed (RFC 1624 §3, equation 3):
/// it is as right or as wrong as it was, whatever lies behind the header. `change` must leave the checksum field alone.
pub fn amend(packet: &mut [u8], view: &View, change: impl FnOnce(&mut [u8])) {
    let header = &mut packet[view.ip_len..view.header_len];
    let before = u64::from(fold(sum(header)));
    change(header);
    let after = sum(header);
    let checksum = u16::from_ne_bytes([header[FIELD.start], header[FIELD.start + 1]]);
    // HC' = ~(~HC + ~m + m'); the field itself is in both sums, and takes itself away.
    let checksum = !fold(u64::from(!checksum) + (u64::from(u16::MAX) - before) + after);
    header[FIELD].copy_from_slice(&checksum.to_ne_bytes());
}

/// Carries a checksum, of which `before` became `after`, on by what changed (RFC 1624 §3, equation 3).
pub(crate) fn carry(field: &mut [u8; 2], before: &[u8], after: &[u8]) {
    let kept = u64::from(!u16::from_ne_bytes(*field)) + u64::from(u16::MAX - fold(sum(before)));
    *field = (!fold(kept + sum(after))).to_ne_bytes();
}

/// The words of the pseudo header and of the segment, added up.
fn tcp_sum(ip: &[u8], transport: &[u8]) -> u64 {
    let addresses = if is_v4(ip) { &ip[12..20] } else { &ip[8..40] };
    let len = u32::from_ne_bytes((transport.len() as u32).to_be_bytes());
    let protocol = u16::from_ne_bytes([0, IpNumber::TCP.0]);
    sum(addresses) + u64::from(protocol) + u64::from(len) + sum(transport)
}

/// Bytes that [`sum`] takes at a time.
const BLOCK: usize = 64;

/// Adds up 16-bit words in the machine's byte order, which makes no difference in one's complement (RFC 1071 §2), 64 bits at a
/// time: each half of them has a sum of its own, so that no carry is lost in less than 2^32 of them.
fn sum(bytes: &[u8]) -> u64 {
    let (mut low, mut high) = ([0; BLOCK / 8], [0; BLOCK / 8]);
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (word, (low, high)) in words.iter().zip(low.iter_mut().zip(&mut high)) {
            let word = u64::from_ne_bytes(*word);
            *low += word & u64::from(u32::MAX);
            *high += word >> 32;
        }
    }
    let (words, rest) = rest.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words: u64 = words.iter().chain([&last]).map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    low.iter().chain(&high).sum::<u64>() + words
}

/// Adds the carries in.
const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn is_v4(ip: &[u8]) -> bool {
    ip.first().is_some_and(|first| first >> 4 == 4)
}

//! Whether a packet arrived as it was sent (RFC 1071).

use lasthop_wire::View;

/// The 16-bit words of `bytes`, added up.
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let sum: u64 = words.by_ref().map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum + u64::from(u32::from_be_bytes(last))
}

/// Whether the ones' complement sum is all ones.
fn is_whole(sum: u64) -> bool {
    // 2^16 is 1 in this arithmetic: what lies above comes down.
    sum != 0 && sum.is_multiple_of(0xffff)
}

/// Whether the header checksum of an IPv4 packet is right; IPv6 has none.
pub(super) fn ip_holds(packet: &[u8], view: &View) -> bool {
    view.route.source.is_ipv6() || is_whole(sum(&packet[..view.ip_len]))
}

/// Whether the TCP checksum is right.
pub(super) fn tcp_holds(packet: &[u8], view: &View) -> bool {
    let addresses = if view.route.source.is_ipv4() { 12..20 } else { 8..40 };
    let segment = &packet[view.ip_len..];
    is_whole(sum(&packet[addresses]) + 6 + segment.len() as u64 + sum(segment))
}

/// Whether the checksum of an ICMP message is right, `pseudo` being what counts besides.
pub(super) fn icmp_holds(message: &[u8], pseudo: &[u8]) -> bool {
    is_whole(sum(message) + sum(pseudo))
}

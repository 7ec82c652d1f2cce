//! Checksums of TCP and IPv4 (RFC 1071): verification, computation, and incremental update (RFC 1624).

use crate::datagram::Datagram;
use crate::ip::{Version, protocol};
use crate::parse::View;

/// Position of the checksum in a TCP header.
pub(crate) const CHECKSUM: std::ops::Range<usize> = 16..18;

/// Position of the checksum in a UDP header.
pub(crate) const UDP_CHECKSUM: std::ops::Range<usize> = 6..8;

/// State of a packet's TCP checksum field.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Checksum {
    /// The sender's checksum, which verifies the packet.
    #[default]
    Complete,
    /// Not a checksum of these bytes: an offload has yet to compute it, or it is that of a segment in a super-segment
    /// whose segments were verified separately. The bytes count as verified.
    Pending,
}

/// Result of the verification of a packet's checksums (RFC 1071).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Both checksums are right.
    Hold,
    /// IPv4's checksum is correct or absent, TCP's is wrong.
    TcpWrong,
    /// IPv4's checksum is wrong: no part of the packet is reliable.
    IpWrong,
}

/// Verifies the checksums of a packet, parsed as `view`: that of TCP only if it is complete, and that of IPv4, which
/// always is.
pub fn checksums(packet: &[u8], view: &View, field: Checksum) -> Checksums {
    let (ip, transport) = packet[..view.total_len()].split_at(view.ip_len);
    // With valid checksums the sum of all words is all ones: zero in ones' complement.
    if is_v4(ip) && fold(sum(ip)) != u16::MAX {
        Checksums::IpWrong
    } else if field == Checksum::Pending || fold(tcp_sum(ip, transport)) == u16::MAX {
        Checksums::Hold
    } else {
        Checksums::TcpWrong
    }
}

/// Computes the checksums of a packet, parsed as `view`. The caller must know that its bytes are intact.
pub fn seal(packet: &mut [u8], view: &View) {
    seal_transport(packet, view.ip_len, protocol::TCP);
}

/// Computes the checksums of a UDP datagram, parsed as `datagram`. The caller must know that its bytes are intact.
pub fn seal_datagram(packet: &mut [u8], datagram: &Datagram) {
    seal_transport(&mut packet[..datagram.total_len()], datagram.ip_len, protocol::UDP);
}

/// Computes the checksums of a complete packet of TCP or UDP, by `protocol`, whose IP headers have `ip_len` bytes. The
/// caller must know that its bytes are intact.
///
/// # Panics
///
/// Panics if the packet is shorter than its headers.
pub fn seal_transport(packet: &mut [u8], ip_len: usize, protocol: u8) {
    let (ip, transport) = packet.split_at_mut(ip_len);
    let field = checksum_field(protocol);
    transport[field.clone()].fill(0);
    let checksum = match !fold(transport_sum(ip, protocol, transport)) {
        // Zero stands for no checksum (RFC 768).
        0 if protocol == protocol::UDP => u16::MAX,
        checksum => checksum,
    };
    transport[field].copy_from_slice(&checksum.to_ne_bytes());
    seal_ip(ip);
}

/// Prepares the checksums of such a packet for an offload, which computes that of TCP or UDP from the sum of the pseudo
/// header. The caller must know that its bytes are intact.
///
/// # Panics
///
/// Panics if the packet is shorter than its headers.
pub fn defer_transport(packet: &mut [u8], ip_len: usize, protocol: u8) {
    let (ip, transport) = packet.split_at_mut(ip_len);
    let sum = fold(pseudo_sum(ip, protocol, transport.len()));
    transport[checksum_field(protocol)].copy_from_slice(&sum.to_ne_bytes());
    seal_ip(ip);
}

/// Returns whether the checksum of TCP or UDP in such a packet is correct. A UDP datagram without one is not verified.
///
/// # Panics
///
/// Panics if the packet is shorter than its headers.
pub fn verifies_transport(packet: &[u8], ip_len: usize, protocol: u8) -> bool {
    let (ip, transport) = packet.split_at(ip_len);
    let is_absent = protocol == protocol::UDP && transport[UDP_CHECKSUM] == [0; 2];
    !is_absent && fold(transport_sum(ip, protocol, transport)) == u16::MAX
}

/// Completes a checksum that an offload has yet to compute: its field, at `at`, has the sum of the pseudo header, and it
/// covers the packet from `start`. Returns `false` if they exceed the packet.
pub fn complete(packet: &mut [u8], start: usize, at: usize) -> bool {
    let Some(covered) = packet.get(start..) else { return false };
    // A computed zero is sent as its complement (RFC 768), which TCP accepts as well.
    let checksum = match !fold(sum(covered)) {
        0 => u16::MAX,
        checksum => checksum,
    };
    let Some(field) = packet.get_mut(at..at.saturating_add(2)) else { return false };
    field.copy_from_slice(&checksum.to_ne_bytes());
    true
}

/// Returns the position of the checksum in the header of TCP or UDP.
pub const fn checksum_field(protocol: u8) -> std::ops::Range<usize> {
    if protocol == protocol::UDP { UDP_CHECKSUM } else { CHECKSUM }
}

/// Computes the checksum of an IPv4 header; IPv6 has none.
fn seal_ip(ip: &mut [u8]) {
    if is_v4(ip) {
        ip[10..12].fill(0);
        let checksum = !fold(sum(ip));
        ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// Changes the TCP header of a packet, parsed as `view`, and updates its checksum (RFC 1624 §3, equation 3): a correct
/// checksum stays correct and a wrong one wrong, regardless of the payload. `change` must not modify the checksum
/// field.
pub fn amend(packet: &mut [u8], view: &View, change: impl FnOnce(&mut [u8])) {
    let header = &mut packet[view.ip_len..view.header_len];
    let before = u64::from(fold(sum(header)));
    change(header);
    let after = sum(header);
    let checksum = u16::from_ne_bytes([header[CHECKSUM.start], header[CHECKSUM.start + 1]]);
    // HC' = ~(~HC + ~m + m'); the field itself is in both sums and cancels out.
    let checksum = !fold(u64::from(!checksum) + (u64::from(u16::MAX) - before) + after);
    header[CHECKSUM].copy_from_slice(&checksum.to_ne_bytes());
}

/// Updates a checksum for a word that changes from `before` to `after` (RFC 1624 §3, equation 3).
pub(crate) fn carry_word(field: &mut [u8; 2], before: [u8; 2], after: [u8; 2]) {
    let word = |bytes: [u8; 2]| u32::from(u16::from_be_bytes(bytes));
    // HC' = ~(~HC + ~m + m').
    let sum = (0xffff - word(*field)) + (0xffff - word(before)) + word(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    *field = (!(folded as u16)).to_be_bytes();
}

/// Returns the sum of the words of the pseudo header and of the segment.
fn tcp_sum(ip: &[u8], transport: &[u8]) -> u64 {
    transport_sum(ip, protocol::TCP, transport)
}

/// Returns the sum of the words of the pseudo header and of a packet of a transport protocol.
fn transport_sum(ip: &[u8], protocol: u8, transport: &[u8]) -> u64 {
    pseudo_sum(ip, protocol, transport.len()) + sum(transport)
}

/// Returns the sum of the words of the pseudo header of a packet with `len` bytes after its IP headers.
fn pseudo_sum(ip: &[u8], protocol: u8, len: usize) -> u64 {
    let addresses = if is_v4(ip) { &ip[12..20] } else { &ip[8..40] };
    let len = u32::from_ne_bytes((len as u32).to_be_bytes());
    let protocol = u16::from_ne_bytes([0, protocol]);
    sum(addresses) + u64::from(protocol) + u64::from(len)
}

/// Number of bytes that [`sum`] processes per iteration.
const BLOCK: usize = 64;

/// Returns the sum of 16-bit words in native byte order, which is equivalent in ones' complement (RFC 1071 §2). It
/// processes 64 bits at a time, with a separate sum for each half, so that no carry is lost in fewer than 2^32 of them.
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

/// Folds the carries.
const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn is_v4(ip: &[u8]) -> bool {
    Version::of(ip) == Some(Version::V4)
}

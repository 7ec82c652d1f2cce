//! Packets derived from packets: split for a smaller MTU, with another window, without their SACK blocks.

use std::net::Ipv4Addr;

use lasthop_proto::packet::{Ecn, Flags, Segment};

use crate::build::is_v4;
use crate::checksum::{Checksum, amend, carry_word, seal};
use crate::ip::{V4_LEN, Version};
use crate::mutable::IpMut;
use crate::options::{ELN_EXID, EXPERIMENTAL_KIND, MOST_OPTIONS, NOP, SACK, TIMESTAMPS};
use crate::parse::View;

/// Splits a packet, parsed as `view`, into packets with at most `most` bytes of payload each, like a network card:
/// sequence numbers continue, CWR stays on the first and FIN and PSH on the last, checksums are computed. A packet that
/// fits is returned alone, with its checksum computed too. With AE set, CWR is a counter bit (RFC 9768 §3.1) and stays
/// on each.
pub fn pieces(packet: &[u8], view: &View, most: usize) -> Vec<Vec<u8>> {
    let most = most.max(1);
    let count = view.payload_len.div_ceil(most).max(1);
    (0..count)
        .map(|index| piece(packet, view, index * most, most.min(view.payload_len - index * most), index))
        .collect()
}

/// Returns the part of a packet, parsed as `view`, that consists of `segment` and `len` bytes of payload, with the
/// segment's window, timestamp and CWR flag, and its view. `None` if the packet does not contain it. For the whole
/// packet a complete checksum is updated; a smaller part gets a computed one. Each part has all options of the packet,
/// including unknown ones.
pub fn part(packet: &[u8], view: &View, segment: &Segment, len: usize, field: Checksum) -> Option<(Vec<u8>, View)> {
    let offset = segment.seq.0.wrapping_sub(view.segment.seq.0) as usize;
    if offset.checked_add(len)? > view.payload_len {
        return None;
    }
    let part = View { segment: *segment, payload_len: len, ..*view };
    if len == view.payload_len && field == Checksum::Complete {
        let mut bytes = packet[..view.total_len()].to_vec();
        stamp(&mut bytes, view, segment);
        return Some((bytes, part));
    }
    let mut bytes = piece(packet, view, offset, len, 0);
    stamp(&mut bytes, &part, segment);
    if segment.flags.has(Flags::CWR) {
        amend(&mut bytes, &part, |tcp| tcp[13] |= Flags::CWR.low_byte());
    }
    Some((bytes, part))
}

/// Returns `len` bytes of a packet's payload from offset `at`, as piece number `index`.
fn piece(packet: &[u8], view: &View, at: usize, len: usize, index: usize) -> Vec<u8> {
    let (headers, payload) = packet[..view.total_len()].split_at(view.header_len);
    let mut bytes = Vec::with_capacity(headers.len() + len);
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(&payload[at..at + len]);
    if is_v4(view.route.source.ip()) {
        // The length field cannot overflow: a part is no longer than the packet.
        let total = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        let identification = u16::from_be_bytes([headers[4], headers[5]]);
        bytes[4..6].copy_from_slice(&identification.wrapping_add(index as u16).to_be_bytes());
    } else {
        let len = u16::try_from(bytes.len() - view.ip_len).unwrap_or(0);
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
    }
    let tcp = &mut bytes[view.ip_len..];
    let seq = view.segment.seq.0.wrapping_add(at as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if at > 0 && !view.segment.flags.has(Flags::AE) {
        tcp[13] &= !Flags::CWR.low_byte();
    }
    if at + len < view.payload_len {
        tcp[13] &= !Flags::FIN.with(Flags::PSH).low_byte();
    }
    seal(&mut bytes, view);
    bytes
}

/// Returns the packet, parsed as `view`, with the window of `segment`, and with NOPs in place of its SACK blocks if
/// `segment` has none. A complete checksum is updated, so that damage stays detectable; a pending one is computed, and
/// needs no offload any more.
pub fn revise(packet: &[u8], view: &View, segment: &Segment, field: Checksum) -> Vec<u8> {
    let mut bytes = packet[..view.total_len()].to_vec();
    amend(&mut bytes, view, |tcp| {
        set_window(tcp, segment);
        if segment.options.sack.is_empty() {
            for_each_option(tcp, SACK, |option| option.fill(NOP));
        }
    });
    if field == Checksum::Pending {
        seal(&mut bytes, view);
    }
    bytes
}

/// Returns the packet, parsed as `view`, with acknowledgment number and window of `segment`, and an updated checksum.
pub fn acknowledge(packet: &[u8], view: &View, segment: &Segment) -> Vec<u8> {
    let mut bytes = packet[..view.total_len()].to_vec();
    amend(&mut bytes, view, |tcp| {
        tcp[8..12].copy_from_slice(&segment.ack.0.to_be_bytes());
        set_window(tcp, segment);
    });
    bytes
}

/// Sets the window of a packet, parsed as `view`, and updates the checksum.
pub fn offer_window(packet: &mut [u8], view: &View, window: u16) {
    amend(packet, view, |tcp| set_window(tcp, &Segment { window, ..view.segment }));
}

/// Sets window and timestamp (TSval) of `segment` in a packet with the headers parsed as `view`, and updates the
/// checksum.
pub fn stamp(bytes: &mut [u8], view: &View, segment: &Segment) {
    amend(bytes, view, |tcp| {
        set_window(tcp, segment);
        if let Some(timestamps) = segment.options.timestamps {
            for_each_option(tcp, TIMESTAMPS, |option| {
                if let Some(val) = option.get_mut(2..6) {
                    val.copy_from_slice(&timestamps.val.to_be_bytes());
                }
            });
        }
    });
}

/// Sets "congestion experienced" in the IP header of a packet (RFC 3168 §5) and updates IPv4's checksum. Other packets
/// stay unchanged.
pub fn mark_congestion(packet: &mut [u8]) {
    match Version::of(packet) {
        Some(Version::V4) => {
            let Some(header) = packet.first_chunk_mut::<V4_LEN>() else { return };
            let (first, service, mut sum) = (header[0], header[1], [header[10], header[11]]);
            let marked = service | Ecn::Ce.bits();
            carry_word(&mut sum, [first, service], [first, marked]);
            header[10..12].copy_from_slice(&sum);
            header[1] = marked;
        }
        // The traffic class spans two bytes, four bits after the version.
        Some(Version::V6) => {
            if let Some(class) = packet.get_mut(1) {
                *class |= Ecn::Ce.bits() << 4;
            }
        }
        None => {}
    }
}

/// Changes the destination of an IPv4 packet, and updates the checksums of IP and of TCP or UDP: correct checksums stay
/// correct, and wrong ones wrong. Other packets stay unchanged.
pub fn redirect(packet: &mut [u8], to: Ipv4Addr) {
    if let Some(mut ip) = IpMut::new_checked(packet) {
        ip.set_destination(to.into());
    }
}

fn set_window(tcp: &mut [u8], segment: &Segment) {
    tcp[14..16].copy_from_slice(&segment.window.to_be_bytes());
}

/// Returns the packet, parsed as `view`, with the ELN option before its others, which stay unchanged, and with computed
/// checksums. If there is no space, it replaces the SACK block reported longest ago (RFC 2018 §3). `None` without such
/// a block.
pub fn mark_eln(packet: &[u8], view: &View) -> Option<Vec<u8>> {
    let (headers, payload) = packet[..view.total_len()].split_at(view.header_len);
    let mut options = headers[view.ip_len + 20..].to_vec();
    let [high, low] = ELN_EXID.to_be_bytes();
    let mark = [EXPERIMENTAL_KIND, 4, high, low];
    if options.len() + mark.len() > MOST_OPTIONS {
        drop_last_block(&mut options)?;
    }
    let mut bytes = headers[..view.ip_len + 20].to_vec();
    bytes.extend(mark);
    bytes.extend(options);
    let tcp_len = bytes.len() - view.ip_len;
    bytes[view.ip_len + 12] = (tcp_len as u8 / 4) << 4 | bytes[view.ip_len + 12] & 0xf;
    bytes.extend_from_slice(payload);
    let (field, len) = if is_v4(view.route.source.ip()) { (2, bytes.len()) } else { (4, bytes.len() - view.ip_len) };
    let len = u16::try_from(len).ok()?;
    bytes[field..field + 2].copy_from_slice(&len.to_be_bytes());
    seal(&mut bytes, view);
    Some(bytes)
}

/// Removes the last SACK block from the options; `None` if there is none.
fn drop_last_block(options: &mut Vec<u8>) -> Option<()> {
    let mut at = 0;
    let (start, len) = loop {
        match *options.get(at)? {
            0 => return None,
            NOP => at += 1,
            kind => {
                let len = usize::from(*options.get(at + 1)?).max(2);
                if kind == SACK && len >= 2 + BLOCK && at + len <= options.len() {
                    break (at, len);
                }
                at += len;
            }
        }
    };
    options.drain(start + len - BLOCK..start + len);
    options[start + 1] -= BLOCK as u8;
    if len == 2 + BLOCK {
        options[start..start + 2].fill(NOP);
    }
    Some(())
}

/// Length of a SACK block, in bytes.
const BLOCK: usize = 8;

/// Passes a TCP header's options of one kind to `change`, kind and length included.
fn for_each_option(tcp: &mut [u8], wanted: u8, mut change: impl FnMut(&mut [u8])) {
    let options = &mut tcp[20..];
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            0 => break,
            NOP => 1,
            _ => options.get(at + 1).map_or(1, |&len| usize::from(len).max(1)),
        };
        let end = (at + len).min(options.len());
        if kind == wanted {
            change(&mut options[at..end]);
        }
        at = end;
    }
}

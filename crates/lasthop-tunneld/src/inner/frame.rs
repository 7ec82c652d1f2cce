//! Ethernet frames of the inner network in the form that the link carries: each is preceded by its length, so that the
//! length of a frame decoded from a combination is known. The first byte is below 0x40, which distinguishes it from
//! every IP packet.

use std::ops::Range;

use lasthop_wire::{Ip, Version};

use super::look::{View, look};

/// Size of the length field before a frame, in bytes.
pub const LENGTH: usize = 2;
/// Length of an Ethernet header, in bytes.
pub const ETHERNET: usize = 14;
/// Maximum length of a frame, in bytes, limited by the length field.
pub const LONGEST: usize = 0x3fff;
/// Maximum number of VLAN tags to skip.
const MOST_TAGS: usize = 2;
const TAG: usize = 4;
/// Length of these tags, in bytes.
pub const TAGS: usize = MOST_TAGS * TAG;
/// EtherTypes: tags of 802.1Q and 802.1ad, and ARP.
const TAG_TYPES: [u16; 2] = [0x8100, 0x88a8];
const ARP: u16 = 0x0806;

/// Returns a frame with its length; `None` if its Ethernet header is incomplete, or if it is too long.
pub fn carried(frame: &[u8]) -> Option<Vec<u8>> {
    if !(ETHERNET..=LONGEST).contains(&frame.len()) {
        return None;
    }
    let mut bytes = Vec::with_capacity(LENGTH + frame.len());
    bytes.extend_from_slice(&(frame.len() as u16).to_be_bytes());
    bytes.extend_from_slice(frame);
    Some(bytes)
}

/// Returns whether carried data is a frame rather than an IP packet.
pub fn is_frame(carried: &[u8]) -> bool {
    carried.first().is_some_and(|first| *first < 0x40)
}

/// Returns the length of the IP packet, or of the frame with its length field, with which carried data begins. `None`
/// if the length, or the header of a packet, is incomplete.
pub fn length(carried: &[u8]) -> Option<usize> {
    if is_frame(carried) {
        return carried.first_chunk().map(|length| LENGTH + usize::from(u16::from_be_bytes(*length)));
    }
    Ip::new_checked(carried).map(|ip| ip.claimed_len())
}

/// Returns the frame in carried data, if it is a complete one.
pub fn frame(carried: &[u8]) -> Option<&[u8]> {
    let whole = is_frame(carried) && length(carried) == Some(carried.len());
    carried.get(LENGTH..).filter(|frame| whole && frame.len() >= ETHERNET)
}

/// Returns the offset of a frame's EtherType after its tags.
fn type_at(frame: &[u8]) -> Option<usize> {
    let mut at = ETHERNET - 2;
    for _ in 0..MOST_TAGS {
        if !TAG_TYPES.contains(&type_of(frame, at)?) {
            break;
        }
        at += TAG;
    }
    (frame.len() >= at + 2).then_some(at)
}

fn type_of(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Returns whether a frame is ARP, for which no packet has to wait.
pub fn is_arp(frame: &[u8]) -> bool {
    type_at(frame).and_then(|at| type_of(frame, at)) == Some(ARP)
}

/// Returns the range of the IP packet in a frame, without padding, and its view; `None` if there is no complete one.
pub fn ip(frame: &[u8]) -> Option<(Range<usize>, View)> {
    const IP: [(u16, Version); 2] = [(0x0800, Version::V4), (0x86dd, Version::V6)];
    let at = type_at(frame)?;
    let (kind, start) = (type_of(frame, at)?, at + 2);
    let packet = frame.get(start..)?;
    IP.contains(&(kind, Version::of(packet)?)).then_some(())?;
    let end = start + Ip::new_checked(packet)?.claimed_len();
    let view = look(frame.get(start..end)?)?;
    Some((start..end, view))
}

/// Returns the header of a frame back to the sender; `None` if the frame's destination is a group address.
pub fn header_back(frame: &[u8], ip: &Range<usize>) -> Option<Vec<u8>> {
    let header = frame.get(..ip.start)?;
    if header.first()? & 1 == 1 {
        return None;
    }
    Some([&header[6..12], &header[..6], &header[12..]].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame with this number of tags, an IPv4 UDP packet and `padding` bytes after it.
    fn udp(tags: usize, padding: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for _ in 0..tags {
            frame.extend_from_slice(&[0x81, 0, 0x20, 5]);
        }
        frame.extend_from_slice(&[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend_from_slice(&[0, 7, 0, 9, 0, 8, 0, 0]);
        frame.resize(frame.len() + padding, 0);
        frame
    }

    #[test]
    fn the_packet_in_a_frame_is_found_behind_tags_and_before_padding() {
        for (tags, padding) in [(0, 0), (0, 18), (1, 14), (2, 0)] {
            let frame = udp(tags, padding);
            let (range, view) = ip(&frame).unwrap();
            assert_eq!((range.clone(), view.protocol), (14 + 4 * tags..42 + 4 * tags, 17));
            let back = header_back(&frame, &range).unwrap();
            assert_eq!((&back[..6], &back[6..12], &back[12..]), (&frame[6..12], &frame[..6], &frame[12..range.start]));
        }
        assert_eq!(ip(&udp(3, 0)), None);
        let mut group = udp(0, 0);
        group[0] |= 1;
        assert_eq!(header_back(&group, &(14..42)), None);
        // The EtherType says IPv6, the packet IPv4.
        let mut frame = udp(0, 0);
        (frame[12], frame[13]) = (0x86, 0xdd);
        assert_eq!(ip(&frame), None);
    }

    #[test]
    fn arp_is_told_from_all_else() {
        let mut frame = udp(1, 0);
        assert!(!is_arp(&frame));
        frame[17] = 6;
        assert!(is_arp(&frame));
    }

    #[test]
    fn what_is_too_short_or_too_long_is_not_carried() {
        assert_eq!(carried(&[0; 13]), None);
        assert_eq!(carried(&[0; LONGEST + 1]), None);
        let longest = carried(&[9; LONGEST]).unwrap();
        assert!(is_frame(&longest) && frame(&longest) == Some(&[9; LONGEST][..]));
    }

    proptest! {
        #[test]
        fn a_frame_is_itself_again(bytes in proptest::collection::vec(any::<u8>(), 14..200)) {
            let carried = carried(&bytes).unwrap();
            prop_assert!(is_frame(&carried));
            prop_assert_eq!(frame(&carried), Some(&bytes[..]));
            prop_assert_eq!(frame(&carried[..carried.len() - 1]), None);
        }

        #[test]
        fn anything_is_looked_at(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some((range, _)) = ip(&bytes) {
                prop_assert!(range.end <= bytes.len());
            }
            let _ = (frame(&bytes), is_arp(&bytes));
        }
    }
}

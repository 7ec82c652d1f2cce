//! The tunnel's frames on Ethernet, which carry the session's datagrams over a hop between two bridges.
//!
//! | bytes | |
//! |---|---|
//! | 6 | address of the other end, or broadcast |
//! | 6 | address of this end |
//! | 2 | 0x88B5: local experimental EtherType (IEEE 802) |
//! | 2 | length of the datagram: Ethernet pads short frames |
//! | | the datagram |

use lasthop_tunnel::Mac;

/// EtherType of the tunnel's frames.
pub const TYPE: u16 = 0x88b5;
/// Length of an Ethernet header, in bytes.
const HEADER: usize = 14;
/// Length of the length field, in bytes, which counts towards the interface's MTU.
const LENGTH: usize = 2;

/// Returns a frame with a datagram.
pub fn wrap(to: Mac, from: Mac, datagram: &[u8]) -> Vec<u8> {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let parts = [&to.0[..], &from.0, &TYPE.to_be_bytes(), &length.to_be_bytes(), datagram];
    parts.concat()
}

/// Returns the sender of a frame and the datagram in it; `None` if it is not the tunnel's, or incomplete.
pub fn unwrap(frame: &[u8]) -> Option<(Mac, &[u8])> {
    let (header, rest) = frame.split_first_chunk::<HEADER>()?;
    let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
    let from = Mac(*header[6..].first_chunk()?);
    let is_ours = header[12..] == TYPE.to_be_bytes() && from.0[0] & 1 == 0;
    let datagram = rest.get(..u16::from_be_bytes(*length).into())?;
    is_ours.then_some((from, datagram))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FROM: Mac = Mac([2, 0, 0, 0, 0, 1]);

    #[test]
    fn a_frame_is_as_documented() {
        let frame = wrap(Mac::BROADCAST, FROM, &[7, 8]);
        assert_eq!(frame, [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0, 2, 7, 8]);
        assert_eq!(unwrap(&frame), Some((FROM, &[7, 8][..])));
        // Another type; a group address as source.
        for (place, value) in [(13, 0xb6), (6, 3)] {
            let mut other = frame.clone();
            other[place] = value;
            assert_eq!(unwrap(&other), None);
        }
    }

    proptest! {
        #[test]
        fn padding_is_no_part_of_it(datagram in proptest::collection::vec(any::<u8>(), 0..60), padding in 0_usize..50) {
            let mut frame = wrap(Mac::BROADCAST, FROM, &datagram);
            frame.resize(frame.len() + padding, 0);
            prop_assert_eq!(unwrap(&frame), Some((FROM, &datagram[..])));
            if let Some((_, shorter)) = unwrap(&frame[..frame.len() - 1]) {
                prop_assert_eq!(shorter, &datagram[..]);
            }
        }

        #[test]
        fn anything_can_come(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some((_, datagram)) = unwrap(&bytes) {
                prop_assert!(datagram.len() + HEADER + LENGTH <= bytes.len());
            }
        }
    }
}

//! Wire format of link headers.
//!
//! The outermost comes first. Each consists of a byte for the protocol, one for the length, and the header; a zero byte
//! ends them, and the packet follows.

use core::num::NonZeroU8;
use std::fmt;

use lasthop_proto::packet::headers::{LinkHeaders, LinkProtocol};

/// Reason why bytes are not link headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The bytes end within the headers.
    Truncated,
    /// There are more headers than a packet can have.
    TooMany,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the frame ends within its link headers",
            Self::TooMany => "the frame has more link headers than a packet can have",
        })
    }
}

impl std::error::Error for LinkError {}

/// Appends the headers to `out`.
pub fn encode_link(headers: &LinkHeaders, out: &mut Vec<u8>) {
    for (protocol, header) in headers.iter() {
        // A header is shorter than 256 bytes, because it fits in a packet's space for headers.
        out.extend_from_slice(&[protocol.0.get(), header.len() as u8]);
        out.extend_from_slice(header);
    }
    out.push(0);
}

/// Parses headers from the front of `bytes`. Also returns the data after them.
///
/// # Errors
///
/// Returns an error if the bytes, which are untrusted, are not link headers.
pub fn decode_link(bytes: &[u8]) -> Result<(LinkHeaders, &[u8]), LinkError> {
    let mut found: Vec<(LinkProtocol, &[u8])> = Vec::new();
    let mut rest = bytes;
    loop {
        let (&protocol, behind) = rest.split_first().ok_or(LinkError::Truncated)?;
        let Some(protocol) = NonZeroU8::new(protocol) else {
            rest = behind;
            break;
        };
        let (&len, behind) = behind.split_first().ok_or(LinkError::Truncated)?;
        let (header, behind) = behind.split_at_checked(len.into()).ok_or(LinkError::Truncated)?;
        // Each header needs space, so the number is bounded.
        if found.len() >= MOST {
            return Err(LinkError::TooMany);
        }
        found.push((LinkProtocol(protocol), header));
        rest = behind;
    }
    let mut headers = LinkHeaders::NONE;
    for (protocol, header) in found.into_iter().rev() {
        headers.push(protocol, header).map_err(|_| LinkError::TooMany)?;
    }
    Ok((headers, rest))
}

/// Maximum number of headers in a packet, regardless of their length.
const MOST: usize = 19;

#[cfg(test)]
mod tests {
    use lasthop_proto::link::arq::Header;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_as_described() {
        let mut headers = LinkHeaders::from(Header::Nack(0x0102));
        headers.push(LinkProtocol(NonZeroU8::new(9).unwrap()), b"ab").unwrap();
        let mut bytes = Vec::new();
        encode_link(&headers, &mut bytes);
        assert_eq!(bytes, [9, 2, b'a', b'b', 1, 4, 2, 0, 1, 2, 0]);
        bytes.extend_from_slice(b"packet");
        assert_eq!(decode_link(&bytes), Ok((headers, &b"packet"[..])));
        for end in 0..11 {
            assert_eq!(decode_link(&bytes[..end]), Err(LinkError::Truncated), "{end}");
        }
        let empty = |count: usize| [[9, 0].repeat(count), vec![0]].concat();
        assert!(decode_link(&empty(MOST)).is_ok());
        assert_eq!(decode_link(&empty(MOST + 1)), Err(LinkError::TooMany));
        assert_eq!(decode_link(&[[9, 38].to_vec(), vec![0; 39]].concat()), Err(LinkError::TooMany));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            pushed in proptest::collection::vec((1u8..=255, proptest::collection::vec(any::<u8>(), 0..14)), 0..8),
            behind in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut headers = LinkHeaders::NONE;
            for (protocol, header) in &pushed {
                let _ = headers.push(LinkProtocol(NonZeroU8::new(*protocol).unwrap()), header);
            }
            let mut bytes = Vec::new();
            encode_link(&headers, &mut bytes);
            bytes.extend_from_slice(&behind);
            prop_assert_eq!(decode_link(&bytes), Ok((headers, &behind[..])));
        }

        /// Arbitrary input; parsed headers have only one encoding.
        #[test]
        fn what_is_read_is_written_alike(bytes in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..60)) {
            if let Ok((headers, behind)) = decode_link(&bytes) {
                let mut again = Vec::new();
                encode_link(&headers, &mut again);
                again.extend_from_slice(behind);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}

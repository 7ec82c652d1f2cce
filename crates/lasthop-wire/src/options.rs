//! Kinds and lengths of TCP options.

pub(crate) const NOP: u8 = 1;
pub(crate) const SACK: u8 = 5;
pub(crate) const TIMESTAMPS: u8 = 8;
/// Kinds of the option of accurate ECN (RFC 9768 §3.2.3).
pub(crate) const ACCURATE_ECN: [u8; 2] = lasthop_proto::packet::ECN_COUNTER_KINDS;

/// Kind of shared experimental TCP options (RFC 6994 §3).
pub const EXPERIMENTAL_KIND: u8 = 253;
/// ExID of the SMART option: "SM". Not registered with IANA.
pub const SMART_EXID: u16 = 0x534d;
/// ExID of the ELN option: "EL". Not registered with IANA.
pub const ELN_EXID: u16 = 0x454c;
/// ExID of the options of acknowledgment congestion control, which their length distinguishes (RFC 5690 leaves the
/// kinds open): "AC". Not registered with IANA.
pub const ACK_CONGESTION_EXID: u16 = 0x4143;

/// Maximum length of the options in a TCP header, in bytes (RFC 9293 §3.1).
pub(crate) const MOST_OPTIONS: usize = 40;

/// Returns the options in a TCP header, each with kind and length, up to the first malformed one; padding is omitted.
pub fn options_in(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while let Some((&NOP, rest)) = bytes.split_first() {
            bytes = rest;
        }
        let len = match bytes {
            [] | [0, ..] => return None,
            [_, len, ..] if (2..=bytes.len()).contains(&usize::from(*len)) => usize::from(*len),
            _ => return None,
        };
        let (option, rest) = bytes.split_at(len);
        bytes = rest;
        Some(option)
    })
}

/// Returns whether [`parse`](crate::parse) reads an option.
pub fn is_read(option: &[u8]) -> bool {
    match option {
        [2..=SACK | TIMESTAMPS, ..] => true,
        [kind, ..] if ACCURATE_ECN.contains(kind) => true,
        [EXPERIMENTAL_KIND, _, high, low, ..] => {
            matches!(u16::from_be_bytes([*high, *low]), SMART_EXID | ELN_EXID | ACK_CONGESTION_EXID)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_apart_and_malformed_ones_end_the_list() {
        let bytes = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 172, 5, 1, 2, 3, 1, 30, 3, 9, 0, 5, 2];
        let kinds = |bytes| options_in(bytes).map(|option| (option[0], option.len())).collect::<Vec<_>>();
        assert_eq!(kinds(&bytes), [(8, 10), (172, 5), (30, 3)]);
        for malformed in [&[172][..], &[172, 1], &[172, 0, 1], &[172, 9, 1, 2]] {
            assert_eq!(kinds(malformed), [], "{malformed:?}");
        }
        let unread: Vec<_> = options_in(&bytes).filter(|option| !is_read(option)).map(|option| option[0]).collect();
        assert_eq!(unread, [30]);
        assert!(is_read(&[174, 2]) && !is_read(&[173, 5, 0, 0, 0]));
        assert!(is_read(&[253, 4, 0x45, 0x4c]) && !is_read(&[253, 4, 0xf9, 0x89]) && !is_read(&[253, 2]));
    }
}

//! Link headers from the wire: whatever comes is read or refused, and what is read has one form only.
#![no_main]

use lasthop_wire::{decode_link, encode_link};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((headers, behind)) = decode_link(data) {
        let mut again = Vec::new();
        encode_link(&headers, &mut again);
        again.extend_from_slice(behind);
        assert_eq!(again, data);
    }
});

//! Tests link headers from the wire: any input is parsed or rejected, and parsed headers have a single encoding.
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

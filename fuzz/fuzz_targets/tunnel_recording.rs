//! Tests arbitrary recordings of the tunnel: the simulator's node decides on each, or it yields a one-line message.
#![no_main]

use std::io::Cursor;

use lasthop_tunneld::recording::reader::Recording;
use lasthop_tunneld::recording::replay::replay;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| match Recording::new("recording", Cursor::new(data)).and_then(replay) {
    Ok(comparison) => assert_eq!(comparison.differences.count == 0, comparison.differences.first.is_none()),
    Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
});

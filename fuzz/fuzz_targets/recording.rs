//! Tests arbitrary recordings of the gateway: each is replayed, or yields a one-line message.
#![no_main]

use std::io::Cursor;

use lasthop_gateway::engine::recording::reader::{Recording, RecordingError};
use lasthop_gateway::engine::recording::replay::{Comparison, replay, replay_element};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let open = || Recording::new("recording", Cursor::new(data));
    let said = |outcome: Result<Comparison, RecordingError>| match outcome {
        Ok(comparison) => {
            assert_eq!(comparison.differences.count == 0, comparison.differences.first.is_none());
            assert!(comparison.dropped + comparison.replaced <= comparison.packets);
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    };
    said(open().and_then(replay));
    said(open().and_then(replay_element));
});

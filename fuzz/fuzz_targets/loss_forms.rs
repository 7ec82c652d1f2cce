//! Tests arbitrary loss files (ping, fping, irtt, iperf3, tables, digits) and probe reports: each yields packets within
//! bounds, or a one-line message.
#![no_main]

use lasthop_fit::read::{Losses, reading};
use lasthop_proto::time::Duration;
use libfuzzer_sys::fuzz_target;

/// Maximum number of packets that are accepted.
const MOST: usize = 5000;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for interval in [None, Some(Duration::from_millis(20))] {
        match reading(&text, MOST, interval) {
            Ok(reading) => {
                for way in [Some(&reading.down), reading.up.as_ref()].into_iter().flatten() {
                    match &way.losses {
                        Losses::Packets(trace) => {
                            assert!(trace.packets().len() <= MOST);
                            assert!(trace.packets().is_sorted_by_key(|packet| packet.at));
                        }
                        Losses::Counts(counts) => assert!(counts.lost() <= counts.packets()),
                    }
                }
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    if let Err(error) = lasthop_fit::probe::read(&text) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});

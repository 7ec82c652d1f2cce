//! Transfers without loss in both directions at once: every preset, every recovery.

use crate::util::*;
use lasthop_proto::packet::Side;
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::{Preset, Recovery};

#[test]
fn a_megabyte_arrives_and_both_ends_close() {
    for preset in Preset::ALL {
        for recovery in Recovery::ALL {
            let mut pair = Pair::of(preset_with(preset, recovery))
                .with_time_per_byte(lasthop_proto::time::Duration::from_nanos(5000));
            pair.connect();
            pair.client().write(1 << 20);
            pair.client().close();
            pair.server().write(100_000);
            pair.server().close();
            pair.finish();
            assert_eq!(pair.server().received(), 1 << 20, "{preset:?} {recovery:?}");
            assert_eq!(pair.client().received(), 100_000, "{preset:?} {recovery:?}");
            assert_eq!(pair.states(), (State::Closed, State::Closed), "{preset:?} {recovery:?}");
            let again = pair.sent_by(Side::Initiator).filter(|sent| sent.cause.is_source_retransmission()).count();
            assert_eq!((pair.timeouts(), again), (0, 0), "{preset:?} {recovery:?}");
        }
    }
}

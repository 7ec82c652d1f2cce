//! Tests the split relay between two ends that send arbitrary packets.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, phase, steps, tcp_config, wait};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;
use libfuzzer_sys::fuzz_target;

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let (wired, wireless) = (Arc::new(tcp_config(u)?), Arc::new(tcp_config(u)?));
    let handover =
        if u.arbitrary()? { Handover::Moved } else { Handover::Shared(u32::from(u.arbitrary::<u16>()?) + 1) };
    let mut relay = SplitRelay::new(handover, wired, wireless, phase(u)?, Switch::On);
    let mut now = Instant::ZERO;
    let see = |output| {
        if let Output::Transmit(port, _, packet) = output {
            assert!(port == Port::WIRED || port == Port::WIRELESS, "{packet:?}");
        }
    };
    steps(u, 300, |u| {
        if u.ratio(1, 4)? {
            now = now + pause(u)?;
            wait(&mut relay, now, see);
        } else {
            let (port, packet) = passing(u)?;
            relay.handle_packet(now, port, packet);
            drain(&mut relay, now, see);
        }
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

//! Tests the snoop element with arbitrary packets: its memory stays bounded, and packets that it does not treat pass
//! unchanged.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps, wait};
use lasthop_proto::node::{Node, Output, Port, Why};
use lasthop_proto::packet::{Flags, Integrity, Packet};
use lasthop_proto::pep::snoop::{HopControl, RepairPriority, Snoop, SnoopConfig};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn config(u: &mut Unstructured<'_>) -> Result<SnoopConfig> {
    let detection = *u.choose(&[LocalDetection::DuplicateAcks, LocalDetection::Smart])?;
    let awareness = *u.choose(&[TcpAwareness::Aware, TcpAwareness::Unaware])?;
    let mut config = SnoopConfig::new(detection, awareness);
    config.priority = *u.choose(&[RepairPriority::Auto, RepairPriority::Urgent, RepairPriority::Normal])?;
    config.connections = u.int_in_range(0..=4)?;
    config.cache_bytes = u64::from(u.arbitrary::<u16>()?);
    config.dupack_threshold = u.int_in_range(0..=4)?;
    config.max_local_retries = u.int_in_range(0..=12)?;
    if u.arbitrary()? {
        config.hop = Some(HopControl { backlog: u.int_in_range(0..=30)?, held: u.arbitrary()? });
    }
    if u.ratio(1, 4)? {
        config.timer_min = Duration::from_nanos(u.arbitrary()?);
        config.timer_max = Duration::from_nanos(u.arbitrary()?);
    }
    Ok(config)
}

fn is_control(packet: &Packet) -> bool {
    packet.tcp().is_none_or(|tcp| {
        let flags = tcp.flags;
        flags.has(Flags::SYN) || flags.has(Flags::RST) || (flags.has(Flags::FIN) && packet.len == 0)
    })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = config(u)?;
    let mut snoop: Snoop<()> = Snoop::new(config.clone());
    let mut now = Instant::ZERO;
    let mut held = 0_u64;
    steps(u, 300, |u| {
        if u.ratio(1, 4)? {
            now = now + pause(u)?;
            wait(&mut snoop, now, |output| {
                if let Output::Transmit(_, why, packet) = output {
                    let due = matches!(why, Why::Repair(_) | Why::Released);
                    assert!(due, "a timer sent a packet that is neither a repair nor held: {why:?} {packet:?}");
                }
            });
        } else {
            let (port, packet) = passing(u)?;
            // An element has two ports.
            let port = if port == Port::WIRED { Port::WIRED } else { Port::WIRELESS };
            held += u64::from(packet.len);
            snoop.handle_packet(now, port, packet);
            let across = if port == Port::WIRED { Port::WIRELESS } else { Port::WIRED };
            let mut passed = false;
            drain(&mut snoop, now, |output| {
                passed |= matches!(output, Output::Transmit(to, _, out) if to == across && out == packet);
            });
            // With flow control, the window in the packet may differ.
            let fin = packet.tcp().is_some_and(|tcp| tcp.flags.has(Flags::FIN));
            let must_pass = (is_control(&packet) && (config.hop.is_none() || !fin))
                || packet.integrity != Integrity::Intact
                || config.awareness == TcpAwareness::Unaware;
            assert!(passed || !must_pass, "{packet:?} did not pass");
        }
        assert!(snoop.cached_bytes() <= config.cache_bytes && snoop.connections() <= config.connections);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

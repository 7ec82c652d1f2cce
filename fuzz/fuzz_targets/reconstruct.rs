//! Tests ACK reconstruction and the ACK-aware queue with arbitrary packets: every packet is forwarded or covered by a
//! later one, and nothing is acknowledged that the receiver did not acknowledge.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps};
use lasthop_proto::node::{Disposition, Node, Output, Port, Why};
use lasthop_proto::pep::reconstruct::{Reconstructor, ReconstructorConfig};
use lasthop_proto::queue::{AckAware, AckAwareConfig, QueueLimit, Queued, Sight};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;
use libfuzzer_sys::fuzz_target;

struct Item(u32);

impl Queued for Item {
    fn bytes(&self) -> u32 {
        40
    }
    fn flow(&self) -> u32 {
        self.0
    }
    fn mark(&mut self) -> bool {
        false
    }
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let spacing = u.ratio(7, 8)?.then(|| u.int_in_range(0..=9)).transpose()?;
    let config = ReconstructorConfig { spacing, connections: u.int_in_range(0..=4)? };
    let mut node: Reconstructor<()> = Reconstructor::new(config);
    let switch = |on| if on { Switch::On } else { Switch::Off };
    let limit = QueueLimit::Packets(u.int_in_range(0..=9)?);
    let mut queue =
        AckAware::new(AckAwareConfig { limit, filter: switch(u.arbitrary()?), first: switch(u.arbitrary()?) });
    let (mut came, mut gone) = (0, 0);
    let mut now = Instant::ZERO;
    // All acknowledgment numbers that came from the link.
    let mut numbers: Vec<Seq> = Vec::new();
    steps(u, 300, |u| {
        now = now + pause(u)?;
        let (port, packet) = passing(u)?;
        let mut dropped = Vec::new();
        queue.push(Item(packet.flow.0), Sight::of(&packet), &mut dropped);
        came += 1;
        gone += dropped.len();
        if u.ratio(1, 3)? {
            gone += usize::from(queue.pop().is_some());
        }
        assert_eq!(came, gone + queue.backlog().packets as usize);
        if let (Port::WIRELESS, Some(tcp)) = (port, packet.tcp()) {
            numbers.push(tcp.ack);
        }
        let disposition = node.handle_packet(now, port, packet);
        let mut given = 0;
        let mut check = |output| {
            if let Output::Transmit(to, why, out) = output {
                match why {
                    Why::Given => {
                        given += 1;
                        assert!(out == packet && to != port);
                    }
                    Why::Released | Why::LocalAck => {
                        assert_eq!(to, Port::WIRED);
                        let ack = out.tcp().expect("an acknowledgment").ack;
                        assert!(numbers.iter().any(|number| ack.le(*number)), "{ack} was never acknowledged");
                    }
                    Why::Repair(_) | Why::Control | Why::Own => panic!("{why:?}"),
                }
            }
        };
        drain(&mut node, now, &mut check);
        assert_eq!(given, usize::from(disposition == Disposition::Forwarded));
        assert!(node.connections() <= config.connections);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

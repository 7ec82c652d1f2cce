//! Congestion signals of inner packets: ECN field, the flags that count marks and the option that counts bytes.

use lasthop_proto::packet::{EcnCounters, Flags, Options, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Route, build_with_ecn, parse};

use super::*;

/// Segments with every ECN field, every count (RFC 9768 §3.2.2) and options of both kinds arrive with the same bytes,
/// although a tenth of the datagrams is lost and restored.
#[test]
fn counts_and_code_points_pass_unchanged() {
    let mut world = World::new(100_000);
    let route = Route { source: "10.0.0.1:5000".parse().unwrap(), destination: "10.0.1.1:80".parse().unwrap() };
    let sent: Vec<Vec<u8>> = (0..800_u32)
        .map(|number| {
            let flag = |bit: u32, flag: Flags| if number & bit != 0 { flag } else { Flags::default() };
            let count = flag(4, Flags::AE).with(flag(2, Flags::CWR)).with(flag(1, Flags::ECE));
            let values = [number, number << 8, 0xff_ffff - number];
            let kind = if number % 2 == 0 { 172 } else { 174 };
            let options = Options {
                timestamps: Some(Timestamps { val: number + 1, ecr: 7 }),
                ecn_counters: EcnCounters::new(kind, &values[..number as usize % 4]),
                ..Options::default()
            };
            let segment =
                Segment { seq: Seq(number * 500), ack: Seq(1), window: 500, flags: Flags::ACK.with(count), options };
            build_with_ecn(route, Ecn::from_bits((number / 8) as u8), &segment, &[number as u8; 500]).unwrap()
        })
        .collect();
    for packet in &sent {
        world.offer(0, packet.clone());
        world.run(2);
    }
    world.run(2_000);
    assert!(world.link(0).counters.repair.packets > 0);
    let signals = |packet: &Vec<u8>| {
        let view = parse(packet).unwrap();
        (view.segment.seq, view.ecn, view.segment.flags, view.segment.options.ecn_counters)
    };
    let arrived: Vec<_> = world.got[1].iter().map(signals).collect();
    assert_eq!(arrived, sent.iter().map(signals).collect::<Vec<_>>());
    assert!(world.got[1] == sent, "other bytes differ");
}

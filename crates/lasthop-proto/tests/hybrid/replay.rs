//! A VPN inside the hop: its receiver drops packets older than its replay window (RFC 4303 §3.4.3; 32 packets in
//! strongSwan).

use lasthop_proto::link::hybrid::Repair;
use lasthop_proto::packet::Packet;
use lasthop_proto::random::Root;
use lasthop_proto::time::Duration;

use super::link::{Link, config, datagram, millis, ms, segment};

const WINDOW: u32 = 32;

/// Returns the number of packets that an anti-replay window rejects: those that others overtook by the whole window.
fn replays(numbers: &[u32]) -> usize {
    let mut highest = 0;
    let mut is_old = |&number: &u32| {
        highest = number.max(highest);
        number + WINDOW <= highest
    };
    numbers.iter().filter(|number| is_old(number)).count()
}

/// Sends 20,000 packets at 80 % of the rate over a hop of 30 ms in each direction that loses `loss` in a million frames
/// in either direction. Returns how many arrived, and how many of them were too late for the window.
fn over(loss: u64, repair: Repair, packet: fn(u32, u32) -> Packet) -> (usize, usize) {
    let mut random = Root(7).stream("losses");
    let mut link =
        Link::new(config(repair), |_, _, _| if random.below(1_000_000) < loss { vec![] } else { vec![millis(30)] });
    for number in 0..20_000 {
        link.offer(0, packet(1, number));
        let next = link.now + Duration::from_micros(1_250);
        link.run_until(next);
    }
    link.run_until(ms(30_000));
    let numbers = link.numbers(1, 1);
    (numbers.len(), replays(&numbers))
}

/// Packets of a VPN keep their order, and none is dropped.
#[test]
fn a_vpn_takes_no_repaired_packet_for_a_replay() {
    for loss in [23_000, 100_000] {
        let (arrived, replays) = over(loss, Repair::Adaptive, segment);
        assert_eq!(replays, 0, "{loss}");
        assert!(arrived >= 19_995, "{loss}: {arrived}");
    }
}

/// Control: if passed on at once, retransmitted packets arrive some 50 packets late, for all 460 losses.
#[test]
fn without_order_it_would() {
    let (arrived, replays) = over(23_000, Repair::Repeat, datagram);
    assert!(arrived >= 19_900, "{arrived}");
    assert!(replays > 400, "{replays}");
}

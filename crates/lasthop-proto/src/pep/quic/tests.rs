//! Behaviour of the repair with a client that acknowledges as RFC 9000 says.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::rig::{BARE, FULL, MS, World, datagram};
use crate::node::Port;
use crate::packet::{Body, HeaderForm, Side};
use crate::time::Duration;

/// Spacing of full datagrams at 10 Mbps.
const SPACING: Duration = Duration::from_micros(1200);

/// Checks that all replies reached the sender once.
fn assert_all_replies_arrived(world: &World) {
    let numbers: Vec<u32> = world.replies.iter().map(|reply| reply.number).filter(|number| *number < 900_000).collect();
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "a reply arrived twice");
    assert_eq!(numbers.len() as u32, world.sent_back);
}

/// Runs a download in which the hop loses the transmissions `lost`.
fn download(rtt: Duration, lost: impl IntoIterator<Item = usize>, datagrams: u32) -> World {
    let mut world = World::new(rtt);
    world.lost = lost.into_iter().collect();
    world.send(0..datagrams, SPACING);
    world
}

#[test]
fn the_sender_learns_nothing_of_single_losses_on_hops_of_2_to_20_ms() {
    for millis in [2, 4, 10, 20] {
        // Far enough apart for a hold to end between two.
        let world = download(MS * millis, [60, 101, 150, 203, 260], 300);
        let counts = world.node.counts();
        assert_eq!(world.client.received.len(), 300, "{millis} ms: {counts:?}");
        assert_eq!(world.revealed(), 0, "{millis} ms: {counts:?} {:?}", world.replies);
        assert_eq!((counts.cases, counts.repaired), (5, 5), "{millis} ms");
    }
}

#[test]
fn a_burst_of_four_is_repaired_in_one_hold() {
    for start in [100, 101] {
        let world = download(MS * 20, start..start + 4, 300);
        let counts = world.node.counts();
        assert_eq!((world.revealed(), counts.repaired), (0, 1), "{counts:?}");
        assert_eq!(world.client.received.len(), 300);
        assert_all_replies_arrived(&world);
    }
}

#[test]
fn two_losses_within_a_round_trip_of_the_hop_are_repaired() {
    let world = download(MS * 10, [100, 104], 300);
    assert_eq!((world.revealed(), world.client.received.len()), (0, 300), "{:?}", world.node.counts());
}

#[test]
fn a_copy_that_is_lost_is_sent_again_on_a_short_hop() {
    // The first copy is the transmission after those under way.
    let mut world = download(MS * 4, [100], 200);
    let copy = world.transmissions.iter().enumerate().skip(101).find(|(_, number)| **number == 100);
    let index = copy.expect("a copy").0;
    world = download(MS * 4, [100, index], 200);
    assert_eq!((world.revealed(), world.client.received.len()), (0, 200), "{:?}", world.node.counts());
}

/// Checks that the device does not hide what a queue before it dropped.
#[test]
fn losses_before_the_device_reach_the_sender_within_the_limit() {
    let mut world = World::new(MS * 10);
    world.send(0..100, SPACING);
    let start = world.replies.len();
    // Number 100 never arrives. The acknowledgment of 101 returns a round trip later.
    let sent = world.now;
    world.send(101..160, SPACING);
    let shown = world.replies[start..].iter().find(|reply| reply.len > BARE).expect("the sender learns of it");
    assert!(world.node.counts().copies <= 16);
    assert!(shown.at.since(sent) <= MS * 10 + MS * 25, "{shown:?}");
    assert_all_replies_arrived(&world);
}

#[test]
fn a_connection_whose_beginning_was_not_seen_passes() {
    let mut world = World::new(MS * 10);
    world.node = super::QuicSnoop::new(super::QuicSnoopConfig::new(crate::rate::Rate(100_000_000)));
    world.lost = BTreeSet::from([60]);
    world.send(0..200, SPACING);
    assert_eq!((world.node.connections(), world.node.counts().held, world.node.cached_bytes()), (0, 0, 0));
    assert!(world.revealed() > 0);
}

/// Checks that window updates in datagrams of their own, which are shorter than acknowledgments, are not taken for the
/// level: the acknowledgments after them show no gap.
#[test]
fn window_updates_between_acknowledgments_open_no_case() {
    let mut world = World::new(MS * 2);
    for number in 0..2000_u32 {
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, FULL));
        world.now += SPACING;
        if number % 2 == 0 {
            world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, BARE));
        }
        if number % 100 == 50 {
            world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number + 1, BARE - 4));
        }
    }
    assert_eq!((world.node.counts().cases, world.node.counts().held), (0, 0));
}

#[test]
fn acknowledgments_of_constant_length_are_never_held() {
    let mut world = World::new(MS * 10);
    for number in 0..400 {
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, FULL));
        world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, 64));
        world.now += SPACING;
    }
    assert_eq!(world.node.counts().held, 0);
}

/// Checks that one acknowledgment for ten datagrams, which tells of losses too late, ends the repair for good.
#[test]
fn a_client_that_acknowledges_rarely_is_passed() {
    let mut world = World::new(MS * 10);
    for number in 0..1000_u32 {
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, FULL));
        world.now += SPACING;
        if number % 10 == 9 {
            world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, BARE));
        }
    }
    let before = world.node.counts();
    for number in 1000..1400_u32 {
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, FULL));
        world.now += SPACING;
        world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, BARE + 2 * (number % 2)));
    }
    assert_eq!(world.node.counts().held, before.held);
}

#[test]
fn uploads_are_neither_copied_back_nor_held() {
    let mut world = World::new(MS * 10);
    for number in 0..200 {
        world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, FULL));
        if number % 2 == 1 {
            world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, BARE + number % 5));
        }
        world.now += SPACING;
    }
    assert_eq!((world.node.counts().held, world.node.counts().copies), (0, 0));
}

/// Checks that a client that lengthens acknowledgments at will gets at most the budget in copies, then passes.
#[test]
fn lengths_without_meaning_switch_the_repair_off() {
    let mut world = World::new(MS * 2);
    let mut sent = 0;
    for number in 0..20_000_u32 {
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Short, number, FULL));
        sent += u64::from(FULL);
        world.now += SPACING;
        if number % 2 == 0 {
            // Two bytes more every fourth time, and never shorter until the next step.
            let len = BARE + 2 * (number / 8 % 16);
            world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Short, number, len));
        }
        world.node.counts();
    }
    let counts = world.node.counts();
    assert!(counts.copies * u64::from(FULL) * 10 <= sent, "{counts:?}");
    assert!(counts.held < 2_000, "{counts:?}");
}

#[test]
fn copies_of_an_idle_connection_are_discarded() {
    let mut world = download(MS * 10, [], 100);
    assert!(world.node.cached_bytes() > 100_000);
    world.now += MS * 3000;
    world.run();
    assert_eq!(world.node.cached_bytes(), 0);
}

#[test]
fn other_packets_pass() {
    let mut world = World::new(MS * 10);
    let mut packet = datagram(Side::Acceptor, HeaderForm::Short, 0, FULL);
    packet.body = Body::Datagram { number: 7 };
    world.pass(Port::WIRED, packet);
    assert_eq!(world.node.cached_bytes(), 0);
}

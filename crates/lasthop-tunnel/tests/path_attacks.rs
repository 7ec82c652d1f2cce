//! Attacks on a tunnel with two paths: replayed, spoofed, redirected and raced datagrams move no endpoint.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::common;
use crate::paths::{at, net, second};

use common::{Net, Sent, address, millis, secs};
use lasthop_proto::link::hybrid::{MOST_PATHS, PathId};
use lasthop_proto::time::Instant;
use lasthop_tunnel::wire::{self, HEADER, Kind, OVERHEAD};
use lasthop_tunnel::{Arrival, Drop, Origin, SocketId};
use proptest::prelude::*;

const PATHS: [PathId; 2] = [PathId::FIRST, PathId(1)];
/// Types of sealed datagrams.
const LINK: u8 = 4;
const CONTROL: u8 = 5;

fn attacker() -> SocketAddr {
    "203.0.113.66:666".parse().unwrap()
}

/// Returns a connected network, in which the second end has learned the address of each path.
fn connected() -> Net {
    let mut net = net(2);
    net.connect();
    for path in PATHS {
        assert!(net.send_on(0, path, b"up") && net.send_on(1, path, b"down"));
    }
    net.run(millis(500));
    assert_eq!(endpoints(&net), home());
    net
}

/// Returns the address at which each end sends on each path.
fn endpoints(net: &Net) -> [[Option<SocketAddr>; 2]; 2] {
    [0, 1].map(|end| PATHS.map(|path| at(net, end, path)))
}

/// Returns the true addresses.
fn home() -> [[Option<SocketAddr>; 2]; 2] {
    [[Some(address(1)); 2], [Some(address(0)), Some(second())]]
}

/// Returns what an end sends now.
fn answers(net: &mut Net, end: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    std::iter::from_fn(|| net.ends[end].tunnel.poll_transmit()).map(|sent| (sent.to, sent.bytes)).collect()
}

/// Returns the kind of a sealed datagram.
fn kind_of(bytes: &[u8]) -> Option<Kind> {
    let Some(wire::Datagram::Sealed(header)) = wire::parse(bytes) else { return None };
    Some(header.kind)
}

fn is_sealed(bytes: &[u8]) -> bool {
    kind_of(bytes).is_some()
}

/// Returns the datagram with another path in its header.
fn on_path(bytes: &[u8], path: u8) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[0] = changed[0] & 0x8f | path << 4;
    changed
}

/// Returns whether packets pass on each path in both directions.
fn works(net: &mut Net) -> bool {
    let before = net.ends.each_ref().map(|end| end.received_on.len());
    let sent = PATHS.iter().all(|path| net.send_on(0, *path, b"up") && net.send_on(1, *path, b"down"));
    net.run(millis(100));
    sent && net.ends.iter().zip(before).all(|(end, before)| {
        let paths: BTreeSet<PathId> = end.received_on[before..].iter().map(|(path, _)| *path).collect();
        paths == BTreeSet::from(PATHS)
    })
}

/// Everything that was ever sent, handshakes, challenges, answers and probes among it, from each address, to each end and
/// with each path's number.
#[test]
fn what_was_recorded_on_a_path_is_taken_nowhere_and_moves_nothing() {
    let mut net = connected();
    // Long enough for new keys.
    for number in 0..40 {
        for path in PATHS {
            assert!(net.send_on(0, path, &[number]) && net.send_on(1, path, &[number]));
        }
        net.run(secs(4));
    }
    let (log, now) = (net.log.clone(), net.now);
    let kinds: BTreeSet<u8> = log.iter().map(|sent| sent.bytes[0]).collect();
    assert!(kinds.len() >= 2 + 4 * 2, "two handshakes, and both kinds on both paths in both phases: {kinds:?}");
    let received = net.ends.each_ref().map(|end| end.received.len());
    for sent in &log {
        let paths = if is_sealed(&sent.bytes) { 0..MOST_PATHS } else { 0..1 };
        for path in paths {
            let bytes = if is_sealed(&sent.bytes) { on_path(&sent.bytes, path) } else { sent.bytes.clone() };
            for from in [address(0), address(1), second(), attacker()] {
                for end in 0..2 {
                    let arrival = net.ends[end].take(now, from, &bytes);
                    assert!(matches!(arrival, Arrival::Dropped(_)), "{arrival:?}, path {path}");
                }
            }
        }
    }
    for end in 0..2 {
        assert_eq!(answers(&mut net, end), vec![], "no answer");
    }
    assert_eq!(net.ends.each_ref().map(|end| end.received.len()), received);
    assert_eq!(endpoints(&net), home());
    assert!(works(&mut net));
}

/// An attacker that sees a path sends a copy of each packet from its own address, and each copy arrives first. Its
/// address gets challenges, and no more bytes than it has sent.
#[test]
fn copies_that_win_the_race_move_no_endpoint() {
    for path in PATHS {
        let mut net = connected();
        let true_address = home()[1][usize::from(path.0)].unwrap();
        let (mut came, mut went, mut challenges) = (0, 0, vec![]);
        for number in 0..200 {
            let now = net.now;
            let (_, bytes) = net.ends[0].seal_on(now, path, &[number]).unwrap();
            assert!(matches!(net.ends[1].take(now, attacker(), &bytes), Arrival::Link { .. }));
            assert_eq!(net.ends[1].take(now, true_address, &bytes), Arrival::Dropped(Drop::Replayed));
            came += bytes.len();
            for (to, bytes) in answers(&mut net, 1) {
                if to == attacker() {
                    went += bytes.len();
                    challenges.push(bytes);
                }
            }
            assert!(went <= came, "{went} bytes for {came}");
            net.run(millis(50));
        }
        assert_eq!(endpoints(&net), home());
        assert!((1..10).contains(&challenges.len()), "{}", challenges.len());
        // Passed on with the true source, the last one is answered, but not from the attacker's address.
        let now = net.now;
        let at = Origin { address: address(1), socket: SocketId(path.0) };
        assert_eq!(net.ends[0].take(now, at, challenges.last().unwrap()), Arrival::Taken);
        let (to, answer) = answers(&mut net, 0).pop().unwrap();
        assert!(to == address(1) && kind_of(&answer) == Some(Kind::Control));
        assert_eq!(net.ends[1].take(now, true_address, &answer), Arrival::Taken);
        assert_eq!(endpoints(&net), home());
        assert!(works(&mut net));
    }
}

/// A packet that was held back and arrives later from elsewhere, after others of its path, is delivered, and that is all.
#[test]
fn a_delayed_packet_from_elsewhere_draws_no_challenge() {
    let mut net = connected();
    for path in PATHS {
        let now = net.now;
        let (_, held) = net.ends[0].seal_on(now, path, b"held back").unwrap();
        assert!(works(&mut net));
        let now = net.now;
        assert!(matches!(net.ends[1].take(now, attacker(), &held), Arrival::Link { .. }));
        assert_eq!(answers(&mut net, 1), vec![]);
        // The other path's address is no more trusted.
        let other = home()[1][usize::from(1 - path.0)].unwrap();
        assert_eq!(net.ends[1].take(now, other, &held), Arrival::Dropped(Drop::Replayed));
    }
    net.run(secs(5));
    assert_eq!(endpoints(&net), home());
}

/// Action on a datagram in flight.
#[derive(Clone, Debug)]
enum Act {
    Pass,
    Lose,
    Delay(u16),
    /// A copy from another address arrives earlier or later, by this many milliseconds.
    Copy(usize, i8),
    /// The datagram itself comes from another address.
    Spoof(usize),
    /// The datagram has the number of another path.
    OtherPath(u8),
    /// The datagram goes to the other end or socket.
    Redirect(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::Pass),
        1 => Just(Act::Lose),
        2 => (0..3_000_u16).prop_map(Act::Delay),
        2 => (0..4_usize, -20..20_i8).prop_map(|(from, by)| Act::Copy(from, by)),
        1 => (0..4_usize).prop_map(Act::Spoof),
        1 => (0..MOST_PATHS).prop_map(Act::OtherPath),
        1 => (0..3_usize).prop_map(Act::Redirect),
    ]
}

/// Returns the true addresses, and the attacker's.
fn places() -> [SocketAddr; 4] {
    [address(0), second(), address(1), attacker()]
}

/// Does to each datagram in flight what `acts` say, in turn.
fn attack(net: &mut Net, acts: &mut impl Iterator<Item = Act>) {
    let mut copies: Vec<Sent> = Vec::new();
    net.underway.retain_mut(|sent| match acts.next().unwrap_or(Act::Pass) {
        Act::Pass => true,
        Act::Lose => false,
        Act::Delay(more) => {
            sent.at += millis(more.into());
            true
        }
        Act::Copy(from, by) => {
            let at = Instant::from_nanos(sent.at.as_nanos().saturating_add_signed(i64::from(by) * 1_000_000));
            copies.push(Sent { at, from: places()[from], ..sent.clone() });
            true
        }
        Act::Spoof(from) => {
            sent.from = places()[from];
            true
        }
        Act::OtherPath(path) => {
            if is_sealed(&sent.bytes) {
                sent.bytes = on_path(&sent.bytes, path);
            }
            true
        }
        Act::Redirect(to) => {
            sent.to = places()[to];
            true
        }
    });
    net.underway.extend(copies);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Arbitrary attacks by someone who cannot receive at the ends' addresses: each packet arrives at most once, on the
    /// path on which it was sent, and no endpoint becomes the attacker's.
    #[test]
    fn no_attack_from_elsewhere_moves_an_endpoint(
        acts in proptest::collection::vec(act(), 1..80),
        steps in proptest::collection::vec((0..2_usize, 0..2_usize, 1..4_000_u64), 20..80),
    ) {
        let mut net = connected();
        let (mut acts, start) = (acts.into_iter().cycle(), net.log.len());
        let mut sent: [BTreeSet<(PathId, u64)>; 2] = Default::default();
        net.ends.iter_mut().for_each(|end| end.received_on.clear());
        for (who, path, pause) in steps {
            let path = PATHS[path];
            if net.send_on(who, path, b"text") {
                sent[who].insert((path, net.ends[who].numbers[usize::from(path.0)] - 1));
            }
            attack(&mut net, &mut acts);
            net.run(millis(pause));
            for (end, true_ones) in endpoints(&net).into_iter().zip(home()) {
                for (address, of_path) in end.into_iter().zip(true_ones) {
                    prop_assert_ne!(address, Some(attacker()));
                    prop_assert!(address.is_some(), "{:?}", of_path);
                }
            }
        }
        for end in 0..2 {
            let received = &net.ends[end].received_on;
            let once: BTreeSet<_> = received.iter().copied().collect();
            prop_assert_eq!(once.len(), received.len(), "once");
            prop_assert!(once.is_subset(&sent[1 - end]), "on its path");
        }
        let of_attacker = |of: fn(&Sent) -> SocketAddr| net.log[start..].iter().filter(move |sent| of(sent) == attacker());
        prop_assert_eq!(of_attacker(|sent| sent.from).count(), 0);
        // Only challenges, and answers to copied ones, go to the attacker.
        prop_assert!(of_attacker(|sent| sent.to).all(|sent| sent.bytes[0] & 0x0f != LINK));
        // Without the attacker all paths work, at the true addresses.
        net.underway.clear();
        for _ in 0..40 {
            for path in PATHS {
                net.send_on(0, path, b"peace");
                net.send_on(1, path, b"peace");
            }
            net.run(millis(250));
        }
        prop_assert_eq!(endpoints(&net), home());
        prop_assert!(works(&mut net));
    }

    /// Datagrams with the session's index and random contents, on any path: none is taken, and none is answered.
    #[test]
    fn forgeries_with_the_index_of_a_session_change_nothing(
        kind in prop::sample::select(&[LINK, CONTROL][..]), path in 0..MOST_PATHS, phase in 0..2_u8, low in any::<u32>(),
        from in 0..4_usize, rest in proptest::collection::vec(any::<u8>(), OVERHEAD - HEADER..100),
    ) {
        let mut net = connected();
        let seen = net.log.iter().rfind(|sent| sent.to == address(1) && is_sealed(&sent.bytes)).unwrap();
        let mut forged = vec![kind | path << 4 | phase << 7];
        forged.extend_from_slice(&seen.bytes[1..4]);
        forged.extend_from_slice(&low.to_be_bytes());
        forged.extend_from_slice(&rest);
        let now = net.now;
        prop_assert!(matches!(net.ends[1].take(now, places()[from], &forged), Arrival::Dropped(_)));
        prop_assert_eq!(answers(&mut net, 1), vec![]);
        prop_assert_eq!(endpoints(&net), home());
        prop_assert!(works(&mut net));
    }
}

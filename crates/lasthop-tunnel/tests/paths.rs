//! Several paths between two ends: the first end has a socket for each path, the second one socket for all.

use std::net::SocketAddr;

use crate::common;

use common::{Fate, Net, address, end, millis, secs};
use lasthop_proto::link::hybrid::{PathId, Terms, Tier};
use lasthop_tunnel::{Arrival, Drop, Event, PathConfig, PeerConfig, SocketId, Start};

const FIRST: PathId = PathId::FIRST;
const SECOND: PathId = PathId(1);

/// Returns the address of the first end's second socket.
pub fn second() -> SocketAddr {
    "203.0.113.1:6000".parse().unwrap()
}

/// Returns two ends; the first one calls, on as many paths as it has, and the second one has `others` paths.
pub fn net(others: usize) -> Net {
    let mut net = Net::with(|which, peer| configure(which, peer, others));
    net.ends[0].others = vec![second()];
    net
}

fn configure(which: usize, peer: &mut PeerConfig, others: usize) {
    let calls = |socket: u8| PathConfig { endpoint: Some(address(1)), socket: SocketId(socket) };
    peer.paths = if which == 0 { vec![calls(0), calls(1)] } else { vec![PathConfig::default(); others] };
    peer.keepalive = (which == 0).then_some(secs(10));
}

fn paths_of(net: &Net, which: usize) -> u8 {
    let mut ups = net.ends[which].events.iter().filter_map(|event| match event {
        Event::Up { paths, .. } => Some(*paths),
        _ => None,
    });
    ups.next_back().unwrap()
}

/// Returns the address at which an end sends on a path.
pub fn at(net: &Net, which: usize, path: PathId) -> Option<SocketAddr> {
    net.ends[which].tunnel.address(net.ends[which].peer, path)
}

#[test]
fn the_called_end_learns_the_address_of_each_path_by_a_challenge() {
    let mut net = net(2);
    net.connect();
    assert_eq!([paths_of(&net, 0), paths_of(&net, 1)], [2, 2]);
    assert_eq!([at(&net, 0, FIRST), at(&net, 0, SECOND)], [Some(address(1)), Some(address(1))]);
    assert_eq!([at(&net, 1, FIRST), at(&net, 1, SECOND)], [Some(address(0)), Some(second())]);
    for path in [FIRST, SECOND] {
        assert!(net.send_on(0, path, b"up") && net.send_on(1, path, b"down"));
    }
    net.run(millis(100));
    // Each path numbers its packets from 0; `connect` sent number 0 on the first one.
    for end in &net.ends {
        assert_eq!(end.received_on.iter().filter(|(path, _)| *path == SECOND).count(), 1);
    }
    assert!(net.ends[0].received_on.contains(&(FIRST, 0)) && net.ends[0].received_on.contains(&(SECOND, 0)));
}

#[test]
fn a_session_has_the_paths_that_both_ends_have() {
    let mut net = net(1);
    net.connect();
    assert_eq!([paths_of(&net, 0), paths_of(&net, 1)], [1, 1]);
    assert!(!net.send_on(0, SECOND, b"nothing"));
    assert!(net.send(0, b"something"));
    net.run(millis(100));
    assert!(net.ends[1].received.iter().any(|(_, text)| text == b"something"));
    assert!(net.log.iter().all(|sent| sent.from != second()));
}

#[test]
fn a_dead_first_path_delays_the_handshake_by_one_retry() {
    let mut net = net(2);
    net.fate =
        Box::new(|sent| if sent.from == address(0) || sent.to == address(0) { Fate::Lost } else { Fate::Arrives });
    net.run(millis(1_000));
    assert!(net.is_up(0) && net.is_up(1));
    assert_eq!(at(&net, 1, SECOND), Some(second()));
    assert!(net.send_on(1, SECOND, b"down"));
}

#[test]
fn a_replayed_packet_moves_no_path_and_a_packet_belongs_to_its_path() {
    let mut net = net(2);
    net.connect();
    let elsewhere: SocketAddr = "203.0.113.66:1".parse().unwrap();
    let now = net.now;
    let (_, bytes) = net.ends[0].seal_on(now, SECOND, b"copied").unwrap();
    let mut on_first = bytes.clone();
    on_first[0] &= 0x8f;
    assert_eq!(net.ends[1].take(now, address(0), &on_first), Arrival::Dropped(Drop::Damaged));
    assert!(matches!(net.ends[1].take(now, second(), &bytes), Arrival::Link { path: SECOND, .. }));
    for from in [elsewhere, address(0), second()] {
        assert_eq!(net.ends[1].take(now, from, &bytes), Arrival::Dropped(Drop::Replayed));
    }
    net.run(secs(1));
    assert_eq!([at(&net, 1, FIRST), at(&net, 1, SECOND)], [Some(address(0)), Some(second())]);
    assert!(net.log.iter().all(|sent| sent.to != elsewhere));
}

#[test]
fn one_path_moves_and_the_other_stays() {
    let mut net = net(2);
    net.connect();
    let moved: SocketAddr = "203.0.113.9:7777".parse().unwrap();
    net.ends[0].others[0] = moved;
    net.send_on(0, SECOND, b"from elsewhere");
    net.run(millis(100));
    assert_eq!([at(&net, 1, FIRST), at(&net, 1, SECOND)], [Some(address(0)), Some(moved)]);
    let told =
        net.ends[1].events.iter().filter(|event| matches!(event, Event::Path { address, .. } if *address == moved));
    assert_eq!(told.count(), 1);
}

/// Truncated numbers are restored by what arrived on the same path, across changes of keys, even if one path carries
/// more than 2^32 packets while the other carries none.
#[test]
fn paths_may_differ_by_more_packets_than_a_header_can_tell() {
    let mut net = net(2);
    net.connect();
    assert!(net.send_on(0, SECOND, b"two"));
    net.run(millis(100));
    for _ in 0..8 {
        // One packet after each third of the range of the header.
        net.ends[0].numbers[0] += u64::from(u32::MAX / 3);
        assert!(net.send(0, b"one"));
        net.run(secs(60));
    }
    let rekeyed = |event: &&Event| matches!(event, Event::Up { start: Start::Rekeyed, .. });
    assert!(net.ends[1].events.iter().filter(rekeyed).count() >= 2);
    assert!(net.ends[0].numbers[0] > 1 << 33);
    assert!(net.send(0, b"one") && net.send_on(0, SECOND, b"two"));
    net.run(millis(100));
    let [one, two] = [net.ends[0].numbers[0] - 1, net.ends[0].numbers[1] - 1];
    assert_eq!(net.ends[1].received_on[net.ends[1].received_on.len() - 2..], [(FIRST, one), (SECOND, two)]);
}

/// A restarted end, which knows nothing of earlier numbers, restores them by the hello.
#[test]
fn a_restarted_end_hears_all_paths() {
    let mut net = net(2);
    net.connect();
    net.ends[0].numbers = [1 << 40; 8];
    net.send(0, b"one");
    net.run(millis(100));
    net.ends[1] = end(1, net.now, 99, |peer| configure(1, peer, 2));
    // The link of the end that goes on starts all paths at its largest number.
    net.ends[0].numbers = [net.ends[0].numbers[0]; 8];
    let (now, peer) = (net.now, net.ends[0].peer);
    net.ends[0].tunnel.call(now, peer);
    net.run(secs(2));
    assert!(net.is_up(0) && net.is_up(1));
    for path in [FIRST, SECOND] {
        assert!(net.send_on(0, path, b"again"));
    }
    net.run(millis(100));
    assert_eq!(net.ends[1].received_on, [(FIRST, (1 << 40) + 1), (SECOND, (1 << 40) + 1)]);
}

fn terms_at(net: &Net, which: usize) -> Vec<(PathId, Terms)> {
    let told = net.ends[which].events.iter().filter_map(|event| match event {
        Event::Terms { path, terms, .. } => Some((*path, *terms)),
        _ => None,
    });
    told.collect()
}

/// The path that is switched off is the only one that works.
#[test]
fn the_other_end_learns_the_terms_of_a_path_although_datagrams_are_lost() {
    let mut net = net(2);
    net.connect();
    let mut sent = 0;
    net.fate = Box::new(move |datagram| {
        let is_second = datagram.from == second() || datagram.to == second();
        sent += 1;
        if is_second && sent % 3 == 0 { Fate::Arrives } else { Fate::Lost }
    });
    let (id, now) = (net.ends[0].peer, net.now);
    net.ends[0].tunnel.announce(now, id, SECOND, Terms::of(Tier::Off));
    net.run(secs(9));
    let told = terms_at(&net, 1);
    assert!(!told.is_empty() && told.iter().all(|told| *told == (SECOND, Terms::of(Tier::Off))), "{told:?}");
    assert_eq!(terms_at(&net, 0), []);
}

/// With `keepalive` of 10 s, a backup sends one every 30 s at least, and a path that is off none.
#[test]
fn a_path_that_stands_by_is_kept_alive_at_low_cost() {
    for (tier, least, most) in [(Tier::Primary, 5, 7), (Tier::Backup, 2, 3), (Tier::Off, 0, 0)] {
        let mut net = net(2);
        net.connect();
        let (id, now) = (net.ends[0].peer, net.now);
        net.ends[0].tunnel.announce(now, id, SECOND, Terms::of(tier));
        net.run(secs(5));
        let before = net.log.len();
        net.run(secs(60));
        let kept = net.log[before..].iter().filter(|sent| sent.from == second()).count();
        assert!((least..=most).contains(&kept), "{tier:?}: {kept}");
    }
}

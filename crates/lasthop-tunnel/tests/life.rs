//! Life of a session: start, rekeying, change of address, restart, end.

use crate::common;

use common::{Fate, Net, address, millis, secs};
use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::Duration;
use lasthop_tunnel::{
    Arrival, Capabilities, Credentials, Drop, Event, PathConfig, PeerConfig, PresharedKey, PublicKey, Start, Tunnel,
    TunnelConfig, Unsealed,
};

const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE: u8 = 3;

#[test]
fn the_first_packet_begins_a_session_and_the_next_goes() {
    let mut net = Net::new();
    assert!(!net.send(0, b"begins it"));
    assert_eq!(net.ends[0].seal(net.now, b"waits"), Err(Unsealed::Session));
    net.run(millis(59));
    assert!(!net.is_up(0));
    net.run(millis(1));
    assert!(net.is_up(0) && !net.is_up(1), "the responder waits for a sign that the initiator has the keys");
    net.run(millis(30));
    assert!(net.is_up(1));
    for end in [0, 1] {
        assert!(net.send(end, b"data"));
    }
    net.run(millis(30));
    for end in [0, 1] {
        assert_eq!(net.ends[end].received, [(0, b"data".to_vec())]);
        let peer = net.ends[end].peer;
        let up = Event::Up { peer, capabilities: Capabilities(0b10), paths: 1, start: Start::Fresh };
        assert!(net.ends[end].events.contains(&up), "{:?}", net.ends[end].events);
    }
    assert_eq!((net.count(INITIATION), net.count(RESPONSE), net.count(COOKIE)), (1, 1, 0));
}

#[test]
fn a_lost_handshake_is_repeated_and_given_up_after_90_seconds() {
    let mut net = Net::new();
    net.fate = Box::new(|_| Fate::Lost);
    let start = net.now;
    net.send(0, b"");
    net.run(secs(200));
    let times: Vec<_> = net.log.iter().map(|sent| sent.at.since(start)).collect();
    // Short pauses at first: one initiation may be lost, or the other end may be restarting.
    let pauses = [millis(500), secs(1), secs(2)].into_iter().chain(std::iter::repeat(secs(5)));
    for (pair, pause) in times.windows(2).zip(pauses) {
        let gap = pair[1].saturating_sub(pair[0]);
        assert!(gap >= pause && gap <= pause + millis(333), "{gap:?}");
    }
    assert!((19..=22).contains(&times.len()), "{}", times.len());
    let peer = net.ends[0].peer;
    assert_eq!(net.ends[0].events, [Event::Unreachable { peer }]);
    assert_eq!(net.ends[0].tunnel.poll_deadline(), None);
    // Data to send starts another handshake.
    net.fate = Box::new(|_| Fate::Arrives);
    net.send(0, b"");
    net.run(secs(1));
    assert!(net.is_up(0) && net.is_up(1));
}

#[test]
fn keys_change_after_two_minutes_and_nothing_is_lost() {
    let mut net = Net::new();
    // Up to 60 ms of jitter: packets with old and new keys are reordered.
    let mut count = 0;
    net.fate = Box::new(move |_| {
        count += 1;
        Fate::ArrivesAfter(millis(count * 37 % 60))
    });
    net.connect();
    let [mut sent, mut refused] = [[0; 2], [0; 2]];
    for _ in 0..100_000 {
        for end in 0..2 {
            if net.send(end, &[end as u8]) { sent[end] += 1 } else { refused[end] += 1 }
        }
        net.run(millis(10));
    }
    net.run(secs(1));
    assert_eq!(refused, [0, 0]);
    for (end, sent) in sent.into_iter().enumerate() {
        let mut numbers: Vec<u64> = net.ends[1 - end].received.iter().map(|(number, _)| *number).collect();
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..sent), "all of them, once");
        let started =
            net.ends[end].events.iter().filter(|event| matches!(event, Event::Up { start: Start::Fresh, .. }));
        assert_eq!(started.count(), 1);
        let rekeyed =
            net.ends[end].events.iter().filter(|event| matches!(event, Event::Up { start: Start::Rekeyed, .. }));
        // 1,000 s: every 120 s.
        assert_eq!(rekeyed.count(), 8);
    }
    // Both phases occur.
    assert!(net.log.iter().any(|sent| sent.bytes[0] == 0x84) && net.log.iter().any(|sent| sent.bytes[0] == 4));
}

#[test]
fn both_ends_may_begin_at_once() {
    let mut net = Net::new();
    for end in 0..2 {
        net.send(end, b"");
    }
    net.run(secs(1));
    for number in 0..50 {
        for end in 0..2 {
            assert!(net.send(end, &[number]));
        }
        net.run(millis(5));
    }
    net.run(secs(1));
    assert!(net.ends.iter().all(|end| end.received.len() == 50));
}

#[test]
fn without_traffic_the_session_ends_after_three_minutes() {
    let mut net = Net::new();
    net.connect();
    net.run(secs(178));
    assert!(net.is_up(0));
    net.run(secs(2));
    assert!(!net.is_up(0) && !net.is_up(1));
    let peer = net.ends[0].peer;
    assert!(net.ends[0].events.contains(&Event::Down { peer }));
    assert!(net.ends.iter().all(|end| end.tunnel.poll_deadline().is_none()), "silence");
}

#[test]
fn data_is_answered_by_a_sign_of_life_within_ten_seconds() {
    let mut net = Net::new();
    net.connect();
    net.run(secs(20));
    let before = net.log.len();
    net.send(0, b"data");
    net.run(secs(60));
    assert_eq!(net.log.len(), before + 2, "the data and one keep-alive; keep-alives are not answered");
    assert_eq!(net.log[before + 1].at.since(net.log[before].at), secs(10) + common::DELAY);
}

#[test]
fn a_persistent_keepalive_keeps_a_session_for_ever() {
    let mut net = Net::with(|end, peer| peer.keepalive = (end == 0).then(|| secs(10)));
    net.run(secs(2_000));
    assert!(net.is_up(0) && net.is_up(1));
    // It started without data.
    assert_eq!(net.log[0].bytes[0], INITIATION);
    let silences = net.log.windows(2).map(|pair| pair[1].at.since(pair[0].at)).max();
    assert!(silences <= Some(secs(11)), "{silences:?}");
}

#[test]
fn a_cut_of_the_path_is_noticed_and_the_session_begun_anew() {
    let mut net = Net::new();
    net.connect();
    net.fate = Box::new(|_| Fate::Lost);
    for _ in 0..60 {
        net.send(0, b"lost");
        net.run(secs(1));
    }
    assert!(net.count(INITIATION) > 5, "tried again");
    net.fate = Box::new(|_| Fate::Arrives);
    let mut received = 0;
    for _ in 0..60 {
        received = net.ends[1].received.len();
        net.send(0, b"data");
        net.run(millis(100));
    }
    assert!(net.ends[1].received.len() > received);
}

#[test]
fn a_restarted_end_is_met_again() {
    for restarted in 0..2 {
        let mut net = Net::new();
        net.connect();
        net.run(secs(20));
        net.restart(restarted, 99);
        // Both ends send data.
        for _ in 0..40 {
            for end in 0..2 {
                net.send(end, b"x");
            }
            net.run(secs(1));
        }
        for end in 0..2 {
            assert!(net.ends[end].received.len() > 15, "end {end}: {}", net.ends[end].received.len());
        }
        let ups = net.ends[1 - restarted].events.iter().filter(|event| matches!(event, Event::Up { .. }));
        let starts: Vec<_> = ups.map(|event| matches!(event, Event::Up { start: Start::Fresh, .. })).collect();
        assert_eq!(starts, [true, true]);
    }
}

#[test]
fn whoever_closes_is_believed_at_once() {
    let mut net = Net::new();
    net.connect();
    let (now, peer) = (net.now, net.ends[0].peer);
    net.ends[0].tunnel.close(now, peer);
    net.run(secs(1));
    assert!(!net.is_up(0) && !net.is_up(1));
    assert!(net.ends[1].events.contains(&Event::Down { peer }));
    net.send(1, b"");
    net.run(secs(6));
    assert!(net.is_up(0) && net.is_up(1));
}

#[test]
fn a_changed_address_is_challenged_and_then_taken() {
    let mut net = Net::new();
    net.connect();
    let moved: std::net::SocketAddr = "203.0.113.9:7777".parse().unwrap();
    net.ends[0].address = moved;
    let start = net.now;
    let peer = net.ends[1].peer;
    for number in 0..40 {
        net.send(0, &[number]);
        net.send(1, &[number]);
        net.run(millis(5));
        if net.ends[1].tunnel.address(peer, PathId::FIRST) == Some(moved) {
            break;
        }
    }
    // One-way delay for the packet, a round trip for the challenge.
    assert!(net.now.since(start) <= millis(3 * 30 + 10));
    assert!(net.ends[1].events.contains(&Event::Path { peer, path: PathId::FIRST, address: moved, size: 1200 }));
    let received = net.ends[0].received.len();
    net.send(1, b"there");
    net.run(secs(1));
    assert_eq!(net.ends[0].received.len(), received + 1);
}

#[test]
fn a_copied_packet_from_elsewhere_moves_nobody() {
    let mut net = Net::new();
    net.connect();
    let elsewhere: std::net::SocketAddr = "203.0.113.66:1".parse().unwrap();
    // The copy overtakes the original, and is the newest.
    let (_, bytes) = net.ends[0].seal(net.now, b"copied").unwrap();
    let now = net.now;
    net.ends[1].take(now, elsewhere, &bytes);
    net.drain();
    let (asked, answered): (usize, usize) =
        (bytes.len(), net.log.iter().filter(|s| s.to == elsewhere).map(|s| s.bytes.len()).sum());
    assert!(answered <= asked, "{answered} bytes for {asked}");
    net.run(secs(5));
    let peer = net.ends[1].peer;
    assert_eq!(net.ends[1].tunnel.address(peer, PathId::FIRST), Some(address(0)));
    assert!(net.send(1, b"still there"));
}

#[test]
fn a_clock_that_was_set_back_delays_a_restarted_end_by_a_round_trip() {
    let mut net = Net::new();
    net.connect();
    net.restart(0, 99);
    // A clock without a battery: 1970.
    net.ends[0].wall = 0u64.wrapping_sub(net.now.as_nanos());
    net.send(0, b"");
    net.run(millis(200));
    let peer = net.ends[0].peer;
    assert!(net.ends[0].events.contains(&Event::ClockBehind { peer }));
    assert!(net.is_up(0) && net.is_up(1));
}

#[test]
fn steps_of_the_time_of_day_disturb_no_session() {
    let mut net = Net::new();
    net.connect();
    for step in 0..20_u64 {
        let end = &mut net.ends[(step % 2) as usize];
        end.wall = if step.is_multiple_of(3) { end.wall.wrapping_sub(1 << 58) } else { end.wall.wrapping_add(1 << 55) };
        for _ in 0..50 {
            assert!(net.send(0, b"a") && net.send(1, b"b"));
            net.run(secs(1));
        }
    }
    assert!(net.ends.iter().all(|end| end.received.len() == 1_000));
}

#[test]
fn the_paths_mtu_is_found_and_told() {
    let mut net = Net::new();
    net.fate = Box::new(|sent| if sent.bytes.len() > 1_404 { Fate::Lost } else { Fate::Arrives });
    net.connect();
    for _ in 0..60 {
        net.send(0, b"x");
        net.run(secs(1));
    }
    for end in 0..2 {
        let size = net.ends[end].tunnel.size(net.ends[end].peer, PathId::FIRST).unwrap();
        assert!((1_401..=1_404).contains(&size), "{size}");
        let peer = net.ends[end].peer;
        assert_eq!(
            net.ends[end].events.iter().rfind(|event| matches!(event, Event::Size { .. })),
            Some(&Event::Size { peer, path: PathId::FIRST, size })
        );
    }
}

#[test]
fn a_lowered_mtu_is_found_by_what_is_lost() {
    let mut net = Net::new();
    net.connect();
    let peer = net.ends[0].peer;
    assert_eq!(net.ends[0].tunnel.size(peer, PathId::FIRST), Some(1_472));
    net.fate = Box::new(|sent| if sent.bytes.len() > 1_300 { Fate::Lost } else { Fate::Arrives });
    for _ in 0..30 {
        let now = net.now;
        net.ends[0].tunnel.lost(now, peer, PathId::FIRST, 1_472);
        net.ends[0].tunnel.acknowledged(peer, PathId::FIRST, 200);
        net.run(millis(20));
    }
    assert!(net.ends[0].tunnel.size(peer, PathId::FIRST) <= Some(1_200));
    for _ in 0..60 {
        net.send(0, b"x");
        net.run(secs(1));
    }
    let size = net.ends[0].tunnel.size(peer, PathId::FIRST).unwrap();
    assert!((1_297..=1_300).contains(&size), "{size}");
}

#[test]
fn no_number_is_sealed_twice() {
    let mut net = Net::new();
    net.connect();
    net.send(0, b"one");
    net.ends[0].numbers[0] -= 1;
    assert_eq!(net.ends[0].seal(net.now, b"two"), Err(Unsealed::Number));
    let (now, peer) = (net.now, net.ends[0].peer);
    assert_eq!(net.ends[0].tunnel.seal(now, peer, PathId::FIRST, 7, &mut [0; 23]), Err(Unsealed::Short));
    // Gaps are allowed.
    net.ends[0].numbers[0] += 1_000;
    assert!(net.send(0, b"three"));
    net.run(secs(1));
    assert_eq!(net.ends[1].received.last(), Some(&(1_000 + net.ends[0].numbers[0] - 1_001, b"three".to_vec())));
}

#[test]
fn a_removed_peer_is_a_stranger() {
    let mut net = Net::new();
    net.connect();
    let (now, peer) = (net.now, net.ends[1].peer);
    net.ends[1].tunnel.remove_peer(now, peer);
    let (_, bytes) = net.ends[0].seal(now, b"late").unwrap();
    assert_eq!(net.ends[1].take(now, address(0), &bytes), Arrival::Dropped(Drop::Index));
    net.run(secs(1));
    let sent = net.log.len();
    net.send(0, b"");
    net.run(Duration::from_secs(20));
    assert!(net.log[sent..].iter().all(|sent| sent.from == address(0)), "nobody answers");
    assert_eq!(net.ends[1].tunnel.route("10.0.0.7".parse().unwrap()), None);
}

#[test]
fn on_a_trusted_network_names_do_for_keys() {
    let mut net = Net::new();
    for which in 0..2 {
        let names = ["ship", "shore"];
        let config = TunnelConfig {
            credentials: Credentials::Name(names[which].to_owned()),
            capabilities: Capabilities(1),
            carrier: lasthop_tunnel::Carrier::Udp,
            link_mtu: 1420,
        };
        let mut tunnel = Tunnel::new(config, [which as u8; 32], net.now);
        let peer = PeerConfig {
            key: PublicKey::of_name(names[1 - which]),
            preshared: PresharedKey::default(),
            paths: vec![PathConfig::to(Some(address(1 - which)))],
            allowed: vec![],
            keepalive: None,
        };
        net.ends[which].peer = tunnel.add_peer(net.now, peer).unwrap();
        net.ends[which].tunnel = tunnel;
    }
    net.connect();
    for _ in 0..100 {
        assert!(net.send(0, b"as it is") && net.send(1, b"back"));
        net.run(secs(5));
    }
    assert!(net.ends.iter().all(|end| end.received.len() == 100));
    // It is readable on the path; replays are dropped nevertheless.
    let sent = net.log.iter().rfind(|sent| sent.bytes.windows(8).any(|part| part == b"as it is")).unwrap().clone();
    let now = net.now;
    assert_eq!(net.ends[1].take(now, sent.from, &sent.bytes), Arrival::Dropped(Drop::Replayed));
    // An end with keys cannot connect to it.
    let mut sealed = common::end(0, net.now, 3, |peer| peer.key = PublicKey::of_name("shore"));
    let (now, peer) = (net.now, sealed.peer);
    let _ = sealed.tunnel.seal(now, peer, PathId::FIRST, 0, &mut [0; 24]);
    sealed.tunnel.handle_timeout(now, 1 << 60);
    while let Some(transmit) = sealed.tunnel.poll_transmit() {
        assert!(matches!(net.ends[1].take(now, address(0), &transmit.bytes), Arrival::Dropped(_)));
    }
}

//! Attacks: replays, reflections, truncations, forgeries, floods.

use crate::common;

use std::net::SocketAddr;

use common::{Net, address, end, key, millis, secs};
use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::Duration;
use lasthop_tunnel::wire::{INITIATION, OVERHEAD, RESPONSE};
use lasthop_tunnel::{
    Arrival, Capabilities, Carrier, Credentials, Drop, PathConfig, PeerConfig, PeerError, PresharedKey, Tunnel,
    TunnelConfig,
};
use proptest::prelude::*;

fn attacker() -> SocketAddr {
    "203.0.113.66:666".parse().unwrap()
}

/// Returns the datagrams that `end` sends now.
fn answers(net: &mut Net, end: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| net.ends[end].tunnel.poll_transmit()).map(|transmit| transmit.bytes).collect()
}

#[test]
fn everything_ever_sent_comes_again_and_is_dropped() {
    let mut net = Net::new();
    net.connect();
    for number in 0..50 {
        net.send(0, &[number]);
        net.send(1, &[number]);
        net.run(secs(4));
    }
    let log = net.log.clone();
    let received = net.ends.each_ref().map(|end| end.received.len());
    for from in [None, Some(attacker())] {
        for sent in &log {
            for end in 0..2 {
                let now = net.now;
                let arrival = net.ends[end].take(now, from.unwrap_or(sent.from), &sent.bytes);
                assert!(matches!(arrival, Arrival::Dropped(_)), "{arrival:?}");
            }
        }
        for end in 0..2 {
            assert_eq!(answers(&mut net, end), Vec::<Vec<u8>>::new(), "no answer");
        }
    }
    assert_eq!(net.ends.each_ref().map(|end| end.received.len()), received);
    // The session still works.
    assert!(net.send(0, b"x") && net.send(1, b"y"));
    net.run(secs(1));
    assert_eq!(net.ends.each_ref().map(|end| end.received.len()), received.map(|count| count + 1));
}

#[test]
fn an_old_initiation_gets_no_answer_while_it_is_remembered() {
    let mut net = Net::new();
    net.send(0, b"");
    let initiation = net.log[0].bytes.clone();
    net.run(secs(1));
    net.run(secs(1_000));
    net.send(0, b"");
    net.run(secs(1));
    net.run(secs(1_000));
    let now = net.now;
    assert_eq!(net.ends[1].take(now, attacker(), &initiation), Arrival::Dropped(Drop::Replayed));
    assert!(answers(&mut net, 1).is_empty());
}

#[test]
fn a_delayed_initiation_disturbs_nothing() {
    let mut net = Net::new();
    // The first initiation is lost, the second one arrives.
    let mut caught = false;
    net.fate = Box::new(
        move |_| if std::mem::replace(&mut caught, true) { common::Fate::Arrives } else { common::Fate::Lost },
    );
    net.send(0, b"");
    net.run(secs(8));
    assert!(net.is_up(0) && net.is_up(1));
    let (now, caught) = (net.now, net.log[0].bytes.clone());
    assert_eq!(net.ends[1].take(now, attacker(), &caught), Arrival::Dropped(Drop::Stale));
    let refusal = answers(&mut net, 1);
    assert!(refusal.len() == 1 && refusal[0].len() <= caught.len(), "a refusal that only the true peer can read");
    assert_eq!(net.ends[1].take(now, attacker(), &caught), Arrival::Dropped(Drop::Stale));
    assert!(answers(&mut net, 1).is_empty(), "once in five seconds");
    assert!(net.send(0, b"x") && net.send(1, b"y"));
    net.run(millis(100));
    assert!(net.ends.iter().all(|end| end.received.len() == 1));
}

#[test]
fn no_answer_is_larger_than_what_it_answers() {
    let mut net = Net::new();
    net.connect();
    for step in 0..400_u64 {
        net.send((step % 2) as usize, &[0; 3]);
        net.run(millis(1_700));
        if step % 50 == 20 {
            net.ends[0].address = format!("203.0.113.{}:9", step % 200).parse().unwrap();
        }
    }
    // Compare the bytes from each unproven address with the bytes sent there until it was proven.
    let log = net.log.clone();
    let addresses: std::collections::BTreeSet<_> = log.iter().map(|sent| sent.from).collect();
    assert!(addresses.len() > 5);
    for place in addresses.into_iter().filter(|place| *place != address(1) && *place != address(0)) {
        let first_back = log.iter().position(|sent| sent.to == place).unwrap();
        let came: usize = log[..first_back].iter().filter(|sent| sent.from == place).map(|sent| sent.bytes.len()).sum();
        assert!(log[first_back].bytes.len() <= came);
    }
    let sizes = |kind| log.iter().filter(move |sent| sent.bytes[0] == kind).map(|sent| sent.bytes.len());
    assert!(sizes(1).all(|size| size == INITIATION) && sizes(2).all(|size| size == RESPONSE));
}

#[test]
fn a_stranger_learns_nothing() {
    let mut net = Net::new();
    net.connect();
    // A sender that knows the public key but is not a peer.
    let config = TunnelConfig {
        credentials: Credentials::Key(key(77)),
        capabilities: Capabilities(0),
        carrier: Carrier::Udp,
        link_mtu: 1500,
    };
    let mut stranger = Tunnel::new(config, [5; 32], net.now);
    let peer = PeerConfig {
        key: key(11).public(),
        preshared: PresharedKey::default(),
        paths: vec![PathConfig::to(Some(address(1)))],
        allowed: vec![],
        keepalive: Some(secs(10)),
    };
    stranger.add_peer(net.now, peer).unwrap();
    stranger.handle_timeout(net.now, 1 << 60);
    let mut sent = stranger.poll_transmit().unwrap();
    let now = net.now;
    assert_eq!(net.ends[1].take(now, attacker(), &sent.bytes), Arrival::Dropped(Drop::Stranger));
    sent.bytes[50] ^= 1;
    assert_eq!(net.ends[1].take(now, attacker(), &sent.bytes), Arrival::Dropped(Drop::Mac));
    assert!(answers(&mut net, 1).is_empty());
}

#[test]
fn another_preshared_key_makes_no_session() {
    let mut net = Net::with(|end, peer| {
        if end == 1 {
            peer.preshared = PresharedKey::default();
        }
    });
    net.send(0, b"");
    net.run(secs(30));
    assert!(!net.is_up(0) && !net.is_up(1));
}

#[test]
fn a_flood_makes_peers_prove_their_address_and_lets_them_in() {
    let mut net = Net::new();
    // Initiations with a valid mac1 and random content, from a thousand addresses.
    let config = TunnelConfig {
        credentials: Credentials::Key(key(77)),
        capabilities: Capabilities(0),
        carrier: Carrier::Udp,
        link_mtu: 1500,
    };
    let mut forger = Tunnel::new(config, [5; 32], net.now);
    let peer = PeerConfig {
        key: key(11).public(),
        preshared: PresharedKey::default(),
        paths: vec![PathConfig::to(Some(address(1)))],
        allowed: vec![],
        keepalive: Some(secs(10)),
    };
    forger.add_peer(net.now, peer).unwrap();
    forger.handle_timeout(net.now, 1 << 60);
    let forged = forger.poll_transmit().unwrap().bytes;
    let mut flooded = 0_u32;
    let mut flood = |net: &mut Net, span: Duration| {
        let (until, pause) = (net.now + span, Duration::from_micros(1_000));
        while net.now < until {
            flooded += 1;
            let from = (std::net::Ipv4Addr::from_bits(0x0b00_0000 + flooded % 1_000), 9);
            let now = net.now;
            assert!(matches!(
                net.ends[1].take(now, SocketAddr::from(from), &forged),
                Arrival::Dropped(Drop::Stranger | Drop::Load)
            ));
            for transmit in std::iter::from_fn(|| net.ends[1].tunnel.poll_transmit()).collect::<Vec<_>>() {
                if transmit.to.ip() == from.0 {
                    assert_eq!(transmit.bytes[0], 3, "a cookie and nothing else");
                    assert!(transmit.bytes.len() <= forged.len());
                } else {
                    net.underway.push(common::Sent {
                        at: net.now + common::DELAY,
                        from: address(1),
                        to: transmit.to,
                        bytes: transmit.bytes,
                    });
                }
            }
            net.run(pause);
        }
    };
    flood(&mut net, secs(1));
    net.send(0, b"");
    flood(&mut net, secs(1));
    assert!(net.is_up(0) && net.is_up(1), "let in by its cookie");
    let counters = net.ends[1].tunnel.counters();
    assert!(counters.cookies > 500, "{counters:?}");
    let worked = counters.dropped[Drop::Stranger as usize];
    assert!(worked < 150, "{worked} of {flooded} were worked on");
}

#[test]
fn prefixes_and_keys_belong_to_one_peer() {
    let mut net = Net::new();
    let now = net.now;
    let peer = |seed: u8, allowed: &str| PeerConfig {
        key: key(seed).public(),
        preshared: PresharedKey::default(),
        paths: vec![PathConfig::to(None)],
        allowed: vec![allowed.parse().unwrap()],
        keepalive: None,
    };
    let tunnel = &mut net.ends[0].tunnel;
    assert_eq!(tunnel.add_peer(now, peer(10, "10.9.0.0/16")), Err(PeerError::Own));
    assert_eq!(tunnel.add_peer(now, peer(11, "10.9.0.0/16")), Err(PeerError::Key));
    assert_eq!(tunnel.add_peer(now, peer(50, "10.0.1.9/24")), Err(PeerError::Prefix("10.0.1.9/24".parse().unwrap())));
    let first = net.ends[0].peer;
    let tunnel = &mut net.ends[0].tunnel;
    assert_eq!(tunnel.route("10.0.1.5".parse().unwrap()), Some(first), "it is still the first one's");
    let second = tunnel.add_peer(now, peer(50, "10.0.1.128/25")).unwrap();
    assert!(
        tunnel.permits(second, "10.0.1.200".parse().unwrap()) && !tunnel.permits(first, "10.0.1.200".parse().unwrap())
    );
    assert!(
        tunnel.permits(first, "10.0.1.20".parse().unwrap()) && !tunnel.permits(second, "10.0.1.20".parse().unwrap())
    );
    assert!(!tunnel.permits(first, "::1".parse().unwrap()));
}

/// Action of the network on one datagram.
#[derive(Clone, Debug)]
enum Mischief {
    Pass,
    Lose,
    Double,
    Delay(u16),
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Reflect,
    Extend(u8),
}

fn mischief() -> impl Strategy<Value = Mischief> {
    prop_oneof![
        6 => Just(Mischief::Pass),
        1 => Just(Mischief::Lose),
        1 => Just(Mischief::Double),
        3 => (0..3_000_u16).prop_map(Mischief::Delay),
        1 => any::<prop::sample::Index>().prop_map(Mischief::Cut),
        1 => (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Mischief::Flip(at, bit)),
        1 => Just(Mischief::Reflect),
        1 => (1..50_u8).prop_map(Mischief::Extend),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Each datagram that arrives over an arbitrary network was sent, and arrives once and unchanged. Once the network
    /// works, all arrive.
    #[test]
    fn on_a_network_that_does_anything_all_that_arrives_was_sent_and_arrives_once(
        acts in proptest::collection::vec(mischief(), 1..120),
        steps in proptest::collection::vec((0..2_usize, 1..9_000_u64), 20..120),
    ) {
        let mut net = Net::new();
        let mut acts = acts.into_iter().cycle();
        let mut sent: [Vec<(u64, Vec<u8>)>; 2] = Default::default();
        for (who, pause) in steps {
            let text = vec![who as u8; (pause % 60) as usize];
            let now = net.now;
            if let Ok((to, bytes)) = net.ends[who].seal(now, &text) {
                sent[who].push((net.ends[who].numbers[0] - 1, text));
                net.underway.push(common::Sent { at: now + common::DELAY, from: net.ends[who].address, to, bytes });
            }
            net.drain();
            let mut extra = Vec::new();
            net.underway.retain_mut(|datagram| match acts.next().unwrap_or(Mischief::Pass) {
                Mischief::Pass => true,
                Mischief::Lose => false,
                Mischief::Double => {
                    extra.push(datagram.clone());
                    true
                }
                Mischief::Delay(more) => {
                    datagram.at += millis(more.into());
                    true
                }
                Mischief::Cut(at) => {
                    let length = datagram.bytes.len();
                    datagram.bytes.truncate(if length == 0 { 0 } else { at.index(length) });
                    true
                }
                Mischief::Flip(at, bit) => {
                    let length = datagram.bytes.len();
                    if length > 0 {
                        datagram.bytes[at.index(length)] ^= 1 << bit;
                    }
                    true
                }
                Mischief::Reflect => {
                    let mut back = datagram.clone();
                    (back.from, back.to) = (back.to, back.from);
                    extra.push(back);
                    true
                }
                Mischief::Extend(more) => {
                    datagram.bytes.extend(vec![0; more.into()]);
                    true
                }
            });
            net.underway.extend(extra);
            net.run(millis(pause));
        }
        for end in 0..2 {
            let mut received = net.ends[end].received.clone();
            received.sort();
            prop_assert!(received.windows(2).all(|pair| pair[0].0 != pair[1].0), "once");
            prop_assert!(received.iter().all(|packet| sent[1 - end].contains(packet)), "what was sent");
        }
        // The network works: within the time of two handshakes both ends receive.
        net.underway.clear();
        let mut heard = [0; 2];
        for _ in 0..120 {
            heard = net.ends.each_ref().map(|end| end.received.len());
            for end in 0..2 {
                net.send(end, b"peace");
            }
            net.run(millis(250));
        }
        for (end, heard) in net.ends.iter().zip(heard) {
            prop_assert!(end.received.len() > heard, "{} hears again", end.address);
        }
    }

    /// Bytes without a valid seal change nothing, and get no answer.
    #[test]
    fn rubbish_is_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..6_u8, length in 0..4_usize) {
        let mut net = Net::new();
        net.connect();
        let mut bytes = bytes;
        bytes.resize([bytes.len(), INITIATION, RESPONSE, OVERHEAD][length], 7);
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let now = net.now;
        prop_assert!(matches!(net.ends[1].take(now, attacker(), &bytes), Arrival::Dropped(_)));
        prop_assert!(net.ends[1].tunnel.poll_transmit().is_none());
    }
}

#[test]
fn a_peer_with_valid_keys_takes_no_memory() {
    let mut net = Net::new();
    net.connect();
    // Endless handshakes, none of which is confirmed.
    let mut fresh = end(0, net.now, 55, |_| {});
    for round in 0..500_u64 {
        net.now += secs(6);
        let (now, peer) = (net.now, fresh.peer);
        let mut datagram = [0; OVERHEAD];
        let _ = fresh.tunnel.seal(now, peer, PathId::FIRST, round, &mut datagram);
        fresh.tunnel.handle_timeout(now, fresh.wall + now.as_nanos());
        while let Some(transmit) = fresh.tunnel.poll_transmit() {
            net.ends[1].take(now, attacker(), &transmit.bytes);
        }
        net.ends[1].tunnel.handle_timeout(now, net.ends[1].wall);
        while net.ends[1].tunnel.poll_transmit().is_some() {}
    }
    assert!(net.ends[1].tunnel.sessions() <= 4, "{}", net.ends[1].tunnel.sessions());
}

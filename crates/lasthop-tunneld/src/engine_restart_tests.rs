//! Restarting ends, callers with wrong keys, and a peer with valid keys that sends arbitrary frames.

use super::*;

/// Offers packets from end 0, one every 20 ms, and stores the time of each by its number.
fn offer_for(world: &mut World, millis: u64, offered: &mut Vec<Instant>) {
    for _ in 0..millis / 20 {
        offered.push(world.now);
        world.offer(0, packet(0, GRE, offered.len() as u32 - 1, 500));
        world.run(20);
    }
}

/// End 1 is down for 1 s, closed or killed, and has lost the session when it returns. It is called soon, and receives
/// no outdated packets.
#[test]
fn an_end_that_restarts_is_back_within_two_seconds_and_gets_nothing_old() {
    for is_told in [true, false] {
        let (mut world, mut offered) = (World::new(0), Vec::new());
        offer_for(&mut world, 2_000, &mut offered);
        if is_told {
            world.ends[1].close(world.now);
            world.pump();
            world.run(15);
        }
        world.loss = 1_000_000;
        offer_for(&mut world, 1_000, &mut offered);
        world.ends[1] = Engine::new(&plan(1), [99; 32], world.now, None).unwrap();
        world.got[1].clear();
        world.loss = 0;
        let back = world.now;
        while world.got[1].is_empty() && world.now.since(back) < Duration::from_secs(20) {
            offer_for(&mut world, 20, &mut offered);
        }
        let gap = world.now.since(back);
        assert!(gap <= Duration::from_millis(2_000), "{is_told}: {gap:?}");
        let first = numbers(&world.got[1])[0];
        let age = world.now.since(offered[first as usize]);
        assert!(age <= Duration::from_millis(1_100), "{is_told}: {age:?}");
        world.got[1].clear();
        offer_for(&mut world, 1_000, &mut offered);
        world.run(500);
        let last = offered.len() as u32 - 1;
        assert!(numbers(&world.got[1]).ends_with(&[last - 2, last - 1, last]), "all goes on");
    }
}

/// An outage of the path does not end the session, which continues with the packets in flight.
#[test]
fn a_session_goes_on_after_an_outage() {
    let (mut world, mut offered) = (World::new(0), Vec::new());
    offer_for(&mut world, 1_000, &mut offered);
    let starts = world.link(0).counters.starts;
    world.loss = 1_000_000;
    offer_for(&mut world, 4_000, &mut offered);
    world.loss = 0;
    offer_for(&mut world, 3_000, &mut offered);
    assert_eq!(world.link(0).counters.starts, starts);
    let last = offered.len() as u32 - 1;
    world.run(500);
    assert_eq!(numbers(&world.got[1]).last(), Some(&last));
}

/// A caller that knows this end's key but is not a peer, and one that calls another end.
#[test]
fn callers_who_are_refused_are_named_now_and_then() {
    use lasthop_tunnel::{Credentials, PeerConfig, Refusal, Tunnel, TunnelConfig};
    let own = PrivateKey::generate(&mut Entropy::new([2; 32])).public();
    let stranger = PrivateKey::generate(&mut Entropy::new([77; 32]));
    let other = PrivateKey::generate(&mut Entropy::new([78; 32])).public();
    for (called, named) in [(own, Refusal::Stranger(stranger.public())), (other, Refusal::OtherEnd)] {
        let now = Instant::from_nanos(1_000 * MS);
        let mut end = Engine::new(&plan(1), [9; 32], now, None).unwrap();
        let (carrier, link_mtu) = plan(0).carrier();
        let credentials = Credentials::Key(PrivateKey::from_base64(&stranger.to_base64()).unwrap());
        let config = TunnelConfig { credentials, capabilities: ALL, carrier, link_mtu };
        let mut caller = Tunnel::new(config, [5; 32], now);
        let peer = PeerConfig {
            key: called,
            preshared: Default::default(),
            paths: vec![lasthop_tunnel::PathConfig::to(Some(address(1)))],
            allowed: Vec::new(),
            keepalive: Some(Duration::from_secs(1)),
        };
        caller.add_peer(now, peer).unwrap();
        caller.handle_timeout(now, now.as_nanos());
        let call = caller.poll_transmit().unwrap();
        let mut told = 0;
        for millis in [0, 100, 9_900, 10_100] {
            let mut bytes = call.bytes.clone();
            let now = now + Duration::from_millis(millis);
            end.tunnel.handle_datagram(now, address(0), &mut bytes);
            while let Some(event) = end.tunnel.poll_event() {
                let lasthop_tunnel::Event::Refused { address: from, cause, others } = event else {
                    panic!("{event:?}")
                };
                assert_eq!((from, cause, others), (address(0), named, [0, 2][told]));
                told += 1;
            }
        }
        assert_eq!(told, 2, "one in ten seconds");
    }
}

/// Frames with valid keys and arbitrary content: no panic, bounded memory, and valid packets pass afterwards.
#[test]
fn a_peer_that_sends_anything_takes_bounded_memory() {
    let mut world = World::new(0);
    world.offer(0, packet(0, GRE, 0, 500));
    world.run(500);
    let mut number = world.link(0).next_number(PathId::FIRST);
    for _ in 0..30_000 {
        let length = 1 + world.draw() as usize % 1_300;
        let mut datagram = vec![0; HEADER + length + TAG];
        for byte in &mut datagram[HEADER..HEADER + length] {
            *byte = world.draw() as u8;
        }
        // Valid and invalid kinds of frames.
        datagram[HEADER] = world.draw() as u8 % 16;
        number += 1 + if world.draw().is_multiple_of(100) { world.draw() % 5_000 } else { 0 };
        world.ends[0].tunnel.seal(world.now, PeerId(0), PathId::FIRST, number, &mut datagram).unwrap();
        world.ends[1].handle_datagram(world.now, address(0), None, Ecn::NotEct, &mut datagram);
        world.now += Duration::from_micros(200);
    }
    let link = world.ends[1].links_mut().next().unwrap();
    let held = format!("{:?}", link.hop.sizes());
    let largest = held.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<usize>().ok()).max();
    assert!(largest <= Some(1 << 16), "{held}");
    assert!(link.counters.foreign > 1_000, "{:?}", link.counters);
    world.ends[0] = Engine::new(&plan(0), [55; 32], world.now, None).unwrap();
    world.got[1].clear();
    for number in 0..50 {
        world.offer(0, packet(0, GRE, 100 + number, 500));
        world.run(50);
    }
    assert!(numbers(&world.got[1]).ends_with(&[147, 148, 149]));
}

/// An end that adopts another private key starts a session with it as soon as the peer's configuration has its public
/// key. Peers keep their addresses: the second end has no endpoint of the first.
#[test]
fn another_private_key_is_adopted() {
    let mut world = World::new(0);
    for number in 0..100 {
        world.offer(0, packet(0, GRE, number, 1000));
        world.run(2);
    }
    world.run(500);
    assert_eq!(world.got[1].len(), 100);
    let other = PrivateKey::generate(&mut Entropy::new([3; 32]));
    let (mut first, mut second) = (plan(0), plan(1));
    first.own = Own::Key(other.to_base64());
    let now = world.now;
    assert_eq!(world.ends[0].adopt(now, &first), Ok(Some(other.public())));
    assert_eq!(world.ends[0].adopt(now, &first), Ok(None));
    world.offer(0, packet(0, GRE, 100, 1000));
    world.run(1_000);
    assert!(world.got[1].len() == 100 && !world.link(0).up && !world.link(1).up);
    second.peers[0].key = other.public().0;
    let now = world.now;
    assert_eq!(world.ends[1].adopt(now, &second), Ok(None));
    world.run(100);
    assert!(world.link(0).up && world.link(1).up, "the second end calls at the last address");
    for end in 0..2 {
        world.offer(end, packet(end, GRE, 101, 1000));
    }
    world.run(500);
    assert_eq!((world.got[1].len(), world.got[0].len()), (101, 1));
    // An invalid key changes nothing.
    first.own = Own::Key("AAAA".to_owned());
    let now = world.now;
    assert!(world.ends[0].adopt(now, &first).is_err());
    assert!(world.link(0).up);
}

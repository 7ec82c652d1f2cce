//! Keys of both ends: another key of a running end, and handshakes that fail because keys do not match.

use crate::common;

use common::{Net, address, key, millis, secs};
use lasthop_proto::link::hybrid::PathId;
use lasthop_tunnel::{Credentials, Event, PathConfig, PeerConfig, PresharedKey, Refusal, SocketId};

/// Returns the failures that an end has reported.
fn refused(net: &Net, end: usize) -> Vec<Event> {
    net.ends[end].events.iter().filter(|event| matches!(event, Event::Refused { .. })).copied().collect()
}

/// An end that gets another key is unknown to its peer until the peer's configuration has that key.
#[test]
fn another_key_ends_the_sessions_and_starts_new_ones_once_the_peer_knows_it() {
    let mut net = Net::new();
    net.connect();
    let now = net.now;
    net.ends[0].tunnel.set_credentials(now, Credentials::Key(key(77)));
    assert_eq!(net.ends[0].tunnel.public_key(), key(77).public());
    // The peer is told that the session ends.
    net.run(secs(1));
    assert!(!net.is_up(0) && !net.is_up(1));
    net.send(0, b"again");
    net.run(secs(3));
    assert!(!net.is_up(0));
    let cause = Refusal::Stranger(key(77).public());
    assert_eq!(refused(&net, 1), [Event::Refused { address: address(0), cause, others: 0 }]);
    // The peer learns the key.
    let (now, peer) = (net.now, net.ends[1].peer);
    net.ends[1].tunnel.remove_peer(now, peer);
    let config = PeerConfig {
        key: key(77).public(),
        preshared: PresharedKey::from_bytes([9; 32]),
        paths: vec![PathConfig::to(None)],
        allowed: vec!["10.0.0.0/24".parse().unwrap()],
        keepalive: None,
    };
    net.ends[1].peer = net.ends[1].tunnel.add_peer(now, config).unwrap();
    net.ends[1].numbers = [0; 8];
    net.run(secs(12));
    assert!(net.is_up(0) && net.is_up(1));
    let received = net.ends[1].received.len();
    assert!(net.send(0, b"hello"));
    net.run(secs(1));
    assert_eq!(net.ends[1].received.len(), received + 1);
}

#[test]
fn a_handshake_that_fails_says_why() {
    let mut net = Net::with(|which, peer| peer.preshared = PresharedKey::from_bytes([which as u8; 32]));
    net.send(0, b"");
    net.run(secs(15));
    let cause = Refusal::Unreadable(net.ends[0].peer);
    let [first, second] = refused(&net, 0)[..] else { panic!("{:?}", refused(&net, 0)) };
    assert_eq!(first, Event::Refused { address: address(1), cause, others: 0 });
    // Initiations follow after 0.5, 1, 2 and then 5 s; those within ten seconds are counted.
    assert!(matches!(second, Event::Refused { others: 3.., .. }), "{second:?}");
    assert_eq!(refused(&net, 1), []);
    // A call for another public key.
    let mut net = Net::with(|which, peer| {
        if which == 0 {
            peer.key = key(99).public();
        }
    });
    net.send(0, b"");
    net.run(secs(1));
    assert_eq!(refused(&net, 1), [Event::Refused { address: address(0), cause: Refusal::OtherEnd, others: 0 }]);
}

#[test]
fn the_last_contact_is_known_for_each_path() {
    let mut net = Net::with(|which, peer| {
        let path = |socket| PathConfig { endpoint: Some(address(1 - which)), socket: SocketId(socket) };
        peer.paths = (0..2).map(path).collect();
    });
    for (which, host) in [(0, "192.0.2.9:5000"), (1, "198.51.100.9:5000")] {
        net.ends[which].others = vec![host.parse().unwrap()];
    }
    let heard = |net: &Net, path: u8| net.ends[1].tunnel.heard_on(net.ends[1].peer, PathId(path));
    assert_eq!((heard(&net, 0), heard(&net, 1)), (None, None));
    net.connect();
    let first = heard(&net, 0).unwrap();
    net.run(secs(2));
    let sent = net.now;
    assert!(net.send_on(0, PathId(1), b"second"));
    net.run(millis(100));
    assert_eq!((heard(&net, 0), heard(&net, 1)), (Some(first), Some(sent + common::DELAY)));
    assert_eq!(net.ends[1].tunnel.heard(net.ends[1].peer), heard(&net, 1));
}

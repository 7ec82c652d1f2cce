//! Attacks: without the key there is no answer, and replayed packets are not amplified.

use crate::common::{client, client_address, key, run, server, server_address, way};
use lasthop_probe::{Client, ClientConfig, Datagram, Failure, Key, Server, ServerConfig, Transmit};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(100) + Duration::from_millis(milliseconds)
}

fn give(server: &mut Server, now: Instant, from: &str, bytes: &[u8]) -> Vec<Transmit> {
    let from = from.parse().unwrap();
    server.handle_datagram(now, &Datagram { at: now, from, dscp: 0, bytes });
    let mut answers = Vec::new();
    while let Some(answer) = server.poll_transmit(now) {
        answers.push(answer);
    }
    answers
}

const HERE: &str = "198.51.100.7:5000";
const ELSEWHERE: &str = "203.0.113.9:5000";

/// Returns a caller's first message and its answer to the server's challenge.
fn opening(server: &mut Server) -> (Client, Vec<u8>, Vec<u8>) {
    let mut client = client(10, 3);
    let hello = client.poll_transmit(at(0)).unwrap().bytes;
    let [challenge] = &give(server, at(1), HERE, &hello)[..] else { panic!() };
    assert!(challenge.bytes.len() <= hello.len());
    client.handle_datagram(at(2), &Datagram { at: at(2), from: server_address(), dscp: 0, bytes: &challenge.bytes });
    let open = client.poll_transmit(at(2)).unwrap().bytes;
    (client, hello, open)
}

#[test]
fn a_session_opens_for_its_caller_alone_and_once() {
    let mut server = server();
    let (_, hello, open) = opening(&mut server);
    // The cookie is invalid from another address, and expires.
    assert!(give(&mut server, at(3), ELSEWHERE, &open).is_empty());
    let accept = give(&mut server, at(4), HERE, &open);
    assert!(accept.len() == 1 && accept[0].bytes.len() <= open.len() && server.sessions() == 1);
    // The answer may have been lost: a repetition returns it without opening a second session.
    assert_eq!(give(&mut server, at(5), HERE, &open), accept);
    assert_eq!(server.sessions(), 1);
    // A replayed first message yields an answer that is not longer, and leaves no state.
    let again = give(&mut server, at(6), ELSEWHERE, &hello);
    assert!(again.len() == 1 && again[0].bytes.len() <= hello.len() && server.sessions() == 1);
    // Without packets from the caller the session ends, and replayed messages do not open it again.
    assert!(server.poll_transmit(at(4_100)).is_none());
    assert_eq!(server.sessions(), 0);
    assert!(give(&mut server, at(4_200), HERE, &open).is_empty());
    assert!(give(&mut server, at(60_000), HERE, &open).is_empty());
}

#[test]
fn answers_to_strangers_are_counted() {
    let mut server = server();
    let (_, hello, _) = opening(&mut server);
    let answers: usize = (0..1000).map(|_| give(&mut server, at(500), ELSEWHERE, &hello).len()).sum();
    assert!((40..=60).contains(&answers), "{answers}");
}

#[test]
fn a_second_caller_is_told_that_the_server_is_busy() {
    let mut server = server();
    let (_, _, open) = opening(&mut server);
    give(&mut server, at(4), HERE, &open);
    let mut other = client(10, 4);
    let told = |bytes: &[u8], client: &mut Client| {
        client.handle_datagram(at(6), &Datagram { at: at(6), from: server_address(), dscp: 0, bytes });
    };
    let hello = other.poll_transmit(at(5)).unwrap().bytes;
    let challenge = give(&mut server, at(5), ELSEWHERE, &hello).remove(0);
    told(&challenge.bytes, &mut other);
    let open = other.poll_transmit(at(6)).unwrap().bytes;
    let refusal = give(&mut server, at(6), ELSEWHERE, &open).remove(0);
    told(&refusal.bytes, &mut other);
    assert_eq!(other.outcome(), Some(Err(Failure::Busy)));
}

#[test]
fn another_key_is_as_good_as_none() {
    let ways = [way(10.0, 5, 50, 0.0), way(10.0, 5, 50, 0.0)];
    let config = ClientConfig {
        moving: false,
        key: Key::from_bytes([8; 32]),
        server: server_address(),
        lasts: Duration::from_secs(10),
        max_rate: 1_000_000,
        nonce: [1; 16],
    };
    let told = run(Client::new(config), server(), &ways, 1);
    assert_eq!(told.outcome, Err(Failure::NoAnswer));
    assert!(told.bytes[0].iter().sum::<u64>() == 0 && told.bytes[1].len() <= 6, "{:?}", told.bytes);
}

#[test]
fn both_ends_are_told_of_a_stop() {
    let mut server = server();
    let (mut client, _, open) = opening(&mut server);
    let accept = give(&mut server, at(4), HERE, &open).remove(0);
    let tell = |client: &mut Client, now, bytes: &[u8]| {
        client.handle_datagram(now, &Datagram { at: now, from: server_address(), dscp: 0, bytes });
    };
    tell(&mut client, at(5), &accept.bytes);
    server.stop();
    let goodbyes = std::iter::from_fn(|| server.poll_transmit(at(6))).collect::<Vec<_>>();
    assert_eq!(goodbyes.len(), 3);
    tell(&mut client, at(7), &goodbyes[2].bytes);
    assert_eq!(client.outcome(), Some(Err(Failure::Ended)));

    let mut server = self::server();
    let (mut client, _, open) = opening(&mut server);
    let accept = give(&mut server, at(4), HERE, &open).remove(0);
    tell(&mut client, at(5), &accept.bytes);
    client.stop(at(6));
    while let Some(goodbye) = client.poll_transmit(at(6)) {
        give(&mut server, at(7), HERE, &goodbye.bytes);
    }
    assert_eq!((client.outcome(), server.sessions()), (Some(Err(Failure::Stopped)), 0));
}

/// Concurrent callers disturb each other if they share a link: both are notified.
#[test]
fn callers_are_told_of_each_other() {
    let mut server = Server::new(key(), [3; 32], ServerConfig { max_rate: 1_000_000_000, sessions: 2 });
    let take = |server: &mut Server, from: &str, client: &mut Client, milliseconds| {
        let now = at(milliseconds);
        while let Some(sent) = client.poll_transmit(now) {
            for answer in give(server, now, from, &sent.bytes) {
                client
                    .handle_datagram(now, &Datagram { at: now, from: server_address(), dscp: 0, bytes: &answer.bytes });
            }
        }
        client.measured(now).others
    };
    let (mut one, mut other) = (client(10, 3), client(10, 4));
    for step in 0..4 {
        assert_eq!(take(&mut server, HERE, &mut one, 100 * step), 0);
    }
    assert_eq!(server.sessions(), 1);
    for step in 4..8 {
        take(&mut server, ELSEWHERE, &mut other, 100 * step);
        take(&mut server, HERE, &mut one, 100 * step + 50);
    }
    let told = [take(&mut server, HERE, &mut one, 900), take(&mut server, ELSEWHERE, &mut other, 900)];
    assert_eq!((server.sessions(), told), (2, [1, 1]));
}

/// A duplicated session packet is answered once, and a modified one never.
#[test]
fn what_was_recorded_in_a_session_is_not_answered_again() {
    let mut server = server();
    let (mut client, _, open) = opening(&mut server);
    let accept = give(&mut server, at(4), HERE, &open).remove(0);
    client.handle_datagram(at(5), &Datagram { at: at(5), from: server_address(), dscp: 0, bytes: &accept.bytes });
    let sent: Vec<Vec<u8>> = std::iter::from_fn(|| client.poll_transmit(at(6))).map(|sent| sent.bytes).collect();
    assert!(sent.len() >= 2, "a ping and an order: {}", sent.len());
    for bytes in &sent {
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(give(&mut server, at(7), HERE, &changed).is_empty());
        assert!(give(&mut server, at(7), ELSEWHERE, bytes).is_empty());
    }
    let first: usize = sent.iter().map(|bytes| give(&mut server, at(8), HERE, bytes).len()).sum();
    assert!(first >= 2, "{first}");
    let again: usize = sent.iter().map(|bytes| give(&mut server, at(8), HERE, bytes).len()).sum();
    assert_eq!(again, 0);
}

proptest! {
    #[test]
    fn what_has_no_tag_is_not_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..1500), kind in 0_u8..32) {
        if let [first, second, ..] = &mut bytes[..] {
            (*first, *second) = (kind, 1);
        }
        let mut server = server();
        let (mut client, _, open) = opening(&mut server);
        prop_assert!(give(&mut server, at(3), HERE, &bytes).is_empty());
        let accept = give(&mut server, at(4), HERE, &open).remove(0);
        prop_assert!(give(&mut server, at(5), HERE, &bytes).is_empty());
        let datagram = |bytes| Datagram { at: at(6), from: server_address(), dscp: 0, bytes };
        client.handle_datagram(at(6), &datagram(&bytes));
        client.handle_datagram(at(6), &datagram(&accept.bytes));
        client.handle_datagram(at(6), &datagram(&bytes));
        prop_assert_eq!(client.outcome(), None);
    }

    /// The client's session ends even if an authenticated server sends damaged packets.
    #[test]
    fn damaged_sessions_end(flips in proptest::collection::vec((0_usize..400, 0_usize..1400, any::<u8>()), 0..40)) {
        let mut server = server();
        let (mut client, _, open) = opening(&mut server);
        let accept = give(&mut server, at(4), HERE, &open).remove(0);
        client.handle_datagram(at(5), &Datagram { at: at(5), from: server_address(), dscp: 0, bytes: &accept.bytes });
        let mut count = 0;
        for step in 0..600_u64 {
            let now = at(6 + step * 20);
            while let Some(sent) = client.poll_transmit(now) {
                server.handle_datagram(now, &Datagram { at: now, from: client_address(), dscp: 0, bytes: &sent.bytes });
            }
            while let Some(mut sent) = server.poll_transmit(now) {
                for (_, place, flip) in flips.iter().filter(|(number, ..)| *number == count) {
                    let place = place % sent.bytes.len();
                    sent.bytes[place] ^= flip;
                }
                count += 1;
                client.handle_datagram(now, &Datagram { at: now, from: server_address(), dscp: 0, bytes: &sent.bytes });
            }
        }
        prop_assert!(client.outcome().is_some());
        let _ = key();
    }
}

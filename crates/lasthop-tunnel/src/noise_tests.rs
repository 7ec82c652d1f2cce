//! The handshake against public test vectors, and between two ends.

use serde::Deserialize;

use super::*;
use crate::seal::Space;
use crate::wire::{HEADER, TAG};

/// Test vector for our pattern from the Noise implementation *cacophony* (`vectors/cacophony.txt`), as contained in
/// snow 0.10.0 (`tests/vectors/cacophony.txt`).
#[derive(Deserialize)]
struct Vector {
    protocol_name: String,
    init_prologue: String,
    init_psks: Vec<String>,
    init_static: String,
    init_ephemeral: String,
    init_remote_static: String,
    resp_static: String,
    resp_ephemeral: String,
    handshake_hash: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    payload: String,
    ciphertext: String,
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn key(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

/// Clamps the key, because the vectors' keys are not clamped.
fn identity(text: &str) -> Identity {
    Identity::new(Credentials::Key(PrivateKey::from_bytes(key(text))))
}

#[test]
fn messages_and_keys_are_those_of_the_public_vector() {
    let vector: Vector = serde_json::from_str(include_str!("../tests/data/noise-ikpsk2.json")).unwrap();
    assert_eq!(vector.protocol_name, PROTOCOL);
    let prologue = hex(&vector.init_prologue);
    let shared = PresharedKey::from_bytes(key(&vector.init_psks[0]));
    let (alice, bob) = (identity(&vector.init_static), identity(&vector.resp_static));
    assert_eq!(bob.public.0, key(&vector.init_remote_static));

    let [alices, bobs] = [&alice, &bob].map(|own| own.private.as_ref().unwrap());
    let initiator = builder(alices, &alice.public, key(&vector.init_ephemeral), &prologue).unwrap();
    let initiator = initiator.remote_public_key(&bob.public.0).unwrap().psk(2, shared.bytes()).unwrap();
    let mut initiator = initiator.build_initiator().unwrap();
    let responder = builder(bobs, &bob.public, key(&vector.resp_ephemeral), &prologue).unwrap();
    let mut responder = responder.build_responder().unwrap();
    let mut message = [0; 200];
    let mut payload = [0; 200];

    let first = &vector.messages[0];
    let length = initiator.write_message(&hex(&first.payload), &mut message).unwrap();
    assert_eq!(message[..length], hex(&first.ciphertext));
    let length = responder.read_message(&message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], hex(&first.payload));
    assert_eq!(responder.get_remote_static(), Some(&alice.public.0[..]));

    let second = &vector.messages[1];
    responder.set_psk(2, shared.bytes()).unwrap();
    let length = responder.write_message(&hex(&second.payload), &mut message).unwrap();
    assert_eq!(message[..length], hex(&second.ciphertext));
    let length = initiator.read_message(&message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], hex(&second.payload));
    assert_eq!(initiator.get_handshake_hash(), hex(&vector.handshake_hash));

    // Transport messages: our own sealing with the raw keys. The vectors have no associated data, unlike our datagrams.
    let (from_initiator, from_responder) = initiator.dangerously_get_raw_split();
    for (at, sent) in vector.messages[2..].iter().enumerate() {
        let key = if at % 2 == 0 { from_initiator } else { from_responder };
        let sealed = crate::seal::tests_only_seal(key, at as u64 / 2, &hex(&sent.payload));
        assert_eq!(sealed, hex(&sent.ciphertext), "message {at}");
    }
}

fn ends() -> (Identity, Identity, PresharedKey) {
    (
        Identity::new(Credentials::Key(PrivateKey::from_bytes([1; 32]))),
        Identity::new(Credentials::Key(PrivateKey::from_bytes([2; 32]))),
        PresharedKey::from_bytes([3; 32]),
    )
}

#[test]
fn both_ends_get_the_same_keys_and_each_others_hello() {
    let (alice, bob, shared) = ends();
    let mut initiator = Initiator::new(&alice, &bob.public, &shared, [4; 32]).unwrap();
    let (mut first, mut second) = ([0; NOISE_1], [0; NOISE_2]);
    initiator.write(&[5; HELLO], &mut first).unwrap();
    let (responder, peer, hello) = Responder::read(&bob, [6; 32], &first).unwrap();
    assert_eq!((peer, hello), (alice.public, [5; HELLO]));
    let theirs = responder.write(&shared, &[7; HELLO], &mut second).unwrap();
    // A forged answer does not prevent the valid one.
    let mut forged = second;
    forged[40] ^= 1;
    assert!(initiator.read(&forged).is_err());
    assert_eq!(initiator.read(&second), Ok([7; HELLO]));
    let ours = initiator.keys();
    for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
        let mut datagram = [9; HEADER + 4 + TAG];
        from.seal(Space::LINK, 1, &mut datagram).unwrap();
        assert!(to.open(Space::LINK, 1, &mut datagram).is_ok());
        assert_eq!(datagram[HEADER..HEADER + 4], [9; 4]);
    }
}

#[test]
fn other_keys_get_nowhere() {
    let (alice, bob, shared) = ends();
    let (mut first, mut second) = ([0; NOISE_1], [0; NOISE_2]);
    let mut initiator = Initiator::new(&alice, &bob.public, &shared, [4; 32]).unwrap();
    initiator.write(&[5; HELLO], &mut first).unwrap();
    let mallory = Identity::new(Credentials::Key(PrivateKey::from_bytes([8; 32])));
    assert!(Responder::read(&mallory, [6; 32], &first).is_err());
    let (responder, ..) = Responder::read(&bob, [6; 32], &first).unwrap();
    assert!(responder.write(&PresharedKey::default(), &[7; HELLO], &mut second).is_ok());
    assert!(initiator.read(&second).is_err(), "another preshared key");
    for at in 0..NOISE_1 {
        let mut damaged = first;
        damaged[at] ^= 1;
        assert!(Responder::read(&bob, [6; 32], &damaged).is_err(), "byte {at}");
    }
}

#[test]
fn points_of_small_order_are_refused() {
    let (alice, bob, shared) = ends();
    // 0 and 1, and p - 1 (little-endian), of the orders 4, 1 and 2.
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    let mut one = [0; 32];
    one[0] = 1;
    for point in [[0; 32], one, minus_one] {
        let mut initiator = Initiator::new(&alice, &PublicKey(point), &shared, [4; 32]).unwrap();
        assert!(initiator.write(&[5; HELLO], &mut [0; NOISE_1]).is_err());
        let mut first = [0; NOISE_1];
        first[..32].copy_from_slice(&point);
        assert!(Responder::read(&bob, [6; 32], &first).is_err());
    }
}

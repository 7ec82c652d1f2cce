use proptest::prelude::*;

use super::*;

/// Returns a packet message in the kernel's format.
fn packet(id: u32, bytes: &[u8], more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, PACKET, 0, 0, 7, |out| {
        let mut first = id.to_be_bytes().to_vec();
        first.extend([8, 0, 2]);
        attribute(out, 1, &first);
        for (kind, value) in more {
            attribute(out, *kind, value);
        }
        attribute(out, 10, bytes);
    });
    out.resize(align(out.len()), 0);
    out
}

fn be(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[test]
fn packets_are_read_with_their_interfaces_and_what_the_kernel_says_about_them() {
    let mut bytes =
        packet(5, b"first", &[(3, be(0x90)), (5, be(3)), (6, be(4)), (14, be(INFO_GSO | INFO_CHECKSUM_NOT_READY))]);
    bytes.extend(packet(6, b"cut", &[(13, be(9000))]));
    bytes.extend(packet(7, b"not cut", &[(13, be(7))]));
    let read: Vec<_> = messages(&bytes).collect();
    let first = Queued {
        id: 5,
        hook: Hook::Elsewhere,
        mark: 0x90,
        from: 3,
        to: 4,
        bytes: b"first",
        extent: Extent::Whole,
        shape: Shape::Super,
        checksum: Checksum::Pending,
    };
    let alone = Queued { mark: 0, from: 0, to: 0, shape: Shape::Single, checksum: Checksum::Complete, ..first };
    let cut = Queued { id: 6, bytes: b"cut", extent: Extent::Truncated, ..alone };
    let whole = Queued { id: 7, bytes: b"not cut", ..alone };
    assert_eq!(read, [first, cut, whole].map(Message::Queued));
    // NF_INET_FORWARD is 2, as above.
    let mut early = packet(8, b"early", &[]);
    early[HEADER + GENERIC + ATTRIBUTE + 6] = 0;
    let expected = Queued { id: 8, hook: Hook::Prerouting, bytes: b"early", ..alone };
    assert_eq!(messages(&early).collect::<Vec<_>>(), [Message::Queued(expected)]);
    // NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT.
    for hook in [1, 3] {
        early[HEADER + GENERIC + ATTRIBUTE + 6] = hook;
        let expected = Queued { hook: Hook::Local, ..expected };
        assert_eq!(messages(&early).collect::<Vec<_>>(), [Message::Queued(expected)]);
    }
}

#[test]
fn a_checksum_is_pending_where_the_kernel_has_yet_to_compute_it_or_verified_the_parts() {
    use Checksum::{Complete, Pending};
    let expected = [Complete, Pending, Pending, Pending, Complete, Pending, Complete, Pending];
    for (info, checksum) in (0..).zip(expected) {
        let bytes = packet(5, b"", &[(14, be(info))]);
        let read: Vec<_> = messages(&bytes).collect();
        let [Message::Queued(read)] = read[..] else { panic!("{read:?}") };
        assert_eq!(read.checksum, checksum, "{info}");
    }
}

#[test]
fn an_answer_tells_its_request_and_its_error() {
    let mut bytes = Vec::new();
    bytes.extend(36_u32.to_ne_bytes());
    bytes.extend(ERROR.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend((-16_i32).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(42_u32.to_ne_bytes());
    bytes.extend([0; 4]);
    assert_eq!(messages(&bytes).collect::<Vec<_>>(), [Message::Answer { sequence: 42, errno: 16 }]);
}

/// Content of a verdict message: true for a batch, the verdict, the packet, and its new bytes.
type Said = (bool, u32, u32, Option<Vec<u8>>);

fn said(mut bytes: &[u8]) -> Vec<Said> {
    let mut verdicts = Vec::new();
    while !bytes.is_empty() {
        let len = word(bytes, 0).unwrap() as usize;
        let (message, rest) = bytes.split_at(len);
        assert_eq!(message[18..20], 7_u16.to_be_bytes());
        let kind = u16::from_ne_bytes(array(message, 4).unwrap());
        let number = |at: usize| u32::from_be_bytes(array(message, at).unwrap());
        let payload = (len > 32).then(|| {
            let len = usize::from(u16::from_ne_bytes(array(message, 32).unwrap()));
            message[36..32 + len].to_vec()
        });
        verdicts.push((kind == VERDICT_BATCH, number(24), number(28), payload));
        bytes = rest;
    }
    verdicts
}

#[test]
fn a_run_of_accepted_packets_is_one_message_and_goes_before_what_follows_it() {
    let mut verdicts = Verdicts::new(7);
    verdicts.accept(1);
    verdicts.accept(2);
    verdicts.drop(3);
    verdicts.replace(4, b"other");
    verdicts.accept(5);
    verdicts.accept(6);
    verdicts.repeat(7, 0x1234_5678);
    let expected = [
        (true, 1, 2, None),
        (false, 0, 3, None),
        (false, 1, 4, Some(b"other".to_vec())),
        (true, 1, 6, None),
        (false, 4, 7, Some(vec![0x12, 0x34, 0x56, 0x78])),
    ];
    assert_eq!(said(verdicts.bytes()), expected);
    verdicts.clear();
    assert!(verdicts.is_empty());
}

#[test]
fn a_packet_accepted_alone_leaves_those_before_it_waiting() {
    let mut verdicts = Verdicts::new(7);
    verdicts.accept(1);
    // 2 waits.
    verdicts.accept_one(3);
    verdicts.accept_one(4);
    verdicts.drop(2);
    let expected = [(true, 1, 1, None), (false, 1, 3, None), (false, 1, 4, None), (false, 0, 2, None)];
    assert_eq!(said(verdicts.bytes()), expected);
}

proptest! {
    #[test]
    fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
    }

    /// Damages bytes after the headers, where lengths and kinds of attributes are.
    #[test]
    fn damaged_packets_can_be_read(at in 0_usize..100, value in any::<u8>(), cut in 0_usize..100) {
        let mut bytes = packet(5, b"payload of a packet", &[(5, be(3)), (6, be(4)), (13, be(19)), (14, be(0))]);
        let len = bytes.len();
        bytes[at % len] = value;
        bytes.truncate(len - cut % len);
        for message in messages(&bytes) {
            if let Message::Queued(queued) = message {
                prop_assert!(queued.bytes.len() <= bytes.len());
            }
        }
    }

    /// Each packet gets its verdict, regardless of the order of verdicts.
    #[test]
    fn every_packet_gets_its_verdict(kinds in prop::collection::vec(0_u8..3, 1..100)) {
        let mut verdicts = Verdicts::new(7);
        for (id, kind) in kinds.iter().enumerate() {
            match kind {
                0 => verdicts.accept(id as u32),
                1 => verdicts.drop(id as u32),
                _ => verdicts.replace(id as u32, &[1, 2, 3]),
            }
        }
        let mut waiting: Vec<u32> = (0..kinds.len() as u32).collect();
        let mut got = vec![None; kinds.len()];
        for (batch, verdict, id, payload) in said(verdicts.bytes()) {
            let mut kind = if payload.is_some() { 2 } else { 1 };
            if verdict == NF_ACCEPT && payload.is_none() {
                kind = 0;
            }
            let judged = |waits: &u32| if batch { *waits <= id } else { *waits == id };
            for id in waiting.iter().filter(|id| judged(id)) {
                got[*id as usize] = Some(kind);
            }
            waiting.retain(|waits| !judged(waits));
        }
        prop_assert_eq!(got, kinds.into_iter().map(Some).collect::<Vec<_>>());
    }
}

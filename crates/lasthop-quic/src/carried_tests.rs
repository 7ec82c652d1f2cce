//! Tests with datagrams written by hand from RFC 9000.

use super::*;

/// Returns a 1-RTT packet (§17.3) with a packet number of one byte.
fn short(frames: &[u8]) -> Vec<u8> {
    [&[0x40], &[7; CONNECTION_ID_LEN][..], &[0], frames, &[0; TAG_LEN]].concat()
}

/// Returns a STREAM frame with offset and length (§19.8) on stream 2.
fn stream(offset: u8, len: u8) -> Vec<u8> {
    [&[0x0e, 2, offset, len][..], &vec![0; usize::from(len)]].concat()
}

fn carried(fresh: u64, resent: u64, handshake: Handshake) -> Carried {
    Carried { fresh, resent, handshake }
}

#[test]
fn stream_data_is_new_once() {
    let mut sent = SentSoFar::default();
    assert_eq!(sent.read(&short(&stream(0, 20))), carried(20, 0, Handshake::Over));
    // Bytes 10 to 29: ten of them were sent before.
    assert_eq!(sent.read(&short(&stream(10, 20))), carried(10, 10, Handshake::Over));
    assert_eq!(sent.read(&short(&stream(0, 30))), carried(0, 30, Handshake::Over));
    // Only bytes beyond the highest offset sent count as fresh: data that fills a hole below it counts as resent.
    assert_eq!(sent.read(&short(&stream(40, 5))), carried(5, 0, Handshake::Over));
    sent.forget(2);
    assert_eq!(sent.read(&short(&stream(0, 20))), carried(20, 0, Handshake::Over));
}

#[test]
fn every_frame_is_passed_over() {
    let frames: [&[u8]; 18] = [
        &[0x00, 0x00, 0x01],
        // ACK of 100 with delay 5, two more ranges; ECN counts after the second (§19.3).
        &[0x02, 0x40, 100, 5, 2, 3, 1, 1, 1, 1],
        &[0x03, 9, 5, 0, 3, 1, 2, 3],
        &[0x04, 2, 0, 9],
        &[0x05, 2, 0],
        &[0x06, 0, 3, 1, 2, 3],
        &[0x07, 2, 1, 2],
        &[0x10, 0x80, 0, 1, 0],
        &[0x11, 2, 9],
        &[0x12, 9],
        &[0x13, 9],
        &[0x14, 9],
        &[0x15, 2, 9],
        &[0x16, 9],
        &[0x18, 1, 0, 2, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x19, 1],
        &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x1e],
    ];
    for frame in frames {
        let read = SentSoFar::default().read(&short(&[frame, &stream(0, 9)].concat()));
        assert_eq!(read, carried(9, 0, Handshake::Over), "{frame:?}");
    }
    // Without a length, a STREAM frame extends to the end of the packet; a packet may contain several frames.
    let mut last = stream(0, 4);
    last.extend([0x08, 6]);
    last.extend([0; 11]);
    assert_eq!(SentSoFar::default().read(&short(&last)), carried(15, 0, Handshake::Over));
}

#[test]
fn packets_of_one_datagram_are_read_one_after_the_other() {
    // An Initial packet (§17.2.2): version, two connection identifiers, a token, the length.
    let mut datagram = vec![0xc0, 0, 0, 0, 1, 2, 1, 1, 1, 3, 1, 5];
    let frames = [0x06, 0, 2, 9, 9];
    datagram.push((1 + frames.len() + TAG_LEN) as u8);
    datagram.push(0);
    datagram.extend(frames);
    datagram.extend([0; TAG_LEN]);
    assert_eq!(SentSoFar::default().read(&datagram), carried(0, 0, Handshake::Part));
    datagram.extend(short(&stream(0, 7)));
    assert_eq!(SentSoFar::default().read(&datagram), carried(7, 0, Handshake::Part));
}

#[test]
fn anything_can_be_read() {
    let whole = short(&[&[0x03, 9, 5, 0, 3, 1, 2, 3][..], &stream(0, 9)].concat());
    for len in 0..whole.len() {
        SentSoFar::default().read(&whole[..len]);
    }
    for first in 0..=255 {
        let mut datagram = whole.clone();
        datagram[0] = first;
        datagram[1 + CONNECTION_ID_LEN + 1] = first;
        SentSoFar::default().read(&datagram);
        SentSoFar::default().read(&[first; 64]);
    }
}

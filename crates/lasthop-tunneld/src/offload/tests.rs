use proptest::prelude::*;

use super::*;
use lasthop_wire::protocol::{TCP, UDP};
use lasthop_wire::{V4_LEN, checksum_field, seal_transport, verifies_transport};

/// Returns a packet with correct checksums and this header after IP.
fn packet(v6: bool, protocol: u8, transport: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = match v6 {
        false => vec![0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
        true => [&[0x60, 0, 0, 0, 0, 0, protocol, 64][..], &[0xfd; 16], &[0xfe; 16]].concat(),
    };
    let ip_len = packet.len();
    packet.extend_from_slice(transport);
    packet.extend_from_slice(payload);
    set_lengths(&mut packet, ip_len, protocol == UDP);
    seal_transport(&mut packet, ip_len, protocol);
    packet
}

/// Returns a segment of the flow from `port`, with a timestamp option.
fn tcp(v6: bool, port: u8, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0, port, 0, 80];
    header.extend_from_slice(&seq.to_be_bytes());
    header.extend_from_slice(&[0, 0, 0, 7, 0x80, flags, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    packet(v6, TCP, &header, payload)
}

fn udp(v6: bool, port: u8, payload: &[u8]) -> Vec<u8> {
    packet(v6, UDP, &[0, port, 0, 53, 0, 0, 0, 0], payload)
}

/// Returns the data of the writes.
fn merged(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut merger = Merger::new(true);
    packets.iter().for_each(|packet| merger.push(packet));
    let mut writes = Vec::new();
    merger.drain(|write| writes.push(write.to_vec()));
    assert_eq!(merger.waiting(), (0, 0));
    writes
}

/// Returns the packets in the data of writes, as the kernel segments them.
fn segments(writes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for write in writes {
        split(&mut write.clone(), |packet| packets.push(packet.to_vec())).unwrap();
    }
    packets
}

/// Clears IPv4's identification, which merging does not preserve, and computes the checksums again.
fn without_id(mut packet: Vec<u8>) -> Vec<u8> {
    if Version::of(&packet) == Some(Version::V4) {
        packet[4..6].fill(0);
        let protocol = packet[9];
        seal_transport(&mut packet, V4_LEN, protocol);
    }
    packet
}

#[test]
fn a_flow_becomes_one_write() {
    for v6 in [false, true] {
        let packets: Vec<_> =
            (0..4).map(|at| tcp(v6, 1, at * 100, if at == 3 { ACK | PSH } else { ACK }, &[at as u8; 100])).collect();
        let writes = merged(&packets);
        assert_eq!(writes.len(), 1);
        let ip_len = if v6 { V6_LEN } else { V4_LEN };
        assert_eq!(writes[0].len(), PREFIX + ip_len + 32 + 400);
        let header = Header::decode(writes[0].first_chunk().unwrap());
        assert_eq!((header.headers, header.size), (ip_len as u16 + 32, 100));
        let ids = |packets: Vec<Vec<u8>>| packets.into_iter().map(without_id).collect::<Vec<_>>();
        assert_eq!(ids(segments(&writes)), ids(packets));
    }
}

#[test]
fn what_does_not_continue_a_flow_is_a_write_of_its_own() {
    let first = tcp(false, 1, 0, ACK, &[1; 100]);
    let changed = |at: usize, value: u8| {
        let mut next = tcp(false, 1, 100, ACK, &[2; 100]);
        next[at] = value;
        seal_transport(&mut next, V4_LEN, TCP);
        next
    };
    assert_eq!(merged(&[first.clone(), changed(0, 0x45)]).len(), 1);
    // Traffic class, fragmentation, time to live; acknowledgment, flags, window, urgent pointer, options.
    for (at, value) in [(1, 1), (6, 0), (8, 63), (31, 8), (33, ACK | 1), (34, 2), (39, 1), (51, 3)] {
        let packets = [first.clone(), changed(at, value)];
        assert_eq!(segments(&merged(&packets)), packets, "byte {at}");
        assert_eq!(merged(&packets).len(), 2, "byte {at}");
    }
    let gap = [first.clone(), tcp(false, 1, 101, ACK, &[2; 100])];
    let longer = [first.clone(), tcp(false, 1, 100, ACK, &[2; 101])];
    let after_short = [first.clone(), tcp(false, 1, 100, ACK, &[2; 9]), tcp(false, 1, 109, ACK, &[2; 9])];
    let after_push = [tcp(false, 1, 0, ACK | PSH, &[1; 100]), tcp(false, 1, 100, ACK, &[2; 100])];
    for packets in [&gap[..], &longer, &after_short, &after_push] {
        assert_eq!(merged(packets).len(), 2);
    }
}

#[test]
fn packets_of_a_flow_keep_their_order() {
    let data = |seq| tcp(false, 1, seq, ACK, &[3; 100]);
    // An acknowledgment without data between segments, and another flow.
    let packets = [data(0), tcp(false, 1, 100, ACK, &[]), data(100), tcp(false, 2, 0, ACK, &[4; 100]), data(200)];
    let writes = segments(&merged(&packets));
    let flow = |packets: &[Vec<u8>]| -> Vec<_> {
        packets.iter().filter(|packet| packet[21] == 1).map(|packet| packet[24..].to_vec()).collect()
    };
    assert_eq!(flow(&writes).len(), 4);
    assert_eq!(flow(&writes)[1].len(), packets[1].len() - 24);
    assert_eq!(merged(&packets).len(), 4);
}

#[test]
fn wrong_checksums_reach_the_receiver() {
    for wrong in 0..3 {
        for v6 in [false, true] {
            let mut packets: Vec<_> = (0..3).map(|at| tcp(v6, 1, at * 100, ACK, &[5; 100])).collect();
            *packets[wrong].last_mut().unwrap() ^= 1;
            let passed = segments(&merged(&packets));
            let ip_len = if v6 { V6_LEN } else { V4_LEN };
            let is_right: Vec<_> = passed.iter().map(|packet| verifies_transport(packet, ip_len, TCP)).collect();
            assert_eq!(is_right, (0..3).map(|at| at != wrong).collect::<Vec<_>>());
        }
    }
    let mut absent = vec![udp(false, 1, &[1; 50]), udp(false, 1, &[2; 50])];
    absent.iter_mut().for_each(|packet| packet[26..28].fill(0));
    assert_eq!(segments(&merged(&absent)), absent);
}

#[test]
fn datagrams_are_merged_if_the_device_takes_it() {
    let packets: Vec<_> = (0..100).map(|at| udp(at % 2 == 0, 1, &[at; 60])).collect();
    assert_eq!(merged(&packets).len(), 2);
    let same: Vec<_> = (0..100).map(|at| udp(false, 1, &[at; 60])).collect();
    assert_eq!(merged(&same).len(), 2, "at most 64 in a super-segment");
    let mut merger = Merger::new(false);
    packets.iter().for_each(|packet| merger.push(packet));
    assert_eq!(merger.waiting(), (100, packets.iter().map(Vec::len).sum()));
}

#[test]
fn flags_of_a_super_segment_belong_to_its_first_or_last_segment() {
    let mut packet = tcp(false, 1, 7, ACK | PSH | FIN | CWR, &[6; 250]);
    defer_checksum(&mut packet);
    let flags: Vec<_> = read(TCP_V4, 100, &packet).iter().map(|packet| packet[33]).collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK | PSH | FIN]);
}

fn defer_checksum(packet: &mut [u8]) {
    let protocol = packet[9];
    lasthop_wire::defer_transport(packet, V4_LEN, protocol);
}

/// Returns the packets of a read with IPv4 and these fields in its header.
fn read(kind: u8, size: u16, packet: &[u8]) -> Vec<Vec<u8>> {
    let offset = checksum_field(packet[9]).start as u16;
    let header = Header { flags: NEEDS_CHECKSUM, kind, headers: 0, size, start: V4_LEN as u16, offset };
    let mut data = [&header.encode(), packet].concat();
    let mut packets = Vec::new();
    let count = split(&mut data, |packet| packets.push(packet.to_vec()));
    assert_eq!(count, Ok(packets.len()));
    packets
}

#[test]
fn pending_checksums_are_computed() {
    for (kind, whole) in [(0, tcp(false, 1, 7, ACK, &[6; 99])), (0, udp(false, 1, &[7; 99]))] {
        let mut pending = whole.clone();
        defer_checksum(&mut pending);
        assert_ne!(pending, whole);
        assert_eq!(read(kind, 0, &pending), [whole]);
    }
    let whole = udp(false, 1, &[7; 90]);
    assert_eq!(read(UDP_ANY, 45, &whole).len(), 2);
}

proptest! {
    /// Arbitrary data are segmented or refused.
    #[test]
    fn anything_can_be_split(
        (flags, kind) in (0_u8..2, prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), Just(0x81), any::<u8>()]),
        (size, start, offset) in (0_u16..100, 0_u16..80, 0_u16..80),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let header = Header { flags, kind, headers: 0, size, start, offset }.encode();
        for first in [0x45, 0x60, 0x4f] {
            let mut data = [&header[..], &[first], &bytes].concat();
            let mut passed = 0;
            let count = split(&mut data, |_| passed += 1);
            prop_assert_eq!(count.unwrap_or(0), passed);
        }
    }

    /// Arbitrary packets are passed on, each flow in order, with all bytes but IPv4's identification.
    #[test]
    fn merging_is_the_inverse_of_splitting(
        steps in proptest::collection::vec((0_u8..3, any::<bool>(), any::<bool>(), 0_usize..200, any::<bool>()), 1..60),
    ) {
        let mut seqs = [0_u32; 8];
        let packets: Vec<_> = steps.iter().map(|&(port, v6, is_udp, length, is_full)| {
            let payload = vec![length as u8; if is_full { 200 } else { length }];
            if is_udp {
                return udp(v6, port, &payload);
            }
            let seq = &mut seqs[usize::from(port) * 2 + usize::from(v6)];
            let segment = tcp(v6, port, *seq, if length == 7 { ACK | PSH } else { ACK }, &payload);
            *seq += payload.len() as u32;
            segment
        }).collect();
        let key = |packet: &Vec<u8>| {
            let ip_len = if Version::of(packet) == Some(Version::V4) { V4_LEN } else { V6_LEN };
            (ip_len, packet[if ip_len == V4_LEN { 9 } else { 6 }], packet[ip_len + 1])
        };
        // A stable order by flow.
        let by_flow = |packets: Vec<Vec<u8>>| {
            let mut packets: Vec<_> = packets.into_iter().map(without_id).collect();
            packets.sort_by_key(key);
            packets
        };
        prop_assert_eq!(by_flow(segments(&merged(&packets))), by_flow(packets));
    }

    /// Arbitrary bytes are passed on.
    #[test]
    fn anything_can_be_merged(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..100), 1..20)) {
        let writes = merged(&packets);
        let passed: Vec<_> = writes.iter().map(|write| write[PREFIX..].to_vec()).collect();
        prop_assert_eq!(passed, packets);
    }
}

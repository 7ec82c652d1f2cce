use super::*;

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns a segment between two ends; `damage` is combined with TCP's checksum by XOR.
fn packet(from: &str, to: &str, damage: u16) -> Vec<u8> {
    let route = Route { source: end(from), destination: end(to) };
    let segment = lasthop_proto::packet::Segment::default();
    let mut packet = lasthop_wire::build(route, &segment, b"odd").unwrap();
    let at = lasthop_wire::parse(&packet).unwrap().ip_len + 16;
    let sum = u16::from_be_bytes([packet[at], packet[at + 1]]) ^ damage;
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn another_source_gets_right_checksums_and_wrong_ones_stay_wrong() {
    let cases =
        [("10.2.0.2:4000", "10.1.0.2:80", "192.0.2.1:61000"), ("[fd02::2]:4000", "[fd01::2]:80", "[2001:db8::ffff]:1")];
    for (from, to, source) in cases {
        for damage in [0, 0x0104] {
            let mut packet = packet(from, to, damage);
            assert_eq!(route(&packet), Some(Route { source: end(from), destination: end(to) }));
            set_source(&mut packet, end(source));
            let right = self::packet(source, to, 0);
            assert_eq!(packet == right, damage == 0, "{from} {damage}");
            let at = lasthop_wire::parse(&packet).unwrap().ip_len + 16;
            packet[at..at + 2].copy_from_slice(&right[at..at + 2]);
            assert_eq!(packet, right, "{from} {damage}");
        }
    }
}

#[test]
fn what_is_no_packet_stays_as_it_is() {
    for len in 0..40 {
        let mut bytes = vec![0x45; len];
        let before = bytes.clone();
        set_source(&mut bytes, end("192.0.2.1:1"));
        assert_eq!((route(&bytes).is_some(), bytes == before), (len >= 40, len < 40), "{len}");
    }
    let mut four = packet("10.2.0.2:4000", "10.1.0.2:80", 0);
    let before = four.clone();
    set_source(&mut four, end("[::1]:1"));
    assert_eq!(four, before);
}

#[test]
fn each_direction_leaves_with_the_source_that_the_other_answers_to() {
    let (client, server, gateway) = (end("10.2.0.2:4000"), end("10.1.0.2:80"), end("10.1.0.1:61000"));
    let route = |source, destination| Route { source, destination };
    // Masqueraded: the client opens, and the server sees the gateway.
    let masqueraded = Entry { original: route(client, server), reply: route(server, gateway) };
    assert_eq!(sources(masqueraded), [(route(client, server), gateway), (route(server, client), server)]);
    // A port forward: the server calls the gateway, and the client answers.
    let forwarded = Entry { original: route(server, gateway), reply: route(client, server) };
    assert_eq!(sources(forwarded), [(route(server, client), server), (route(client, server), gateway)]);
    // Both at once.
    let inner = end("10.2.0.1:500");
    let both = Entry { original: route(server, gateway), reply: route(client, inner) };
    assert_eq!(sources(both), [(route(server, client), inner), (route(client, server), gateway)]);
}

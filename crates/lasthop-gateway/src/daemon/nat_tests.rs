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

/// A connection with a translated source, and its route there.
fn masqueraded() -> (Route, Entry) {
    let (client, server, gateway) = (end("10.2.0.2:4000"), end("10.1.0.2:80"), end("10.1.0.1:61000"));
    let route = |source, destination| Route { source, destination };
    (route(client, server), Entry { original: route(client, server), reply: route(server, gateway) })
}

/// The kernel adds a connection to its table when the first packet leaves. Both lookups of a trial that goes with that
/// packet precede this, and say nothing about the packets that the gateway sends later.
#[test]
fn a_lookup_beside_the_first_packet_does_not_decide_on_later_ones() {
    let (route, entry) = masqueraded();
    for pause in [0, 6] {
        let (mut sources, mut now) = (Sources::default(), Instant::now());
        for route in [route, route.reversed()] {
            assert_eq!(sources.look_up(now, Moment::Queued, route, || Found::Nothing), Some(None));
            now += Duration::from_millis(pause);
        }
        let found = sources.look_up(now, Moment::Left, route, || Found::Entry(entry));
        assert_eq!(found, Some(Some(entry.reply.destination)), "{pause}");
        let remembered = sources.look_up(now, Moment::Left, route.reversed(), || Found::Nothing);
        assert_eq!(remembered, Some(None), "the reply's source is not translated");
    }
}

#[test]
fn an_untracked_connection_is_looked_up_seldom_once_its_packets_have_left() {
    let (route, _) = masqueraded();
    let (mut sources, now) = (Sources::default(), Instant::now());
    assert_eq!(sources.look_up(now, Moment::Left, route, || Found::Nothing), Some(None));
    for moment in [Moment::Queued, Moment::Left] {
        let later = now + UNTRACKED - Duration::from_millis(1);
        assert_eq!(sources.look_up(later, moment, route, || panic!("looked up again")), Some(None));
    }
    assert_eq!(sources.look_up(now + UNTRACKED, Moment::Left, route, || Found::Later), None);
}

/// Another program may remove the entry of a translated connection. The server does not know the untranslated source.
#[test]
fn a_translated_connection_does_not_become_an_untracked_one() {
    let (route, entry) = masqueraded();
    let (mut sources, mut now) = (Sources::default(), Instant::now());
    let translated = Some(Some(entry.reply.destination));
    assert_eq!(sources.look_up(now, Moment::Left, route, || Found::Entry(entry)), translated);
    for moment in [Moment::Left, Moment::Queued, Moment::Left] {
        now += LIFETIME;
        assert_eq!(sources.look_up(now, moment, route, || Found::Nothing), None, "{moment:?}");
        assert_eq!(sources.look_up(now, moment, route, || panic!("looked up again")), None, "{moment:?}");
        assert_eq!(sources.look_up(now, moment, route.reversed(), || Found::Nothing), Some(None), "{moment:?}");
    }
    // The client's next packet opens it anew.
    now += LIFETIME;
    assert_eq!(sources.look_up(now, Moment::Left, route, || Found::Entry(entry)), translated);
    // Later the same addresses may belong to an untracked connection.
    now += LIFETIME + UNTRACKED;
    assert_eq!(sources.look_up(now, Moment::Left, route, || Found::Nothing), Some(None));
}

//! A split connection whose wireless half is selective repeat over datagrams (Yavatkar and Bhagwat 1994): 50 ms on the
//! wire, on the hop, and from the mobile host's end to its TCP. Only the hop loses packets.

use crate::util::bridge::{Bridge, Crossing};
use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::link::arq::{Header, Timer};
use lasthop_proto::node::{Disposition, Node, Output, Port, Trigger, Why, pump};
use lasthop_proto::packet::headers::{LinkHeader, LinkHeaders};
use lasthop_proto::packet::{Body, Flags, FlowId, Packet, Segment, Side};
use lasthop_proto::pep::srp::{Message, SessionHeader, SrpConfig, SrpEnd};
use lasthop_proto::tcp::config::{Recovery, TcpConfig};
use lasthop_proto::tcp::{State, TickPhase};

const CONFIG: SrpConfig =
    SrpConfig { window: 4, header: 40, timer: Timer::Fixed(millis(1000)), nack_again: None, buffer: 60_000 };

fn tcp() -> TcpConfig {
    lab_with_window(Recovery::NEW_RENO, 10)
}

fn bridge(config: &SrpConfig) -> Bridge {
    Bridge::new(config, tcp(), millis(50))
}

/// Frames that an end put on the hop: a line for each instant, in milliseconds, of datagrams (`d`, with `r` for a
/// retransmission), acknowledgments (`a`) and requests (`n`).
fn told(frames: &[Crossing], end: usize) -> String {
    let mut lines: Vec<(u64, Vec<String>)> = Vec::new();
    for frame in frames.iter().filter(|frame| frame.end == end) {
        let at = frame.at.as_nanos() / 1_000_000;
        let repeated = if matches!(frame.why, Why::Repair(_)) { "r" } else { "" };
        let word = match frame.header.expect("a frame of selective repeat") {
            Header::Data(number) => format!("d{number}{repeated}"),
            Header::Ack(number) => format!("a{number}"),
            Header::Nack(number) => format!("n{number}"),
            Header::Skip(_) => panic!("nothing is given up"),
        };
        match lines.last_mut().filter(|(last, _)| *last == at) {
            Some((_, words)) => words.push(word),
            None => lines.push((at, vec![word])),
        }
    }
    lines.iter().map(|(at, words)| format!("{at}: {}", words.join(" "))).collect::<Vec<_>>().join("\n")
}

/// The SYN is answered at once and begins a session: datagram 0 leaves at 50 ms. The connection is open at 100 ms for
/// the initiator and at 250 ms for the acceptor; then ten segments are written. They reach the base station at 300 ms,
/// and a window of four leaves. The second of them, datagram 2, is lost: datagram 3 shows that at 350 ms, and the
/// request causes a retransmission at 400 ms, after the datagram that the acknowledgment of datagram 1 releases. From
/// 450 ms on all datagrams have arrived.
#[test]
fn a_datagram_that_is_missing_is_asked_for_and_sent_again() {
    let bridge = bridge(&CONFIG).judged_by(|frame| {
        if frame.header == Some(Header::Data(2)) && frame.why == Why::Own { Fate::Lose } else { Fate::Arrive }
    });
    let seen = bridge.seen();
    let mut pair = Pair::of(tcp()).with_middle(bridge);
    pair.send_segments(10);
    pair.finish();
    assert_eq!(pair.first_data(), ms(250));
    let frames = &seen.borrow().frames;
    assert_eq!(told(frames, 0), "50: d0\n300: d1 d2 d3 d4\n400: d5 d2r\n500: d6 d7 d8 d9\n600: d10");
    assert_eq!(told(frames, 1), "100: a1\n350: a2 n2\n450: a6\n550: a7 a8 a9 a10\n650: a11");
    assert_eq!(pair.ends[1].received(), 10_000);
    assert!(pair.sent_by(Side::Initiator).all(|sent| !sent.cause.is_source_retransmission()));
    let repair = frames.iter().find(|frame| matches!(frame.why, Why::Repair(_))).map(|frame| frame.why);
    assert_eq!(repair, Some(Why::Repair(Trigger::Request)));
}

/// The last acknowledgment is lost: after the timer of one second the datagram is retransmitted, acknowledged again,
/// and delivered once.
#[test]
fn what_comes_twice_is_delivered_once() {
    let mut first = true;
    let bridge = bridge(&CONFIG).judged_by(move |frame| {
        let last =
            frame.header == Some(Header::Ack(3)) && std::mem::replace(&mut first, frame.header != Some(Header::Ack(3)));
        if last { Fate::Lose } else { Fate::Arrive }
    });
    let seen = bridge.seen();
    let mut pair = Pair::of(tcp()).with_middle(bridge);
    pair.send_segments(2);
    pair.finish();
    let frames = &seen.borrow().frames;
    assert_eq!(told(frames, 0), "50: d0\n300: d1 d2\n1300: d2r");
    assert_eq!(told(frames, 1), "100: a1\n350: a2 a3\n1350: a3");
    assert_eq!(pair.ends[1].received(), 2000);
}

/// An application that does not read fills its own window (ten segments), then the buffer beyond the hop (four), then
/// that of the base station; when it reads again, the other end learns the new window, and all data arrives.
#[test]
fn buffers_are_bounded_where_the_application_stalls() {
    let config = SrpConfig { buffer: 4000, window: 16, ..CONFIG };
    let bridge = bridge(&config);
    let seen = bridge.seen();
    let mobile = tcp().with(|c| c.receiver.receive_buffer = 10_000);
    let mut pair = Pair::between(tcp(), mobile).with_middle(bridge);
    pair.reading[1] = false;
    pair.send_segments(40);
    pair.run_until(ms(20_000));
    assert_eq!(pair.ends[1].received(), 10_000);
    assert_eq!(seen.borrow().most_waiting, 4000);
    let sent = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).map(|sent| sent.number).max();
    assert!(sent.is_some_and(|sent| (18..=19).contains(&sent)), "{sent:?}: 10 + 4 beyond the hop, 4 here, a probe");
    pair.reading[1] = true;
    pair.finish();
    assert_eq!(pair.ends[1].received(), 40_000);
    assert!(seen.borrow().most_waiting <= 4000 && seen.borrow().most_unacknowledged <= 16 + 3);
}

/// A direction that has ended still carries the window of the other one: 20 segments return through a buffer of four.
#[test]
fn a_direction_that_has_ended_still_tells_of_room() {
    let mut pair = Pair::of(tcp()).with_middle(bridge(&SrpConfig { buffer: 4000, ..CONFIG }));
    pair.send_segments(1);
    pair.client().close();
    pair.run_until(ms(5000));
    pair.server().write(20_000);
    pair.server().close();
    pair.finish();
    assert_eq!((pair.ends[0].received(), pair.states()), (20_000, (State::Closed, State::Closed)));
}

/// Both directions end, and no state of the connection remains. A reset on one side resets the other.
#[test]
fn ends_and_resets_are_passed_on() {
    let bridge_ = bridge(&CONFIG);
    let seen = bridge_.seen();
    let mut pair = Pair::of(tcp()).with_middle(bridge_);
    pair.send_segments(3);
    pair.client().close();
    pair.run_until(ms(5000));
    pair.server().close();
    pair.finish();
    assert_eq!((pair.states(), pair.ends[1].received()), ((State::Closed, State::Closed), 3000));
    assert_eq!(seen.borrow().connections, 0);

    let bridge_ = bridge(&CONFIG);
    let seen = bridge_.seen();
    let mut pair = Pair::of(tcp()).with_middle(bridge_);
    pair.send_segments(3);
    pair.run_until(ms(5000));
    pair.server().abort();
    pair.finish();
    assert_eq!((pair.states(), seen.borrow().connections), ((State::Closed, State::Closed), 0));
}

/// A frame as sent by the other end of the hop.
fn frame(session: u16, header: Header, message: Option<Message>, len: u32) -> Packet {
    let mut link = LinkHeaders::NONE;
    if let Some(message) = message {
        message.put(&mut link);
    }
    header.put(&mut link);
    SessionHeader(session).put(&mut link);
    Packet {
        flow: FlowId(1),
        from: Side::Initiator,
        len,
        body: Body::Datagram { number: 0 },
        link,
        ..Packet::default()
    }
}

fn sent(end: &mut SrpEnd) -> Vec<(Port, Packet)> {
    let mut sent = Vec::new();
    pump(end, ms(1), |output| {
        if let Output::Transmit(port, _, packet) = output {
            sent.push((port, packet));
        }
    });
    sent
}

/// A newer session replaces an older one, never the reverse. A frame of an unknown session is acknowledged, because it
/// arrived before the session was forgotten; a first datagram is not, because it begins a session.
#[test]
fn sessions_are_told_apart() {
    let mut end = SrpEnd::new(CONFIG, tcp().into(), TickPhase::default());
    let forgotten = frame(7, Header::Data(5), Some(Message::Close), 0);
    assert_eq!(end.handle_packet(ms(1), Port::WIRELESS, forgotten), Disposition::Absorbed);
    let answers = sent(&mut end);
    assert_eq!(answers.len(), 1);
    let mut link = answers[0].1.link;
    assert_eq!(link.read(SessionHeader::PROTOCOL).and_then(SessionHeader::from_bytes), Some(SessionHeader(7)));
    link.pop();
    assert_eq!(Header::of(&Packet { link, ..answers[0].1 }), Some(Header::Ack(6)));

    let syns = |packets: Vec<(Port, Packet)>| {
        let is_syn = |packet: &Packet| packet.tcp().is_some_and(|tcp| tcp.flags.has(Flags::SYN));
        packets.iter().filter(|(port, packet)| *port == Port::WIRED && is_syn(packet)).count()
    };
    for (session, begins) in [(7, 1), (7, 0), (6, 0), (8, 1), (u16::MAX, 0)] {
        end.handle_packet(ms(1), Port::WIRELESS, frame(session, Header::Data(0), Some(Message::Open), 0));
        assert_eq!((syns(sent(&mut end)), end.connections()), (begins, 1), "session {session}");
    }
}

/// More bytes than the buffer holds reset the connection. A raw segment of a connection that ends here is dropped; one
/// of another connection is forwarded.
#[test]
fn who_does_not_keep_to_the_protocol_gets_nowhere() {
    let mut end = SrpEnd::new(SrpConfig { buffer: 3000, ..CONFIG }, tcp().into(), TickPhase::default());
    end.handle_packet(ms(1), Port::WIRELESS, frame(0, Header::Data(0), Some(Message::Open), 0));
    let stray = Packet { flow: FlowId(1), body: Body::Tcp(Segment::default()), ..Packet::default() };
    assert_eq!(end.handle_packet(ms(1), Port::WIRELESS, stray), Disposition::Dropped);
    let other = Packet { flow: FlowId(2), ..stray };
    assert_eq!(end.handle_packet(ms(1), Port::WIRELESS, other), Disposition::Forwarded);
    sent(&mut end);
    for number in 1..=4 {
        end.handle_packet(
            ms(1),
            Port::WIRELESS,
            frame(0, Header::Data(number), Some(Message::Data { taken: 0 }), 1000),
        );
        assert!(end.most_waiting() <= 3000);
    }
    let resets = sent(&mut end);
    assert!(
        resets
            .iter()
            .any(|(port, packet)| *port == Port::WIRED && packet.tcp().is_some_and(|tcp| tcp.flags.has(Flags::RST)))
    );
}

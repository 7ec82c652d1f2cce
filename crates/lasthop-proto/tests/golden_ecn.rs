//! Explicit congestion notification between two endpoints (RFC 3168 §6.1): offer and acceptance, the packets that are
//! ECN-capable, and the effect of a mark. 50 ms each way.

use crate::util::{millis, ms};
use lasthop_proto::node::{Node, Output, pump};
use lasthop_proto::packet::{Ecn, Flags, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{DelayedAck, EcnMode, Preset, Recovery, SenderConfig, Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Setup, TickPhase};
use lasthop_proto::time::{Duration, Instant};

/// A packet that crosses the path: time of transmission, sending side, packet.
type Crossing = (Instant, Side, Packet);

/// Fate of a packet by its number, from 0: returns whether it arrives, and may mark it.
type Treat = fn(usize, &mut Packet) -> bool;

/// Two endpoints; packets arrive 50 ms after they were sent, marked or lost as `treat` decides.
pub struct Path {
    pub ends: [Connection; 2],
    now: Instant,
    underway: Vec<Crossing>,
    pub sent: Vec<Crossing>,
    treat: Treat,
}

fn config(ecn: EcnMode) -> TcpConfig {
    TcpConfig::new(Preset::Rfc, Recovery::NEW_RENO).with(|c| {
        c.common.mss = 1000;
        c.common.ecn = ecn;
        c.receiver.delayed_ack = DelayedAck::Off;
        c.common.timestamps = Switch::Off;
        c.common.idle_restart = Switch::Off;
    })
}

impl Path {
    fn new(modes: [EcnMode; 2], treat: Treat) -> Self {
        Self::between(modes.map(config), treat)
    }

    pub fn between([client, server]: [TcpConfig; 2], treat: Treat) -> Self {
        let end = |side, config: TcpConfig| {
            Connection::new(Setup {
                flow: Default::default(),
                side,
                config: config.into(),
                iss: Seq(0),
                phase: TickPhase { slow: Duration::ZERO, fast: Duration::ZERO },
                watch: Switch::Off,
            })
        };
        let mut ends = [end(Side::Initiator, client), end(Side::Acceptor, server)];
        ends[1].listen();
        ends[0].connect();
        Self { ends, now: ms(0), underway: Vec::new(), sent: Vec::new(), treat }
    }

    fn flush(&mut self) {
        for (index, side) in [Side::Initiator, Side::Acceptor].into_iter().enumerate() {
            let mut packets = Vec::new();
            pump(&mut self.ends[index], self.now, |output| {
                if let Output::Transmit(_, _, packet) = output {
                    packets.push(packet);
                }
            });
            for mut crossing in packets {
                let number = self.sent.len();
                self.sent.push((self.now, side, crossing));
                if (self.treat)(number, &mut crossing) {
                    self.underway.push((self.now + millis(50), side, crossing));
                }
            }
        }
    }

    pub fn run(&mut self, until: Instant) {
        self.flush();
        loop {
            let timers = self.ends.iter().filter_map(|end| end.poll_deadline()).min();
            let arrival = self.underway.first().map(|first| first.0);
            let Some(next) = [timers, arrival].into_iter().flatten().min().filter(|next| *next <= until) else { break };
            self.now = next;
            while self.underway.first().is_some_and(|first| first.0 <= next) {
                let (_, from, packet) = self.underway.remove(0);
                let to = &mut self.ends[from.peer().index()];
                to.take_packet(next, &packet);
                let readable = to.readable();
                to.read(readable);
                self.flush();
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(next));
            self.flush();
        }
        self.now = until;
    }

    /// The segments of one side, with data or without.
    pub fn of(&self, side: Side, data: bool) -> impl Iterator<Item = &Packet> {
        let wanted = move |crossing: &&Crossing| crossing.1 == side && (crossing.2.len > 0) == data;
        self.sent.iter().filter(wanted).map(|crossing| &crossing.2)
    }
}

fn flags(packet: &Packet) -> Flags {
    packet.tcp().unwrap().flags
}

fn pass(_: usize, _: &mut Packet) -> bool {
    true
}

/// The offer is ECE and CWR on the SYN, its acceptance ECE on the answer; SYNs are not ECN-capable (RFC 3168 §6.1.1).
#[test]
fn both_ends_must_agree() {
    use EcnMode::{Off, On, Passive};
    let offer = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    let answer = Flags::SYN.with(Flags::ACK);
    for (modes, offered, agreed) in [
        ([Off, On], false, false),
        ([Passive, On], false, false),
        ([Passive, Passive], false, false),
        ([On, Off], true, false),
        ([On, Passive], true, true),
        ([On, On], true, true),
    ] {
        let mut path = Path::new(modes, pass);
        path.ends[0].write(3000);
        path.ends[1].write(3000);
        path.run(ms(1000));
        assert_eq!(flags(&path.sent[0].2), if offered { offer } else { Flags::SYN }, "{modes:?}");
        assert_eq!(flags(&path.sent[1].2), if agreed { answer.with(Flags::ECE) } else { answer }, "{modes:?}");
        for (number, (_, _, packet)) in path.sent.iter().enumerate() {
            let expected = if agreed && packet.len > 0 { Ecn::Ect0 } else { Ecn::NotEct };
            assert_eq!(packet.ecn, expected, "{modes:?} {number}");
            assert!(number < 2 || !flags(packet).meets(Flags::ECE.with(Flags::CWR)), "{modes:?} {number}");
        }
    }
}

/// A SYN without an answer is retransmitted without the offer, because an element of the path may drop it (RFC 3168
/// §6.1.1.1).
#[test]
fn a_syn_that_is_sent_again_offers_nothing() {
    let mut path = Path::new([EcnMode::On, EcnMode::On], |number, _| number > 0);
    path.ends[0].write(3000);
    path.run(ms(3000));
    assert_eq!(flags(&path.sent[1].2), Flags::SYN);
    assert_eq!(flags(&path.sent[2].2), Flags::SYN.with(Flags::ACK));
    assert!(path.of(Side::Initiator, true).count() == 3 && path.sent.iter().all(|sent| sent.2.ecn == Ecn::NotEct));
}

/// Ten segments leave at 100 ms, and the third is marked. Every acknowledgment from the third on echoes the mark; the
/// first echo halves the window without a retransmission; the next new data carries CWR, once; and the echo ends when
/// that data has arrived.
#[test]
fn a_mark_halves_the_window_once() {
    let mut path = Path::new([EcnMode::On, EcnMode::Passive], |number, packet| {
        // SYN, answer, acknowledgment; then data 1 to 10.
        if number == 3 + 2 {
            packet.ecn = Ecn::Ce;
        }
        true
    });
    path.run(ms(100));
    path.ends[0].write(60_000);
    path.run(ms(190));
    assert_eq!(path.of(Side::Initiator, true).count(), 10);
    let before = path.ends[0].window().0;
    // Two segments follow each of the first two acknowledgments, so that 14 - 3 are in flight when the echo comes: 5.5
    // segments. Six of the seven acknowledgments behind it are a window's worth, which opens it by one.
    path.run(ms(200));
    assert_eq!((before, path.ends[0].window()), (10_000, (6500, 5500)));
    path.run(ms(3000));
    assert_eq!(path.ends[0].acked(), 60_000);
    assert!(path.sent.iter().all(|sent| !sent.2.cause.is_source_retransmission()));
    let data: Vec<_> = path.of(Side::Initiator, true).collect();
    let reduced: Vec<_> = data.iter().filter(|packet| flags(packet).has(Flags::CWR)).collect();
    assert_eq!(reduced.len(), 1);
    let cwr = reduced[0].tcp().unwrap().seq;
    let echoes = |packet: &&Packet| flags(packet).has(Flags::ECE);
    let acks: Vec<_> = path.of(Side::Acceptor, false).filter(|packet| !flags(packet).has(Flags::SYN)).collect();
    let numbers: Vec<_> = acks.iter().copied().filter(echoes).map(|packet| packet.tcp().unwrap().ack).collect();
    // From the marked segment up to the last one before the segment with CWR.
    assert_eq!(numbers.first(), Some(&Seq(3001)));
    assert_eq!(numbers.last(), Some(&cwr));
    assert_eq!(numbers.len() as u32, (cwr.0 - 2001) / 1000);
}

/// Retransmissions are not ECN-capable (RFC 3168 §6.1.5). The recovery has reduced the window; the next new data
/// signals that once (CWR).
#[test]
fn what_is_sent_again_takes_no_marks() {
    let mut path = Path::new([EcnMode::On, EcnMode::On], |number, _| number != 3 + 4);
    path.run(ms(100));
    path.ends[0].write(40_000);
    path.run(ms(5000));
    assert_eq!(path.ends[0].acked(), 40_000);
    let (mut again, mut new) = (0, 0);
    for packet in path.of(Side::Initiator, true) {
        if packet.cause.is_source_retransmission() {
            again += 1;
            assert_eq!(packet.ecn, Ecn::NotEct);
        } else {
            new += 1;
            assert_eq!(packet.ecn, Ecn::Ect0);
        }
    }
    assert_eq!((again, new), (1, 40));
    assert_eq!(path.of(Side::Initiator, true).filter(|packet| flags(packet).has(Flags::CWR)).count(), 1);
}

/// A modern sender, and a peer that echoes marks but sends no SACK.
fn without_sack(preset: Preset) -> [TcpConfig; 2] {
    let config = TcpConfig::preset(preset).with(|c| {
        c.common.mss = 1000;
        c.common.ecn = EcnMode::On;
        c.common.idle_restart = Switch::Off;
    });
    let peer = config.clone().with(|c| {
        c.sender = SenderConfig::new(preset, Recovery::RENO);
        c.receiver.delayed_ack = DelayedAck::Off;
    });
    [config, peer]
}

const TODAY: [Preset; 3] = [Preset::Linux618, Preset::Linux618Bbr, Preset::Rfc2026];

/// The handshake's three packets, then data 1 to 10: the third data segment is marked.
fn mark_the_third(number: usize, packet: &mut Packet) -> bool {
    if number == 3 + 2 {
        packet.ecn = Ecn::Ce;
    }
    true
}

/// A modern sender also responds to marks from a peer without SACK: once, and without a retransmission.
#[test]
fn a_mark_is_answered_without_sack() {
    for preset in TODAY {
        let mut path = Path::between(without_sack(preset), mark_the_third);
        path.run(ms(100));
        path.ends[0].write(60_000);
        path.run(ms(3000));
        assert_eq!(path.ends[0].acked(), 60_000, "{preset:?}");
        assert!(path.sent.iter().all(|sent| !sent.2.cause.is_source_retransmission()), "{preset:?}");
        let data: Vec<_> = path.of(Side::Initiator, true).collect();
        assert!(data.iter().all(|packet| packet.ecn == Ecn::Ect0 && packet.tcp().unwrap().options.sack.is_empty()));
        assert_eq!(data.iter().filter(|packet| flags(packet).has(Flags::CWR)).count(), 1, "{preset:?}");
        let echoed = path.of(Side::Acceptor, false).filter(|packet| flags(packet).has(Flags::ECE)).count();
        assert!(echoed > 1, "{preset:?}: the answer to the offer, and at least one echo");
    }
}

/// Marks and losses together: one segment, three of a window, the last ones, a retransmission, acknowledgments. All
/// losses are repaired, and no wait is longer than a few timeouts.
#[test]
fn marks_and_losses_without_sack_stall_nothing() {
    let cases: [(&str, Treat); 6] = [
        ("the third", |number, packet| mark_the_third(number, packet) && number != 3 + 3),
        ("three", |number, packet| mark_the_third(number, packet) && ![3 + 3, 3 + 5, 3 + 8].contains(&number)),
        ("the second to the tenth", |number, packet| mark_the_third(number, packet) && !(4..13).contains(&number)),
        ("the last", |number, packet| {
            mark_the_third(number, packet)
                && (packet.len == 0 || packet.tcp().unwrap().seq.0 < 58_001 || packet.cause.is_source_retransmission())
        }),
        ("the fifth, and retransmissions", |number, packet| {
            let again = packet.cause.is_source_retransmission() && number < 40;
            mark_the_third(number, packet) && number != 3 + 4 && !again
        }),
        ("every third acknowledgment", |number, packet| {
            packet.ecn = if number % 7 == 6 && packet.len > 0 { Ecn::Ce } else { packet.ecn };
            number < 3 || packet.len > 0 || number % 3 > 0
        }),
    ];
    for preset in TODAY {
        for (name, treat) in cases {
            let mut path = Path::between(without_sack(preset), treat);
            path.run(ms(100));
            path.ends[0].write(60_000);
            path.ends[0].close();
            path.run(ms(20_000));
            assert_eq!(path.ends[0].acked(), 60_000, "{preset:?}: {name}");
            assert_eq!(path.ends[1].received(), 60_000, "{preset:?}: {name}");
            let longest = path.sent.windows(2).map(|pair| pair[1].0.since(pair[0].0)).max().unwrap();
            assert!(longest < Duration::from_secs(5), "{preset:?}: {name}: silent for {longest}");
        }
    }
}

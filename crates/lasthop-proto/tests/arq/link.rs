//! Two ends joined by a channel that the test controls.

use std::collections::BTreeMap;

use lasthop_proto::link::arq::{Arq, ArqConfig, Delivery, Header, MAX_WINDOW, Protocol, Timer};
use lasthop_proto::node::{Disposition, Node, Output, Port, Why, pump};
use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Priority};
use lasthop_proto::time::{Duration, Instant};

/// Header bytes of packets.
pub const HEADER: u16 = 40;

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn ms(at: u64) -> Instant {
    Instant::ZERO + millis(at)
}

/// Returns a window of 8, a timer of 600 ms, frames longer by 4 bytes, single NACKs, no frame given up.
pub fn config(protocol: Protocol) -> ArqConfig {
    ArqConfig {
        protocol,
        window: 8,
        header: 4,
        timer: Timer::Fixed(millis(600)),
        nack_again: None,
        max_retransmissions: None,
        delivery: Delivery::InOrder,
        queue: 50,
    }
}

/// Returns a packet identified by its number.
pub fn packet(number: u32) -> Packet {
    let body = Body::Datagram { number };
    Packet { flow: FlowId(number % 3), header_len: HEADER, len: 100, cause: Cause::Datagram, body, ..Packet::default() }
}

pub fn number(packet: &Packet) -> u32 {
    match packet.body {
        Body::Datagram { number } => number,
        _ => panic!("{packet:?}"),
    }
}

/// Returns the delays after which the copies of a frame arrive, given the end that sent it.
pub type Channel<'a> = Box<dyn FnMut(usize, &Packet) -> Vec<Duration> + 'a>;

pub struct Link<'a> {
    pub now: Instant,
    pub ends: [Arq; 2],
    pub config: ArqConfig,
    pub channel: Channel<'a>,
    /// Packets delivered by each end, with their times.
    pub taken: [Vec<(Instant, Packet)>; 2],
    /// Packets that each end accepted.
    pub accepted: [Vec<u32>; 2],
    /// Log of events, one line each.
    pub trace: Vec<String>,
    agenda: BTreeMap<(Instant, u64), (usize, Packet)>,
    order: u64,
}

impl<'a> Link<'a> {
    pub fn new(config: ArqConfig, channel: impl FnMut(usize, &Packet) -> Vec<Duration> + 'a) -> Self {
        Self {
            now: Instant::ZERO,
            ends: [Arq::new(config.clone()), Arq::new(config.clone())],
            config,
            channel: Box::new(channel),
            taken: [vec![], vec![]],
            accepted: [vec![], vec![]],
            trace: vec![],
            agenda: BTreeMap::new(),
            order: 0,
        }
    }

    /// Offers a packet from the inside.
    pub fn offer(&mut self, end: usize, packet: Packet) {
        let dropped = self.ends[end].dropped();
        self.handle(end, Port::WIRED, packet);
        if self.ends[end].dropped() == dropped {
            self.accepted[end].push(number(&packet));
        }
    }

    pub fn handle(&mut self, end: usize, port: Port, packet: Packet) {
        // A premature wake-up has no effect.
        self.ends[end].handle_timeout(self.now);
        assert_eq!(self.ends[end].poll_transmit(self.now, &mut Packet::default()), None);
        let outputs = feed(&mut self.ends[end], self.now, port, packet);
        self.carry(end, outputs);
    }

    fn flush(&mut self, end: usize) {
        let outputs = drain(&mut self.ends[end], self.now).into_iter().map(|(port, _, packet)| (port, packet));
        self.carry(end, outputs.collect());
    }

    fn carry(&mut self, end: usize, outputs: Vec<(Port, Packet)>) {
        let now = self.now;
        for (port, packet) in outputs {
            if port == Port::WIRED {
                self.note(end, &packet, "");
                self.taken[end].push((now, packet));
                continue;
            }
            let arrivals = (self.channel)(end, &packet);
            self.note(end, &packet, if arrivals.is_empty() { " lost" } else { "" });
            for after in arrivals {
                self.order += 1;
                self.agenda.insert((now + after, self.order), (1 - end, packet));
            }
        }
        self.check(end);
    }

    fn check(&self, end: usize) {
        let (arq, window) = (&self.ends[end], usize::from(self.config.window.clamp(1, MAX_WINDOW)));
        assert!(arq.unacknowledged() <= window, "{} frames", arq.unacknowledged());
        assert!(arq.waiting() <= self.config.queue as usize, "{} packets wait", arq.waiting());
        assert!(arq.held() < window, "{} held", arq.held());
        let keeps = self.config.protocol == Protocol::SelectiveRepeat && self.config.delivery == Delivery::InOrder;
        assert!(keeps || arq.held() == 0, "{} held", arq.held());
    }

    fn note(&mut self, end: usize, packet: &Packet, fate: &str) {
        let what = match Header::of(packet) {
            None => format!("out {}", number(packet)),
            Some(header) => {
                let control = packet.body == Body::Control;
                assert_eq!(control, !matches!(header, Header::Data(_)));
                assert_eq!(control, packet.cause == Cause::LinkControl);
                let resent = packet.cause.is_local_retransmission();
                assert_eq!(packet.priority == Priority::Urgent, control || resent);
                let why = match packet.cause {
                    Cause::LinkNack => " nack",
                    Cause::LinkTimer => " timer",
                    _ => "",
                };
                describe(header) + why
            }
        };
        let at = (self.now.as_nanos() + 500_000) / 1_000_000;
        self.trace.push(format!("{at} {} {what}{fate}", ["a", "b"][end]));
    }

    /// Advances the time to `until`.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            let arrival = self.agenda.keys().next().map(|&(at, _)| at);
            let deadlines = self.ends.iter().filter_map(|end| end.poll_deadline());
            let next = deadlines.chain(arrival).min().filter(|&at| at <= until);
            let Some(at) = next else { break };
            assert!(at >= self.now);
            self.now = at;
            if arrival == Some(at)
                && let Some((_, (end, packet))) = self.agenda.pop_first()
            {
                // The packet goes first, even if a timer expires now.
                self.ends[end].handle_packet(at, Port::WIRELESS, packet);
                self.flush(end);
                continue;
            }
            for end in 0..2 {
                if self.ends[end].poll_deadline() == Some(at) {
                    self.ends[end].handle_timeout(at);
                    self.flush(end);
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// Returns the packet numbers that `end` delivered.
    pub fn numbers(&self, end: usize) -> Vec<u32> {
        self.taken[end].iter().map(|(_, packet)| number(packet)).collect()
    }

    pub fn is_idle(&self) -> bool {
        self.ends.iter().all(|end| end.unacknowledged() == 0 && end.waiting() == 0 && end.held() == 0)
    }
}

pub fn describe(header: Header) -> String {
    match header {
        Header::Data(number) => format!("data {number}"),
        Header::Ack(number) => format!("ack {number}"),
        Header::Nack(number) => format!("nack {number}"),
        Header::Skip(number) => format!("skip {number}"),
    }
}

/// Returns an end's output for a packet. The packet's fate must match the end's disposition.
pub fn feed(end: &mut Arq, now: Instant, port: Port, packet: Packet) -> Vec<(Port, Packet)> {
    let disposition = end.handle_packet(now, port, packet);
    let outputs = drain(end, now);
    let across = if port == Port::WIRED { Port::WIRELESS } else { Port::WIRED };
    let given: Vec<_> = outputs.iter().filter(|(_, why, _)| *why == Why::Given).collect();
    match disposition {
        Disposition::Forwarded | Disposition::Changed => {
            let [(to, _, sent)] = given[..] else { panic!("{disposition:?}, {given:?}") };
            assert_eq!((*to, sent.body, sent.len), (across, packet.body, packet.len));
            assert_eq!(disposition == Disposition::Forwarded, *sent == packet);
        }
        Disposition::Absorbed | Disposition::Held | Disposition::Dropped => assert_eq!(given, Vec::<&_>::new()),
    }
    for (port, why, packet) in &outputs {
        // A packet passed on may be of any kind, including another protocol's control packet or retransmission.
        if !matches!(why, Why::Given | Why::Released) {
            let repeats = packet.cause.is_local_retransmission() && *port == Port::WIRELESS;
            assert_eq!(matches!(why, Why::Repair(_)), repeats, "{why:?} {packet:?}");
            assert_eq!(*why == Why::Control, packet.body == Body::Control, "{why:?} {packet:?}");
        }
    }
    outputs.into_iter().map(|(port, _, packet)| (port, packet)).collect()
}

/// Returns an end's output at a time.
pub fn wake(end: &mut Arq, now: Instant) -> Vec<(Port, Packet)> {
    end.handle_timeout(now);
    drain(end, now).into_iter().map(|(port, _, packet)| (port, packet)).collect()
}

fn drain(end: &mut Arq, now: Instant) -> Vec<(Port, Why, Packet)> {
    let mut outputs = vec![];
    let deadline = pump(end, now, |output| match output {
        Output::Transmit(port, why, packet) => outputs.push((port, why, packet)),
        Output::Event(..) => panic!("{output:?}"),
    });
    assert!(deadline.is_none_or(|deadline| deadline > now), "{deadline:?} at {now}");
    outputs
}

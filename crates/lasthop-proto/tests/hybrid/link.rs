//! Two ends joined by a channel that the test controls.

use std::collections::BTreeMap;

use lasthop_proto::link::hybrid::node::TwoEnded;
use lasthop_proto::link::hybrid::{Bundle, Header, HopConfig, Medium, Multipath, RateRule, Repair, Share};
use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::headers::LinkHeaders;
use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Segment};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn ms(at: u64) -> Instant {
    Instant::ZERO + millis(at)
}

/// Rate at which a full-size frame takes 1 ms.
pub const RATE: u64 = 12_000_000;

pub fn config(repair: Repair) -> HopConfig {
    let (rate, medium) = (RateRule::Fixed(RATE), Medium::Own);
    HopConfig {
        rate,
        repair,
        medium,
        header: 58,
        queue: Some(1000),
        memory: 64 << 20,
        target: millis(5),
        interval: millis(100),
    }
}

pub const SHARE: Repair = Repair::Share(Share { data: 20, coded: 3, wait: Duration::from_millis(8) });

/// Returns a segment of a flow, full-size with the hop's header.
pub fn segment(flow: u32, number: u32) -> Packet {
    let body = Body::Tcp(Segment { seq: Seq(number), ..Segment::default() });
    Packet { flow: FlowId(flow), header_len: 52, len: 1390, body, ..Packet::default() }
}

/// Returns a segment without data.
pub fn acknowledgment(number: u32) -> Packet {
    let body = Body::Tcp(Segment { seq: Seq(number), ..Segment::default() });
    Packet { flow: FlowId(9), header_len: 52, len: 0, body, ..Packet::default() }
}

/// Returns a datagram of a call.
pub fn datagram(flow: u32, number: u32) -> Packet {
    let body = Body::Datagram { number };
    Packet { flow: FlowId(flow), header_len: 28, len: 172, cause: Cause::Datagram, body, ..Packet::default() }
}

pub fn number(packet: &Packet) -> u32 {
    match packet.body {
        Body::Tcp(segment) => segment.seq.0,
        Body::Datagram { number } => number,
        _ => panic!("{packet:?}"),
    }
}

/// Returns the delays after which the copies of a frame arrive, given the time, and the end and the port that sent it.
pub type Channel<'a> = Box<dyn FnMut(Instant, usize, Port, &Packet) -> Vec<Duration> + 'a>;

pub struct Link<'a> {
    pub now: Instant,
    pub ends: [TwoEnded; 2],
    pub channel: Channel<'a>,
    /// Packets delivered by each end, with their times.
    pub taken: [Vec<(Instant, Packet)>; 2],
    /// Frames sent by each end, with their times and whether they were lost.
    pub sent: [Vec<(Instant, Packet, bool)>; 2],
    agenda: BTreeMap<(Instant, u64), (usize, Port, Packet)>,
    order: u64,
}

impl<'a> Link<'a> {
    pub fn new(config: HopConfig, mut channel: impl FnMut(Instant, usize, &Packet) -> Vec<Duration> + 'a) -> Self {
        Self::over(config, &[], move |now, end, _, packet| channel(now, end, packet))
    }

    /// Returns two ends with more paths, at these rates.
    pub fn over(
        config: HopConfig,
        more: &[RateRule],
        channel: impl FnMut(Instant, usize, Port, &Packet) -> Vec<Duration> + 'a,
    ) -> Self {
        Self::with(config, Multipath::Bond, more, channel)
    }

    /// Returns two ends with more paths, at these rates, and this use of them.
    pub fn with(
        config: HopConfig,
        multipath: Multipath,
        more: &[RateRule],
        channel: impl FnMut(Instant, usize, Port, &Packet) -> Vec<Duration> + 'a,
    ) -> Self {
        let more = more.iter().map(|rate| (*rate, config.header)).collect();
        Self::with_bundle(config, &Bundle { multipath, more, terms: vec![] }, channel)
    }

    /// Returns two ends with the paths of a bundle.
    pub fn with_bundle(
        config: HopConfig,
        bundle: &Bundle,
        channel: impl FnMut(Instant, usize, Port, &Packet) -> Vec<Duration> + 'a,
    ) -> Self {
        let end = || TwoEnded::new(config.clone()).over(bundle);
        Self {
            now: Instant::ZERO,
            ends: [end(), end()],
            channel: Box::new(channel),
            taken: [vec![], vec![]],
            sent: [vec![], vec![]],
            agenda: BTreeMap::new(),
            order: 0,
        }
    }

    /// Offers a packet from the inside.
    pub fn offer(&mut self, end: usize, packet: Packet) {
        self.handle(end, Port::WIRED, packet);
    }

    pub fn handle(&mut self, end: usize, port: Port, packet: Packet) {
        self.ends[end].handle_packet(self.now, port, packet);
        self.flush(end);
    }

    fn flush(&mut self, end: usize) {
        let now = self.now;
        for (port, packet) in drain(&mut self.ends[end], now) {
            if port == Port::WIRED {
                assert_eq!(packet.link, LinkHeaders::NONE);
                self.taken[end].push((now, packet));
                continue;
            }
            let arrivals = (self.channel)(now, end, port, &packet);
            self.sent[end].push((now, packet, arrivals.is_empty()));
            for after in arrivals {
                self.order += 1;
                self.agenda.insert((now + after, self.order), (1 - end, port, packet));
            }
        }
        check(&self.ends[end]);
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
                && let Some((_, (end, port, packet))) = self.agenda.pop_first()
            {
                self.handle(end, port, packet);
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

    /// Returns the packet numbers of a flow that `end` delivered.
    pub fn numbers(&self, end: usize, flow: u32) -> Vec<u32> {
        let of_flow = self.taken[end].iter().filter(|(_, packet)| packet.flow == FlowId(flow));
        of_flow.map(|(_, packet)| number(packet)).collect()
    }

    /// Returns the frames that `end` sent, one line each: the time in milliseconds, the contents, and the reason unless
    /// it is the first transmission.
    pub fn lines(&self, end: usize) -> Vec<String> {
        let line = |(at, packet, lost): &(Instant, Packet, bool)| {
            let why = match packet.cause {
                Cause::LinkNack => " again",
                Cause::LinkTimer => " probe",
                Cause::LinkRepair => " ahead",
                _ => "",
            };
            let lost = if *lost { " lost" } else { "" };
            let at = at.as_nanos() as f64 / 1e6;
            format!("{at} {}{why}{lost}", describe(packet))
        };
        self.sent[end].iter().map(line).collect()
    }
}

/// Checks that no state exceeds its bound. A third of 64 MiB are 14,913 packets of 1500 bytes.
pub fn check(end: &TwoEnded) {
    let sizes = end.hop().sizes();
    assert!(sizes.waiting <= 1000, "{sizes:?}");
    assert!(sizes.symbols <= 14_913 && sizes.transmissions <= 1 << 17, "{sizes:?}");
    assert!(sizes.planned <= 6 * 14_913 && sizes.held <= 14_914 && sizes.span <= 1 << 16, "{sizes:?}");
    let stored = if end.hop().path_count() > 1 { 2048 } else { 256 };
    assert!(sizes.decoder.0 <= stored && sizes.decoder.1 <= 32 && sizes.flows <= 4096, "{sizes:?}");
    assert!(sizes.connections <= 4096, "{sizes:?}");
}

fn describe(packet: &Packet) -> String {
    match Header::of(packet) {
        Some(Header::Symbol { packet, symbol, label }) => {
            format!("#{packet} symbol {symbol} chain {}", label.chain)
        }
        Some(Header::Repair { packet, first, count, key }) => format!("#{packet} repair {first}+{count} key {key}"),
        Some(Header::Feedback { packet: number }) => {
            let Body::Report(report) = packet.body else { panic!("{packet:?}") };
            format!("#{number} feedback {} floor {}", report.largest, report.floor)
        }
        Some(Header::Floor { packet, symbol }) => format!("#{packet} floor {symbol}"),
        header => format!("{header:?}"),
    }
}

/// Returns an end's output for a packet.
pub fn feed(end: &mut TwoEnded, now: Instant, port: Port, packet: Packet) -> Vec<(Port, Packet)> {
    end.handle_packet(now, port, packet);
    drain(end, now)
}

/// Returns an end's output at a time.
pub fn wake(end: &mut TwoEnded, now: Instant) -> Vec<(Port, Packet)> {
    end.handle_timeout(now);
    drain(end, now)
}

fn drain(end: &mut TwoEnded, now: Instant) -> Vec<(Port, Packet)> {
    let mut outputs = vec![];
    let deadline = pump(end, now, |output| match output {
        Output::Transmit(port, _, packet) => outputs.push((port, packet)),
        Output::Event(..) => panic!("{output:?}"),
    });
    assert!(deadline.is_none_or(|deadline| deadline > now), "{deadline:?} at {now}");
    outputs
}

/// Returns the packets of flow 0 that arrived at end 1, after checking that each arrived at most once, and in order while
/// none was passed on early or given up.
pub fn once_and_in_order(link: &Link<'_>) -> Result<Vec<u32>, TestCaseError> {
    let numbers = link.numbers(1, 0);
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    prop_assert_eq!(sorted.len(), numbers.len(), "a packet arrived twice");
    let counters = [link.ends[0].hop().counters(), link.ends[1].hop().counters()];
    if counters[1].released == 0 && counters[0].given_up == 0 {
        prop_assert!(numbers.is_sorted());
    }
    Ok(numbers)
}

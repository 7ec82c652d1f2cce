//! Drawing of random cases.

use lasthop_proto::packet::{Ecn, Flags};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::Duration;

use super::case::{Case, Kind, Observed, Opens, Step, Stimulus};
use super::player::{FIRST_TIMESTAMP, Player};
use crate::script::{EcnSpec, OptionsSpec, SegmentSpec, TcpOption};
use crate::stack::Stack;

/// Payload of full segments.
const MSS: u32 = 1000;

/// Maximum number of bytes that an application writes in a case.
const MOST_WRITTEN: u64 = 60_000;

/// Draws the case of a kind and seed. `guide` is the stack that determines which data can be acknowledged.
pub fn generate(kind: Kind, seed: u64, guide: &mut dyn Stack) -> Case {
    let mut draws = Root(seed).stream(&format!("conform/{}", kind.name()));
    let opens = if matches!(kind, Kind::Handshake | Kind::Close | Kind::Ecn) && draws.chance(0.4) {
        Opens::Stack
    } else {
        Opens::Script
    };
    let mut drawing = Drawing {
        kind,
        opens,
        has_sack: draws.chance(0.85),
        has_timestamps: draws.chance(0.4),
        shift: if draws.chance(0.8) { 7 } else { 0 },
        rtt: [5, 20, 50, 100][draws.below(4) as usize],
        draws,
        player: Player::new(guide, kind, opens),
        steps: Vec::new(),
        script_next: 1,
        acked: 1,
        written: 0,
        window: 60_000,
        has_finished: false,
    };
    match kind {
        Kind::Handshake => drawing.handshake_abuse(),
        _ => drawing.open(),
    }
    let count = 4 + drawing.draws.below(16);
    for _ in 0..count {
        match kind {
            Kind::Sender => drawing.sender(),
            Kind::Receiver => drawing.receiver(),
            Kind::Window => drawing.window(),
            Kind::Close => drawing.close(),
            Kind::Ecn => drawing.ecn(),
            Kind::Handshake => drawing.after_handshake(),
        }
    }
    let steps = drawing.steps;
    Case { kind, seed, opens, steps }
}

struct Drawing<'a> {
    kind: Kind,
    opens: Opens,
    draws: Stream,
    player: Player<'a>,
    steps: Vec<Step>,
    has_sack: bool,
    has_timestamps: bool,
    shift: u8,
    /// Round trip of the script's answers, in milliseconds.
    rtt: u64,
    /// Next sequence number of the script.
    script_next: u32,
    /// Lowest number of the stack that the script has not acknowledged.
    acked: u32,
    written: u64,
    /// Window of the script, in bytes.
    window: u32,
    has_finished: bool,
}

impl Drawing<'_> {
    fn push(&mut self, after: Duration, what: Stimulus) {
        let step = Step { after, what };
        self.player.step(&step);
        self.steps.push(step);
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.draws.below(from.len() as u64) as usize]
    }

    /// Returns a pause: none, some milliseconds, or around a round trip.
    fn pause(&mut self) -> Duration {
        let rtt = self.rtt * 1000;
        let micros = match self.draws.below(8) {
            0..=2 => 0,
            3 | 4 => 1000 + self.draws.below(5000),
            5 => rtt / 2,
            6 => rtt,
            _ => rtt * (1 + self.draws.below(4)),
        };
        Duration::from_micros(micros)
    }

    /// Returns one past the highest number of the stack that the script has seen.
    fn highest(&self) -> u32 {
        let end = |sent: &Observed| {
            let flags = Flags(sent.segment.flags);
            let control = u32::from(flags.has(Flags::FIN)) + u32::from(flags.has(Flags::SYN));
            sent.segment.seq.wrapping_add(sent.segment.len + control)
        };
        let data = self.player.sent().iter().filter(|sent| !Flags(sent.segment.flags).has(Flags::RST));
        data.map(end).max().unwrap_or(1).max(1)
    }

    /// Returns the ends of the stack's segments above the acknowledged number.
    fn boundaries(&self) -> Vec<u32> {
        let mut ends: Vec<u32> = self
            .player
            .sent()
            .iter()
            .filter(|sent| sent.segment.len > 0 || Flags(sent.segment.flags).has(Flags::FIN))
            .map(|sent| sent.segment.seq + sent.segment.len + u32::from(Flags(sent.segment.flags).has(Flags::FIN)))
            .filter(|end| *end > self.acked)
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn field(&self, bytes: u32) -> u16 {
        (bytes >> if self.opens == Opens::Script || !self.steps.is_empty() { self.shift } else { 0 }).min(0xffff) as u16
    }

    /// Returns the options of a segment after the handshake.
    fn options(&mut self, sack: Vec<(u32, u32)>) -> OptionsSpec {
        let mut list = Vec::new();
        if self.has_timestamps {
            let val = 1000 + (self.player.now().as_nanos() / 1_000_000) as u32;
            let echoed = self.player.sent().iter().rev().find_map(|sent| match &sent.segment.options {
                OptionsSpec::List(list) => list.iter().find_map(|option| match option {
                    TcpOption::Timestamps(val, _) => Some(*val),
                    _ => None,
                }),
                OptionsSpec::Any => None,
            });
            list.push(TcpOption::Timestamps(val, echoed.unwrap_or(FIRST_TIMESTAMP)));
        }
        if !sack.is_empty() && self.has_sack {
            list.push(TcpOption::Sack(sack));
        }
        OptionsSpec::List(list)
    }

    fn segment(&mut self, flags: Flags, seq: u32, len: u32, sack: Vec<(u32, u32)>) -> SegmentSpec {
        let options = self.options(sack);
        SegmentSpec {
            flags: flags.0,
            seq,
            len,
            ack: flags.has(Flags::ACK).then_some(self.acked),
            window: Some(self.field(self.window)),
            options,
            ..SegmentSpec::default()
        }
    }

    fn send(&mut self, after: Duration, spec: SegmentSpec) {
        self.push(after, Stimulus::Segment(spec));
    }

    fn syn(&mut self, flags: Flags) -> SegmentSpec {
        let mut list = vec![TcpOption::Mss(MSS as u16)];
        if self.has_sack {
            list.push(TcpOption::SackPermitted);
        }
        if self.has_timestamps {
            let echo = if flags.has(Flags::ACK) { FIRST_TIMESTAMP } else { 0 };
            list.push(TcpOption::Timestamps(1000, echo));
        }
        if self.shift > 0 {
            list.push(TcpOption::WindowScale(self.shift));
        }
        SegmentSpec {
            flags: flags.0,
            ack: flags.has(Flags::ACK).then_some(1),
            window: Some(self.window.min(0xffff) as u16),
            options: OptionsSpec::List(list),
            ..SegmentSpec::default()
        }
    }

    /// Completes a handshake.
    fn open(&mut self) {
        let rtt = Duration::from_millis(self.rtt);
        if self.kind == Kind::Window && self.draws.chance(0.5) {
            self.window = MSS * (1 + self.draws.below(8) as u32) + self.pick(&[0, 100, 480]);
        }
        let marks = if self.kind == Kind::Ecn && self.draws.chance(0.85) { Flags::ECE } else { Flags::default() };
        match self.opens {
            Opens::Script => {
                let both = if marks == Flags::ECE { marks.with(Flags::CWR) } else { marks };
                let syn = self.syn(Flags::SYN.with(both));
                self.send(Duration::from_millis(1), syn);
                let ack = self.segment(Flags::ACK, 1, 0, Vec::new());
                self.send(rtt, ack);
            }
            Opens::Stack => {
                let syn = self.syn(Flags::SYN.with(Flags::ACK).with(marks));
                self.send(rtt, syn);
            }
        }
    }

    fn write(&mut self, after: Duration) {
        let bytes = match self.draws.below(4) {
            0 => 1 + self.draws.below(u64::from(MSS)),
            1 => u64::from(MSS),
            _ => u64::from(MSS) * (1 + self.draws.below(14)) + self.pick(&[0, 0, 300]),
        };
        if self.written + bytes <= MOST_WRITTEN {
            self.written += bytes;
            self.push(after, Stimulus::Write(bytes));
        }
    }

    /// Acknowledges some of the data in flight, in order or selectively.
    fn acknowledge(&mut self, after: Duration) {
        let ends = self.boundaries();
        let flags = Flags::ACK;
        if ends.is_empty() {
            let ack = self.segment(flags, self.script_next, 0, Vec::new());
            return self.send(after, ack);
        }
        let at = self.draws.below(ends.len() as u64) as usize;
        let starts: Vec<u32> = std::iter::once(self.acked).chain(ends.iter().copied()).collect();
        match self.draws.below(10) {
            0..=4 => {
                self.acked = ends[at];
                let ack = self.segment(flags, self.script_next, 0, Vec::new());
                self.send(after, ack);
            }
            5..=7 if ends.len() > 1 => {
                // Blocks above a hole.
                let first = 1 + self.draws.below(ends.len() as u64 - 1) as usize;
                let last = first + self.draws.below((ends.len() - first) as u64) as usize;
                let ack = self.segment(flags, self.script_next, 0, vec![(starts[first], ends[last])]);
                self.send(after, ack);
            }
            8 if self.acked > 1 => {
                // A duplicate report of data that was acknowledged.
                let left = self.acked.saturating_sub(MSS).max(1);
                let ack = self.segment(flags, self.script_next, 0, vec![(left, self.acked)]);
                self.send(after, ack);
            }
            _ => {
                let ack = self.segment(flags, self.script_next, 0, Vec::new());
                self.send(after, ack);
            }
        }
    }

    fn sender(&mut self) {
        let after = self.pause();
        if self.written == 0 || self.draws.chance(0.25) { self.write(after) } else { self.acknowledge(after) }
    }

    /// Sends data of the script: the next, or out of order, repeated, overlapping.
    fn data(&mut self, after: Duration, flags: Flags) {
        let len = if self.draws.chance(0.7) { MSS } else { 1 + self.draws.below(u64::from(MSS)) as u32 };
        let next = self.script_next;
        let seq = match self.draws.below(10) {
            0..=5 => next,
            6 | 7 => next + MSS * (1 + self.draws.below(4) as u32),
            8 => next.saturating_sub(MSS * self.draws.below(3) as u32).max(1),
            _ => next.saturating_sub(self.draws.below(500) as u32).max(1),
        };
        let push = if self.draws.chance(0.3) { Flags::PSH } else { Flags::default() };
        let spec = self.segment(flags.with(push), seq, len, Vec::new());
        if seq == next {
            self.script_next += len;
        }
        self.send(after, spec);
    }

    fn receiver(&mut self) {
        let after = self.pause();
        if self.draws.chance(0.2) {
            let bytes = self.pick(&[500, 1000, 4000, 100_000]);
            self.push(after, Stimulus::Read(bytes));
        } else {
            self.data(after, Flags::ACK);
        }
    }

    fn window(&mut self) {
        let after = match self.draws.below(5) {
            0 => Duration::from_millis(200 + self.draws.below(900)),
            _ => self.pause(),
        };
        if self.written == 0 || self.draws.chance(0.25) {
            return self.write(after);
        }
        self.window = match self.draws.below(6) {
            0 => 0,
            1 => 1 + self.draws.below(2000) as u32,
            2 | 3 => MSS * (1 + self.draws.below(6) as u32),
            4 => self.window,
            _ => 60_000,
        };
        self.acknowledge(after);
    }

    fn close(&mut self) {
        let after = self.pause();
        match self.draws.below(10) {
            0 => self.write(after),
            1 | 2 => self.acknowledge(after),
            3 => self.data(after, Flags::ACK),
            4 => {
                self.acked = self.highest();
                let ack = self.segment(Flags::ACK, self.script_next, 0, Vec::new());
                self.send(after, ack);
            }
            5 => self.push(after, Stimulus::Shutdown),
            6 => self.push(after, Stimulus::Close),
            7 | 8 => {
                let (seq, had) = (self.script_next, self.has_finished);
                if !had {
                    self.script_next += 1;
                    self.has_finished = true;
                }
                if self.draws.chance(0.5) {
                    self.acked = self.highest();
                }
                let spec = self.segment(Flags::FIN.with(Flags::ACK), seq - u32::from(had), 0, Vec::new());
                self.send(after, spec);
            }
            _ => {
                let seq = if self.draws.chance(0.6) { self.script_next } else { self.script_next + 500 };
                let flags = if self.draws.chance(0.5) { Flags::RST } else { Flags::RST.with(Flags::ACK) };
                let spec = self.segment(flags, seq, 0, Vec::new());
                self.send(after, spec);
            }
        }
    }

    fn ecn(&mut self) {
        let after = self.pause();
        match self.draws.below(8) {
            0 => self.write(after),
            1..=3 => {
                let ends = self.boundaries();
                if let Some(end) = ends.get(self.draws.below(ends.len().max(1) as u64) as usize) {
                    self.acked = *end;
                }
                let echo = if self.draws.chance(0.4) { Flags::ECE } else { Flags::default() };
                let ack = self.segment(Flags::ACK.with(echo), self.script_next, 0, Vec::new());
                self.send(after, ack);
            }
            _ => {
                let flags = if self.draws.chance(0.25) { Flags::ACK.with(Flags::CWR) } else { Flags::ACK };
                self.data(after, flags);
                // The step was applied without the mark; both stacks are led by the written case.
                let ecn = self.pick(&[Ecn::Ect0, Ecn::Ect0, Ecn::Ce]);
                if let Some(Step { what: Stimulus::Segment(spec), .. }) = self.steps.last_mut() {
                    spec.ecn = Some(EcnSpec::Is(ecn));
                }
            }
        }
    }

    /// Opens with segments that do not belong there.
    fn handshake_abuse(&mut self) {
        let count = 1 + self.draws.below(4);
        if self.opens == Opens::Script {
            let syn = self.syn(Flags::SYN);
            self.send(Duration::from_millis(1), syn);
        }
        for _ in 0..count {
            let after = self.pause();
            let (with, ack) = (self.draws.chance(0.6), Flags::ACK);
            let flags = self.pick(&[Flags::SYN, Flags::RST, Flags::FIN, Flags::ACK, Flags::ACK]);
            let flags = if with { flags.with(ack) } else { flags };
            let mut spec = if flags.has(Flags::SYN) { self.syn(flags) } else { self.segment(flags, 1, 0, Vec::new()) };
            if flags.has(Flags::ACK) {
                spec.ack = Some(self.pick(&[0, 1, 1, 1, 2, 1000]));
            }
            if !flags.has(Flags::SYN) {
                spec.seq = self.pick(&[1, 1, 0, 2, 70_000]);
                spec.len = self.pick(&[0, 0, 0, 100]);
            }
            self.send(after, spec);
        }
        let rtt = Duration::from_millis(self.rtt);
        let last = match self.opens {
            Opens::Script => self.segment(Flags::ACK, 1, 0, Vec::new()),
            Opens::Stack => self.syn(Flags::SYN.with(Flags::ACK)),
        };
        self.send(rtt, last);
    }

    fn after_handshake(&mut self) {
        let after = self.pause();
        match self.draws.below(6) {
            0 => self.write(after),
            1 | 2 => self.acknowledge(after),
            3 | 4 => self.data(after, Flags::ACK),
            _ => {
                let flags = self.pick(&[Flags::SYN, Flags::SYN.with(Flags::ACK), Flags::default(), Flags::RST]);
                let mut spec = self.segment(flags, self.script_next, 0, Vec::new());
                spec.seq = self.pick(&[0, self.script_next, self.script_next + 200_000]);
                self.send(after, spec);
            }
        }
    }
}

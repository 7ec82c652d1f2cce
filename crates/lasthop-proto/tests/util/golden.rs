//! The segments of a transfer as text, for comparison with a sequence derived by hand.

use lasthop_proto::packet::{Cause, Flags, Side};
use lasthop_proto::tcp::config::{
    Deflation, DelayedAck, Growth, ImpureDuplicates, PartialDeflation, Preset, Recovery, RecoveryGuard, Switch,
    TcpConfig,
};
use lasthop_proto::time::Instant;

use super::{Fate, Pair, Sent, classic, millis};

/// The letter after a segment's number.
fn mark(cause: Cause) -> &'static str {
    match cause {
        Cause::New => "",
        Cause::LimitedTransmit => "l",
        Cause::Timeout => "t",
        Cause::FastRetransmit => "f",
        Cause::PartialAck => "p",
        Cause::SackHole => "s",
        Cause::TailProbe => "b",
        Cause::SmartHole => "m",
        Cause::Eln => "e",
        Cause::Probe => "w",
        _ => "?",
    }
}

fn lines<'a>(sent: impl Iterator<Item = &'a Sent>, start: Instant, word: impl Fn(&Sent) -> String) -> String {
    let mut text = String::new();
    let mut last = None;
    for sent in sent {
        let at = sent.at.since(start).as_nanos();
        if last != Some(at) {
            let millis = at as f64 / 1e6;
            text += &format!("{}{millis}:", if last.is_some() { "\n" } else { "" });
            last = Some(at);
        }
        text += " ";
        text += &word(sent);
    }
    text
}

fn tidy(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = text.lines().map(words).filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
    lines.join("\n")
}

/// Transfers `segments` full segments over a path with `faults`, and checks that the peer receives every byte.
pub fn sends(config: TcpConfig, segments: u32, faults: impl FnOnce(Pair) -> Pair) -> Pair {
    let mss = config.common.mss;
    let mut pair = faults(Pair::of(config));
    pair.send_segments(segments);
    pair.finish();
    assert_eq!(pair.ends[1].received(), u64::from(segments * mss));
    pair
}

impl Pair {
    /// Time at which the first data segment left the initiator.
    pub fn first_data(&self) -> Instant {
        self.sent_by(Side::Initiator).find(|sent| sent.len > 0).map_or(Instant::ZERO, |sent| sent.at)
    }

    /// The initiator's data segments. Each line is an instant, in milliseconds since the first segment; each segment is
    /// its number in the stream and a letter for the cause of the transmission.
    ///
    /// | letter | cause |
    /// |---|---|
    /// | none | new data |
    /// | `l` | limited transmit |
    /// | `f` | fast retransmit |
    /// | `p` | partial acknowledgment |
    /// | `s`, `m`, `e` | SACK, SMART, ELN |
    /// | `b` | tail-loss probe |
    /// | `t` | timeout |
    /// | `w` | window probe |
    pub fn story(&self) -> String {
        let data = self.sent_by(Side::Initiator).filter(|sent| sent.len > 0);
        lines(data, self.first_data(), |sent| format!("{}{}", sent.number, mark(sent.cause)))
    }

    /// The acceptor's pure acknowledgments, in the same form: the number of the last segment acknowledged.
    pub fn ack_story(&self) -> String {
        let mss = self.configs[0].common.mss;
        let start = self.first_data();
        let acks = self.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack() && sent.at >= start);
        lines(acks, start, |sent| ((sent.ack - 1) / mss).to_string())
    }

    /// Compares the story with one derived by hand.
    #[track_caller]
    pub fn expect(&self, expected: &str) {
        let story = self.story();
        assert!(story == tidy(expected), "expected\n{}\n\nbut sent\n{story}\n", tidy(expected));
    }

    /// Compares the acknowledgments with a sequence derived by hand.
    #[track_caller]
    pub fn expect_acks(&self, expected: &str) {
        let story = self.ack_story();
        assert!(story == tidy(expected), "expected\n{}\n\nbut acknowledged\n{story}\n", tidy(expected));
    }
}

/// Endpoint of the golden tests of loss recovery, simple enough to follow by hand: segments of 1000 bytes; a first
/// flight of 8 segments, with congestion avoidance from there; an immediate acknowledgment of every segment; the
/// congestion window as the only limit; and the minimum timeout, one second. With the 50 ms one-way delay of
/// [`Pair::of`] and no serialization delay, events are 100 ms apart.
pub fn lab(recovery: Recovery) -> TcpConfig {
    lab_with_window(recovery, 8)
}

/// [`lab`] with a first flight of `segments`.
pub fn lab_with_window(recovery: Recovery, segments: u32) -> TcpConfig {
    TcpConfig::new(Preset::Rfc, recovery).with(|c| {
        c.common.mss = 1000;
        c.common.send_buffer = 60_000;
        c.receiver.receive_buffer = 60_000;
        c.receiver.window_scale = None;
        c.common.timestamps = Switch::Off;
        c.receiver.delayed_ack = DelayedAck::Off;
        c.common.initial_window = segments;
        c.common.initial_ssthresh = Some(segments * 1000);
        c.common.rto_min = millis(1000);
        if let Some(classic) = c.sender.classic_mut() {
            classic.limited_transmit = Switch::Off;
        }
    })
}

/// 4.4BSD without its quirks, simple enough to follow by hand: every segment is acknowledged at once, and congestion
/// avoidance begins after the first flight of `flight` segments.
pub fn bsd(recovery: Recovery, flight: u32) -> TcpConfig {
    TcpConfig::new(Preset::BsdLite, recovery).with(|c| {
        let classic = classic(c);
        classic.growth = Growth::BsdLite2;
        classic.deflation = Deflation::Always;
        classic.impure_duplicates = ImpureDuplicates::Ignored;
        classic.partial_deflation = PartialDeflation::ByAcked;
        classic.header_prediction = Switch::Off;
        classic.recovery_guard = RecoveryGuard::Careful;
        c.common.mss = 1000;
        c.common.send_buffer = 60_000;
        c.receiver.receive_buffer = 60_000;
        c.common.initial_window = flight;
        c.common.initial_ssthresh = Some(flight * 1000);
        c.receiver.delayed_ack = DelayedAck::Off;
        c.receiver.ack_before_read = Switch::Off;
    })
}

/// Segment 1 arrives ten milliseconds late, after all others of the first flight.
pub const LATE_BY_A_FLIGHT: Fate = Fate::Late(millis(10));

/// Formats a segment as `> FA 1+1000:2`: sent by the initiator (`>`) or to it (`<`), flags, first sequence number,
/// payload length, acknowledgment number; numbers are relative to the initial ones.
fn line(sent: &Sent) -> String {
    let flags = [(Flags::SYN, 'S'), (Flags::FIN, 'F'), (Flags::RST, 'R'), (Flags::ACK, 'A')];
    let letters: String = flags.iter().filter(|(flag, _)| sent.is(*flag)).map(|(_, letter)| letter).collect();
    let arrow = if sent.from == Side::Initiator { '>' } else { '<' };
    let payload = if sent.len > 0 { format!("+{}", sent.len) } else { String::new() };
    let ack = if sent.is(Flags::ACK) { format!(":{}", sent.ack) } else { String::new() };
    format!("{arrow} {letters} {}{payload}{ack}", sent.seq)
}

impl Pair {
    /// Everything that both ends sent, one segment per line, with the time in milliseconds since the start of the run.
    pub fn conversation(&self) -> String {
        let lines = self.trace.iter().filter(|sent| !sent.by_middle).map(|sent| {
            let millis = sent.at.as_nanos() as f64 / 1e6;
            format!("{millis} {}", line(sent))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Compares the conversation with one derived by hand.
    #[track_caller]
    pub fn expect_conversation(&self, expected: &str) {
        let conversation = self.conversation();
        assert!(conversation == tidy(expected), "expected\n{}\n\nbut heard\n{conversation}\n", tidy(expected));
    }

    /// Clears the conversation so far.
    pub fn forget(&mut self) {
        self.trace.clear();
    }
}

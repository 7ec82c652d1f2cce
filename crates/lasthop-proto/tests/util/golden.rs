//! The story of a transfer as text, to compare with one derived by hand.

use lasthop_proto::packet::{Cause, Flags, Side};
use lasthop_proto::tcp::config::{
    Deflation, DelayedAck, Growth, ImpureDuplicates, PartialDeflation, Preset, Recovery, RecoveryGuard, Switch,
    TcpConfig,
};
use lasthop_proto::time::Instant;

use super::{Fate, Pair, Sent, millis};

/// The letter behind a segment's number.
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

/// A transfer of `segments` full segments over a path with `faults`; the other end gets every byte.
pub fn sends(config: TcpConfig, segments: u32, faults: impl FnOnce(Pair) -> Pair) -> Pair {
    let mss = config.mss;
    let mut pair = faults(Pair::of(config));
    pair.send_segments(segments);
    pair.finish();
    assert_eq!(pair.ends[1].received(), u64::from(segments * mss));
    pair
}

impl Pair {
    /// When the first data segment left the initiator.
    pub fn first_data(&self) -> Instant {
        self.sent_by(Side::Initiator).find(|sent| sent.len > 0).map_or(Instant::ZERO, |sent| sent.at)
    }

    /// The initiator's data segments: a line for each instant, in milliseconds since the first one; each segment its
    /// number in the stream and a letter for why it was sent.
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
        let mss = self.configs[0].mss;
        let start = self.first_data();
        let acks = self.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack() && sent.at >= start);
        lines(acks, start, |sent| ((sent.ack - 1) / mss).to_string())
    }

    /// Checks the story against one derived by hand.
    #[track_caller]
    pub fn expect(&self, expected: &str) {
        let story = self.story();
        assert!(story == tidy(expected), "expected\n{}\n\nbut sent\n{story}\n", tidy(expected));
    }

    /// Checks the acknowledgments against a story derived by hand.
    #[track_caller]
    pub fn expect_acks(&self, expected: &str) {
        let story = self.ack_story();
        assert!(story == tidy(expected), "expected\n{}\n\nbut acknowledged\n{story}\n", tidy(expected));
    }
}

/// The endpoint behind the golden tests of loss recovery, plain enough to follow by hand: segments of 1000 bytes, the
/// first flight is 8 of them and congestion avoidance begins there, every segment is acknowledged at once, nothing
/// limits the sender but its congestion window, and the timeout is its minimum, one second. With the 50 ms of
/// [`Pair::of`] each way and no time to put a packet on the wire, things happen every 100 ms.
pub fn lab(recovery: Recovery) -> TcpConfig {
    lab_with_window(recovery, 8)
}

/// [`lab`] with a first flight of so many segments.
pub fn lab_with_window(recovery: Recovery, segments: u32) -> TcpConfig {
    TcpConfig {
        mss: 1000,
        send_buffer: 60_000,
        receive_buffer: 60_000,
        window_scale: None,
        timestamps: Switch::Off,
        recovery,
        delayed_ack: DelayedAck::Off,
        initial_window: segments,
        initial_ssthresh: Some(segments * 1000),
        limited_transmit: Switch::Off,
        rto_min: millis(1000),
        ..TcpConfig::preset(Preset::Rfc)
    }
}

/// 4.4BSD without its quirks, plain enough to follow by hand: every segment is acknowledged at once, congestion avoidance begins
/// after the first flight of so many segments.
pub fn bsd(recovery: Recovery, flight: u32) -> TcpConfig {
    TcpConfig {
        mss: 1000,
        send_buffer: 60_000,
        receive_buffer: 60_000,
        recovery,
        initial_window: flight,
        initial_ssthresh: Some(flight * 1000),
        delayed_ack: DelayedAck::Off,
        ack_before_read: Switch::Off,
        growth: Growth::BsdLite2,
        deflation: Deflation::Always,
        impure_duplicates: ImpureDuplicates::Ignored,
        partial_deflation: PartialDeflation::ByAcked,
        header_prediction: Switch::Off,
        recovery_guard: RecoveryGuard::Careful,
        ..TcpConfig::preset(Preset::BsdLite)
    }
}

/// Segment 1 comes ten milliseconds late, after all of the first flight.
pub const LATE_BY_A_FLIGHT: Fate = Fate::Late(millis(10));

/// A segment as `> FA 1+1000:2`: from the initiator (`>`) or to it (`<`), its flags, its first sequence number, its payload,
/// and what it acknowledges; numbers relative to the initial ones.
fn line(sent: &Sent) -> String {
    let flags = [(Flags::SYN, 'S'), (Flags::FIN, 'F'), (Flags::RST, 'R'), (Flags::ACK, 'A')];
    let letters: String = flags.iter().filter(|(flag, _)| sent.is(*flag)).map(|(_, letter)| letter).collect();
    let arrow = if sent.from == Side::Initiator { '>' } else { '<' };
    let payload = if sent.len > 0 { format!("+{}", sent.len) } else { String::new() };
    let ack = if sent.is(Flags::ACK) { format!(":{}", sent.ack) } else { String::new() };
    format!("{arrow} {letters} {}{payload}{ack}", sent.seq)
}

impl Pair {
    /// Everything that both ends sent, a line each, with the time in milliseconds since the start of the run.
    pub fn conversation(&self) -> String {
        let lines = self.trace.iter().filter(|sent| !sent.by_middle).map(|sent| {
            let millis = sent.at.as_nanos() as f64 / 1e6;
            format!("{millis} {}", line(sent))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Checks the conversation against one derived by hand.
    #[track_caller]
    pub fn expect_conversation(&self, expected: &str) {
        let conversation = self.conversation();
        assert!(conversation == tidy(expected), "expected\n{}\n\nbut heard\n{conversation}\n", tidy(expected));
    }

    /// Forgets the conversation so far.
    pub fn forget(&mut self) {
        self.trace.clear();
    }
}

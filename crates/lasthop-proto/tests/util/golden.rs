//! The story of a transfer as text, to compare with one derived by hand.

use lasthop_proto::packet::{Cause, Side};
use lasthop_proto::time::Instant;

use super::{Pair, Sent};

/// The letter behind a segment's number.
fn mark(cause: Cause) -> &'static str {
    match cause {
        Cause::New => "",
        Cause::LimitedTransmit => "l",
        Cause::Timeout => "t",
        Cause::FastRetransmit => "f",
        Cause::PartialAck => "p",
        Cause::SackHole => "s",
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

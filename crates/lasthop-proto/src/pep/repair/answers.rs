//! Repetition of the mobile host's last acknowledgment to the sender.

use super::Signals;
use crate::packet::{Body, Packet, Payload, Timestamps};
use crate::seq::Seq;

/// Number of consecutive old acknowledgments after which the state is rebuilt from them: the state is then taken to be
/// wrong.
const MAX_STALE: u32 = 16;

/// Acknowledgment with which old data from the sender is answered.
///
/// | from | event | to |
/// |---|---|---|
/// | any | acknowledgment of data that was not seen | `Unseen` |
/// | `Unseen` | acknowledgment above it, without news for the sender or with data | `None` |
/// | `None`, `Ready` | pure acknowledgment with news | `Ready` |
/// | `Unseen` | pure acknowledgment above it, with news | `Ready` |
/// | `Ready` | data from the mobile host, other signals, or a packet that passes unseen by this element | `None` |
#[derive(Clone, Debug)]
pub(super) enum Answer<P> {
    None,
    /// The last acknowledgment covers data up to this number that was not seen. It may be spoofed, so it is not
    /// repeated locally until one exceeds it.
    Unseen(Seq),
    /// The last pure acknowledgment with news.
    Ready(Packet<P>),
}

/// State of suppressed and repeated acknowledgments.
#[derive(Clone, Debug)]
pub(super) struct Answers<P> {
    pub answer: Answer<P>,
    /// Signals of the last acknowledgment that reached the sender.
    pub signals: Signals,
    /// Number of consecutive old acknowledgments.
    pub stale: u32,
}

impl<P: Payload> Answers<P> {
    pub const NONE: Self = Self { answer: Answer::None, signals: Signals::NONE, stale: 0 };

    /// Records an acknowledgment, while all data seen ends at `high`. Data acknowledged above it took another path.
    pub fn acknowledged(&mut self, ack: Seq, high: Seq) {
        if ack.gt(high) {
            self.answer = Answer::Unseen(ack);
        } else if matches!(self.answer, Answer::Unseen(unseen) if ack.gt(unseen)) {
            self.answer = Answer::None;
        }
    }

    /// Stores an acknowledgment with news, if it is pure.
    pub fn set(&mut self, pure: Option<&Packet<P>>) {
        if !matches!(self.answer, Answer::Unseen(_)) {
            self.answer = pure.map_or(Answer::None, |packet| Answer::Ready(packet.clone()));
        }
    }

    /// Sets the timestamps of the answer.
    pub fn restamp(&mut self, timestamps: Option<Timestamps>) {
        if let Answer::Ready(Packet { body: Body::Tcp(answer), .. }) = &mut self.answer {
            answer.options.timestamps = timestamps;
        }
    }

    /// Records the signals of an acknowledgment that reaches the sender, and discards an answer with outdated ones.
    pub fn pass(&mut self, signals: Signals) {
        self.signals = signals;
        if let Answer::Ready(answer) = &self.answer
            && !answer.tcp().is_some_and(|tcp| Signals::of(answer, tcp).may_be_repeated(signals))
        {
            self.answer = Answer::None;
        }
    }

    /// Discards the stored acknowledgment.
    pub fn forget(&mut self) {
        if matches!(self.answer, Answer::Ready(_)) {
            self.answer = Answer::None;
        }
    }

    /// Returns the stored acknowledgment, if it is `last_ack`.
    pub fn ready(&self, last_ack: Seq) -> Option<&Packet<P>> {
        match &self.answer {
            Answer::Ready(answer) if answer.tcp().is_some_and(|tcp| tcp.ack == last_ack) => Some(answer),
            _ => None,
        }
    }

    /// Counts an old acknowledgment. Returns whether there were so many that the state is to be rebuilt.
    pub fn is_wrong(&mut self) -> bool {
        self.stale += 1;
        self.stale >= MAX_STALE
    }
}

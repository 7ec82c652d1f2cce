//! Storage of that state: none before the first data, so that a connection without data stays small.

use alloc::boxed::Box;

use super::Linux;
use crate::tcp::config::{DelayedAck, Switch, TcpConfig};
use crate::time::Instant;

/// Storage of [`Linux`], once data has been sent in either direction.
#[derive(Clone, Debug)]
pub(in crate::tcp::receiver) enum Slot {
    /// The receiver is of another kind.
    Absent,
    /// No data so far.
    Quiet(Handshake),
    /// The state.
    Kept(Box<Linux>),
}

/// Results of the handshake from which the state derives.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp::receiver) struct Handshake {
    /// Time of the handshake's completion.
    over: Instant,
    has_ended: Switch,
    timestamps: Switch,
    has_answered: Switch,
}

impl Handshake {
    const NONE: Self =
        Self { over: Instant::ZERO, has_ended: Switch::Off, timestamps: Switch::Off, has_answered: Switch::Off };

    #[cold]
    fn state(self, config: &TcpConfig) -> Linux {
        let mut linux = Linux::new(config);
        if self.has_answered.is_on() {
            linux.answer_syn(config.common.mss);
        }
        if self.has_ended.is_on() {
            linux.start(self.over, self.timestamps);
        }
        linux
    }
}

impl Slot {
    /// Returns the slot of a receiver with these settings.
    pub fn new(config: &TcpConfig) -> Self {
        if config.receiver.delayed_ack == DelayedAck::Linux { Self::Quiet(Handshake::NONE) } else { Self::Absent }
    }

    /// Returns whether the receiver is a Linux receiver.
    #[inline]
    pub fn is_linux(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the result of `read` on the state, which is created temporarily if it is not stored yet.
    #[inline]
    pub fn read<R>(&self, config: &TcpConfig, read: impl FnOnce(&Linux) -> R) -> Option<R> {
        match self {
            Self::Absent => None,
            Self::Quiet(handshake) => Some(read(&handshake.state(config))),
            Self::Kept(linux) => Some(read(linux)),
        }
    }

    /// Returns the state, if it is stored.
    #[inline]
    pub fn kept(&self) -> Option<&Linux> {
        if let Self::Kept(linux) = self { Some(linux) } else { None }
    }

    /// Returns the state mutably, if it is stored.
    #[inline]
    pub fn kept_mut(&mut self) -> Option<&mut Linux> {
        if let Self::Kept(linux) = self { Some(linux) } else { None }
    }

    /// Stores the state from now on, since there is data.
    #[inline]
    pub fn begin(&mut self, config: &TcpConfig) {
        if let Self::Quiet(handshake) = *self {
            *self = Self::Kept(Box::new(handshake.state(config)));
        }
    }

    /// Takes the state out, to change it together with the rest of the receiver; the caller puts it back
    /// ([`Self::put`]).
    #[inline]
    pub fn take(&mut self) -> Option<Box<Linux>> {
        match core::mem::replace(self, Self::Absent) {
            Self::Kept(linux) => Some(linux),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Puts the state back.
    #[inline]
    pub fn put(&mut self, linux: Box<Linux>) {
        *self = Self::Kept(linux);
    }

    /// Records that a SYN of the peer is answered; segments will carry `mss` bytes.
    pub fn answer_syn(&mut self, mss: u32) {
        match self {
            Self::Absent => {}
            Self::Quiet(handshake) => handshake.has_answered = Switch::On,
            Self::Kept(linux) => linux.answer_syn(mss),
        }
    }

    /// Records that the handshake is complete, and whether segments carry timestamps.
    pub fn start(&mut self, now: Instant, timestamps: Switch) {
        match self {
            Self::Absent => {}
            Self::Quiet(handshake) => {
                (handshake.over, handshake.has_ended, handshake.timestamps) = (now, Switch::On, timestamps);
            }
            Self::Kept(linux) => linux.start(now, timestamps),
        }
    }
}

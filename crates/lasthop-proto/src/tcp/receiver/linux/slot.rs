//! Where that state is kept: nowhere before the first data, so that a connection that carries none stays small.

use alloc::boxed::Box;

use super::Linux;
use crate::tcp::config::{DelayedAck, Switch, TcpConfig};
use crate::time::Instant;

/// [`Linux`], once data has gone one way or the other.
#[derive(Clone, Debug)]
pub(in crate::tcp::receiver) enum Slot {
    /// The receiver is another.
    Absent,
    /// No data so far.
    Quiet(Handshake),
    /// The state.
    Kept(Box<Linux>),
}

/// What of the handshake that state follows from.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp::receiver) struct Handshake {
    /// When it was over.
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
            linux.answer_syn(config.mss);
        }
        if self.has_ended.is_on() {
            linux.start(self.over, self.timestamps);
        }
        linux
    }
}

impl Slot {
    /// The slot of a receiver with these keys.
    pub fn new(config: &TcpConfig) -> Self {
        if config.delayed_ack == DelayedAck::Linux { Self::Quiet(Handshake::NONE) } else { Self::Absent }
    }

    /// Whether the receiver is as Linux's.
    #[inline]
    pub fn is_linux(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// What `read` finds in the state, which is made for the occasion where it is not kept yet.
    #[inline]
    pub fn read<R>(&self, config: &TcpConfig, read: impl FnOnce(&Linux) -> R) -> Option<R> {
        match self {
            Self::Absent => None,
            Self::Quiet(handshake) => Some(read(&handshake.state(config))),
            Self::Kept(linux) => Some(read(linux)),
        }
    }

    /// The state, if it is kept already.
    #[inline]
    pub fn kept(&self) -> Option<&Linux> {
        if let Self::Kept(linux) = self { Some(linux) } else { None }
    }

    /// The same, to change.
    #[inline]
    pub fn kept_mut(&mut self) -> Option<&mut Linux> {
        if let Self::Kept(linux) = self { Some(linux) } else { None }
    }

    /// There is data: the state is kept from now on.
    #[inline]
    pub fn begin(&mut self, config: &TcpConfig) {
        if let Self::Quiet(handshake) = *self {
            *self = Self::Kept(Box::new(handshake.state(config)));
        }
    }

    /// Takes the state out, to change it beside the rest of the receiver; whoever does puts it back ([`Self::put`]).
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

    /// Puts it back.
    #[inline]
    pub fn put(&mut self, linux: Box<Linux>) {
        *self = Self::Kept(linux);
    }

    /// A SYN of the peer's is answered; segments will carry `mss` bytes.
    pub fn answer_syn(&mut self, mss: u32) {
        match self {
            Self::Absent => {}
            Self::Quiet(handshake) => handshake.has_answered = Switch::On,
            Self::Kept(linux) => linux.answer_syn(mss),
        }
    }

    /// The handshake is over; whether segments carry timestamps.
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

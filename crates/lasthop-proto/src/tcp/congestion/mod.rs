//! Congestion control: who owns `cwnd` and `ssthresh`, and how they move. Loss recovery decides when.

mod bbr;
mod bbr3;
mod bsd;
mod choice;
pub mod control;
mod cubic;
#[cfg(test)]
mod example_tests;
mod hystart;
pub(crate) mod max_filter;
mod ns2;
pub(in crate::tcp) mod quantum;
mod reno;
mod rfc5681;
mod window;

pub use self::bbr3::Bbr3Rule;
use self::bsd::Bsd;
pub use self::choice::{Control, ControlRule};
pub(crate) use self::cubic::cube_root;
pub use self::hystart::HystartRule;
use self::ns2::Ns2;
use self::rfc5681::Rfc5681;
pub use self::window::Start;
use crate::tcp::config::{Growth, TcpConfig};

/// What the sender had under way when it took a loss for congestion, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// Sent and not acknowledged (FlightSize).
    pub flight: u32,
    /// The peer's window.
    pub snd_wnd: u32,
}

/// The congestion window, chosen by [`Growth`].
#[derive(Clone, Debug)]
pub enum Congestion {
    /// 4.4BSD-Lite and Lite2.
    Bsd(Bsd),
    /// RFC 5681.
    Rfc5681(Rfc5681),
    /// ns-2.
    Ns2(Ns2),
}

macro_rules! each {
    ($self:expr, $cc:ident => $body:expr) => {
        match $self {
            Congestion::Bsd($cc) => $body,
            Congestion::Rfc5681($cc) => $body,
            Congestion::Ns2($cc) => $body,
        }
    };
}

impl Congestion {
    /// The window at the start of a connection.
    pub fn new(config: &TcpConfig) -> Self {
        match config.growth {
            Growth::BsdLite | Growth::BsdLite2 => Self::Bsd(Bsd::new(config)),
            Growth::Rfc5681 | Growth::Rfc3465 => Self::Rfc5681(Rfc5681::new(config)),
            Growth::Ns2 => Self::Ns2(Ns2::new(config)),
        }
    }

    /// The congestion window in bytes, inflation by duplicate acknowledgments included.
    #[inline]
    pub fn window(&self) -> u32 {
        each!(self, cc => cc.window())
    }

    /// Slow-start threshold in bytes.
    pub fn ssthresh(&self) -> u32 {
        each!(self, cc => cc.ssthresh())
    }

    /// The handshake is over; `syn_retries` SYNs had to be repeated.
    pub fn established(&mut self, syn_retries: u32) {
        each!(self, cc => cc.established(syn_retries));
    }

    /// `acked` new bytes were acknowledged outside recovery.
    #[inline]
    pub fn grow(&mut self, acked: u32) {
        each!(self, cc => cc.grow(acked));
    }

    /// A loss taken for congestion: threshold and window to half.
    pub fn halve(&mut self, outstanding: Outstanding) {
        each!(self, cc => cc.halve(outstanding));
    }

    /// Duplicate acknowledgments show that so many segments left the network.
    pub fn inflate(&mut self, segments: u32) {
        each!(self, cc => cc.inflate(segments));
    }

    /// Takes back what [`Congestion::inflate`] added for so many segments; at least one segment stays.
    pub fn take_back(&mut self, segments: u32) {
        if segments > 0 {
            each!(self, cc => cc.take_back(segments));
        }
    }

    /// A partial acknowledgment of `acked` bytes: partial window deflation (RFC 6582 §3.2 step 3).
    pub fn partial_ack(&mut self, acked: u32) {
        each!(self, cc => cc.partial_ack(acked));
    }

    /// Fast recovery is over: takes the inflation back. A recovery that passes the bytes outstanding asks for no burst
    /// when little is in flight (RFC 6582 §3.2 step 3, the first of its two choices).
    pub fn deflate(&mut self, flight: Option<u32>) {
        each!(self, cc => cc.deflate(flight));
    }

    /// The retransmission timer expired for the `retries`th time in a row.
    pub fn timeout(&mut self, outstanding: Outstanding, retries: u32) {
        each!(self, cc => cc.timeout(outstanding, retries));
    }

    /// Nothing was sent for a whole timeout (RFC 5681 §4.1).
    pub fn restart_after_idle(&mut self) {
        each!(self, cc => cc.restart_after_idle());
    }
}

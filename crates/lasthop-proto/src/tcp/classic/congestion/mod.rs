//! Congestion controls of the classic sender, with windows in bytes: each owns `cwnd` and `ssthresh` and decides how
//! they change. Loss recovery decides when.

mod bsd;
mod ns2;
mod rfc5681;

use self::bsd::Bsd;
use self::ns2::Ns2;
use self::rfc5681::Rfc5681;
use crate::tcp::config::{CommonConfig, Growth};

/// State of the sender when it attributes a loss to congestion, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// Sent and not acknowledged (FlightSize).
    pub flight: u32,
    /// The peer's window.
    pub snd_wnd: u32,
}

/// The congestion window, selected by [`Growth`].
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
    /// Returns the window at the start of a connection with segments of `mss` bytes.
    pub fn new(growth: Growth, config: &CommonConfig, mss: u32) -> Self {
        match growth {
            Growth::BsdLite | Growth::BsdLite2 => Self::Bsd(Bsd::new(growth, config, mss)),
            Growth::Rfc5681 | Growth::Rfc3465 => Self::Rfc5681(Rfc5681::new(growth, config, mss)),
            Growth::Ns2 => Self::Ns2(Ns2::new(config, mss)),
        }
    }

    /// Returns the congestion window in bytes, including inflation by duplicate acknowledgments.
    #[inline]
    pub fn window(&self) -> u32 {
        each!(self, cc => cc.window())
    }

    /// Returns the slow-start threshold in bytes.
    pub fn ssthresh(&self) -> u32 {
        each!(self, cc => cc.ssthresh())
    }

    /// Records that the handshake is complete; `syn_retries` SYNs had to be repeated.
    pub fn established(&mut self, syn_retries: u32) {
        each!(self, cc => cc.established(syn_retries));
    }

    /// Grows the window after `acked` new bytes were acknowledged outside recovery.
    #[inline]
    pub fn grow(&mut self, acked: u32) {
        each!(self, cc => cc.grow(acked));
    }

    /// Halves threshold and window for a loss attributed to congestion.
    pub fn halve(&mut self, outstanding: Outstanding) {
        each!(self, cc => cc.halve(outstanding));
    }

    /// Inflates the window by segments that duplicate acknowledgments show to have left the network.
    pub fn inflate(&mut self, segments: u32) {
        each!(self, cc => cc.inflate(segments));
    }

    /// Undoes [`Congestion::inflate`] for `segments` segments; at least one segment remains.
    pub fn take_back(&mut self, segments: u32) {
        if segments > 0 {
            each!(self, cc => cc.take_back(segments));
        }
    }

    /// Deflates the window on a partial acknowledgment of `acked` bytes (RFC 6582 §3.2 step 3).
    pub fn partial_ack(&mut self, acked: u32) {
        each!(self, cc => cc.partial_ack(acked));
    }

    /// Removes the inflation at the end of fast recovery. A recovery that passes the outstanding bytes avoids a burst
    /// when little is in flight (RFC 6582 §3.2 step 3, the first of its two choices).
    pub fn deflate(&mut self, flight: Option<u32>) {
        each!(self, cc => cc.deflate(flight));
    }

    /// Handles the `retries`th consecutive expiry of the retransmission timer.
    pub fn timeout(&mut self, outstanding: Outstanding, retries: u32) {
        each!(self, cc => cc.timeout(outstanding, retries));
    }

    /// Reduces the window after nothing was sent for a whole timeout (RFC 5681 §4.1).
    pub fn restart_after_idle(&mut self) {
        each!(self, cc => cc.restart_after_idle());
    }
}

//! The receive window: probes of a closed window, keep-alives, and data beyond it.

use super::{LEAST_TIMEOUT, Packet};
use crate::sent::Sent;

/// State of the window that a receiver offers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Window {
    /// Number after the last byte that the receiver accepts, according to the capture.
    edge: Option<u64>,
    is_closed: bool,
    /// Unacknowledged data of a probe.
    probe: Option<(u64, u64)>,
    /// Number of times that the window was closed.
    pub closings: u64,
    /// Probes of the closed window.
    pub probes: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Data packets that arrived beyond the window and were retransmitted.
    pub discarded: u64,
    /// Of these, packets that arrived while the window was closed.
    pub discarded_closed: u64,
    /// Number of the last counted packet.
    counted: u64,
}

/// State of the window when data arrived beyond it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The window was smaller than the data.
    Full,
    /// The window was closed.
    Closed,
}

impl Window {
    /// Returns whether the window is closed.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Processes an acknowledgment that offers `window` bytes from `ack`; `None` if the scale is unknown.
    pub(super) fn offered(&mut self, ack: u64, window: Option<u64>) {
        let is_closed = window == Some(0);
        self.closings += u64::from(is_closed && !self.is_closed);
        self.is_closed = is_closed;
        self.edge = match window {
            // A receiver does not shrink its window (RFC 9293 §3.8.6), unless it closes it.
            Some(0) => Some(ack),
            Some(window) => Some(self.edge.map_or(ack + window, |edge| edge.max(ack + window))),
            None => None,
        };
    }

    /// Returns the reason why the window excludes data at and after `seq`; `None` if it does not.
    pub(super) fn refuses(&self, seq: u64) -> Option<Refused> {
        self.edge.filter(|edge| seq >= *edge)?;
        Some(if self.is_closed { Refused::Closed } else { Refused::Full })
    }

    /// Returns the edge if it is within that data.
    pub(super) fn edge_within(&self, seq: u64, end: u64) -> Option<u64> {
        self.edge.filter(|edge| seq < *edge && *edge < end)
    }

    /// Returns whether a packet with data from `range.0` to `range.1` is a probe: a keep-alive repeats the last byte
    /// before the range (RFC 9293 §3.8.4); a window probe carries the first byte beyond a closed window (§3.8.6.1), or
    /// a whole packet after a silence.
    pub(super) fn takes_probe(
        &mut self,
        packet: &Packet<'_>,
        range: (u64, u64),
        acknowledged: u64,
        heard: i64,
    ) -> bool {
        let (seq, end) = range;
        if packet.len <= 1 && end <= acknowledged {
            self.asked();
            return true;
        }
        let waited = packet.time.saturating_sub(heard) >= LEAST_TIMEOUT;
        let is_probe = self.is_closed && Some(seq) == self.edge && seq == acknowledged && (packet.len <= 1 || waited);
        if is_probe {
            self.probes += 1;
            self.probe = Some((seq, end));
        }
        is_probe
    }

    /// Counts a packet without data for the byte before the first unacknowledged one.
    pub(super) fn asked(&mut self) {
        let counter = if self.is_closed { &mut self.probes } else { &mut self.keep_alives };
        *counter += 1;
    }

    /// Returns the number of bytes of a probe that an acknowledgment up to `ack` accepts, if the capture has data up to
    /// `highest`.
    pub(super) fn took_probe(&mut self, ack: u64, highest: u64) -> u64 {
        let taken = self.probe.filter(|(_, end)| *end <= ack).map_or(0, |(_, end)| end.saturating_sub(highest));
        if self.probe.is_some_and(|(seq, _)| seq < ack) {
            self.probe = None;
        }
        taken
    }

    /// Discards data that arrived beyond the window and is retransmitted.
    pub(super) fn discard(&mut self, piece: &Sent, refused: Refused) {
        // If the window accepted the beginning of a packet, the rest does not count as a packet.
        if piece.begins && self.counted != piece.number {
            self.counted = piece.number;
            self.discarded += 1;
            self.discarded_closed += u64::from(refused == Refused::Closed);
        }
    }
}

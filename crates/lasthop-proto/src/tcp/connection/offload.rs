//! Receive offload of the host in front of a connection.

use alloc::boxed::Box;

use super::Connection;
use crate::packet::Packet;
use crate::tcp::config::{Clock, TcpConfig};
use crate::tcp::gro::{Gro, Merged};
use crate::time::{Duration, Instant};

/// Tick of a host without jiffies, at which a poll releases held segments: Linux's at 250 Hz.
const TICK: Duration = Duration::from_millis(4);

/// The offload, and the packet that the connection processes at present.
#[derive(Clone, Debug)]
pub(super) struct Offload {
    gro: Gro,
    /// Payload of each segment in the packet, in bytes, and their number.
    current: (u32, u32),
}

impl Offload {
    /// Returns the offload of an end with these settings, if it has one.
    pub fn new(config: &TcpConfig) -> Option<Box<Self>> {
        let jiffy = if let Clock::Jiffies { jiffy, .. } = config.common.clock { jiffy } else { TICK };
        let new = || Box::new(Self { gro: Gro::new(config.receiver.gro_flush_timeout, jiffy), current: (0, 1) });
        config.receiver.gro.is_on().then(new)
    }

    /// Returns the time at which a held segment is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.gro.poll_deadline()
    }
}

impl Connection {
    /// Passes a packet through the offload, and processes the segments that it returns.
    #[inline(never)]
    pub(super) fn take_offloaded(&mut self, now: Instant, packet: &Packet) {
        let Some(offload) = &mut self.offload else { return };
        for merged in offload.gro.take(now, packet).into_iter().flatten() {
            self.take_merged(now, &merged);
        }
    }

    /// Processes the held segment, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) {
        if let Some(merged) = self.offload.as_mut().and_then(|offload| offload.gro.take_due(now)) {
            self.take_merged(now, &merged);
        }
    }

    fn take_merged(&mut self, now: Instant, merged: &Merged) {
        if let Some(offload) = &mut self.offload {
            offload.current = (merged.size, merged.segments);
        }
        self.take_whole(now, &merged.packet);
    }

    /// Returns the payload of each segment in the packet that is processed at present, `len` bytes long.
    pub(super) fn segment_size(&self, len: u32) -> u32 {
        self.offload.as_ref().map_or(len, |offload| offload.current.0)
    }

    /// Returns the number of segments in that packet.
    pub(super) fn segment_count(&self) -> u32 {
        self.offload.as_ref().map_or(1, |offload| offload.current.1)
    }
}

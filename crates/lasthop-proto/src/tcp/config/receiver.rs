//! Settings of the receiver.

use super::Switch;
use crate::time::Duration;

/// Time at which the receiver acknowledges in-order data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Every segment at once.
    Off,
    /// Every second segment at once, a single one after `timeout` (RFC 5681 §4.2).
    EverySecond {
        /// Delay for a single segment.
        timeout: Duration,
    },
    /// ns-2's `TCPSink/DelAck`: [`DelayedAck::EverySecond`] that also delays the acknowledgment of a duplicate of the
    /// last in-order segment.
    Ns2 {
        /// Delay for a single segment.
        timeout: Duration,
    },
    /// 4.4BSD: when the window can be moved by two segments or half the buffer, otherwise at the next fast tick.
    WindowUpdate,
    /// Linux: at once in quick mode (at the start, and after unusual events) or when more than a segment is
    /// unacknowledged; otherwise after 40 ms, or longer if arrivals are far apart.
    Linux,
}

/// Handling of closely spaced selective acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackCompression {
    /// Sends each one at once (RFC 2018, RFC 5681 §4.2).
    Off,
    /// As in Linux: after three acknowledgments, one replaces all those within a twentieth of the round trip and 1 ms
    /// at most, but not more than 44.
    Linux,
}

/// Size of the receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveAutotune {
    /// [`ReceiverConfig::receive_buffer`], which determines the window.
    Off,
    /// Linux 6.18: grows from 128 KiB of memory to the amount that the application takes, up to
    /// [`ReceiverConfig::receive_buffer`]. Buffers count memory, of which data is a part.
    Linux,
}

/// Meaning of the ECN echo in acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnEcho {
    /// A mark arrived, and its sender has not answered since (RFC 3168 §6.1.3).
    Rfc3168,
    /// The newest packet was marked; each change is acknowledged at once (after RFC 8257 §3.2). From the echoes a
    /// scalable congestion control knows the number of marked segments.
    PerPacket,
}

/// Settings of the receiving half. Sizes are in bytes of payload, times as their type says.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceiverConfig {
    /// Size of the receive buffer: the maximum window that is advertised.
    pub receive_buffer: u32,
    /// Window scale offered on the SYN (RFC 7323 §2); `None` offers none.
    pub window_scale: Option<u8>,
    /// Maximum number of SACK blocks that the receiver sends (1 to 4; timestamps leave space for 3). At 3, a Linux
    /// receiver sends a fourth on connections without timestamps.
    pub sack_blocks: u8,
    /// Time at which in-order data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// Handling of closely spaced selective acknowledgments. Requires [`DelayedAck::Linux`].
    pub sack_compression: SackCompression,
    /// Reports duplicate data (RFC 2883).
    pub dsack: Switch,
    /// Size of the receive buffer. [`ReceiveAutotune::Linux`] requires [`DelayedAck::Linux`].
    pub receive_autotune: ReceiveAutotune,
    /// Sends the acknowledgment of a segment before the application reads the segment (4.4BSD: `tcp_input` runs before
    /// the reader). It then advertises the window without that read, which may be followed by a separate window update.
    pub ack_before_read: Switch,
    /// Adds the SMART number to acknowledgments.
    pub smart_acks: Switch,
    /// Meaning of the ECN echo, if ECN is negotiated.
    pub ecn_echo: EcnEcho,
    /// Receive offload: segments that arrive in one poll of the device are merged. Requires [`DelayedAck::Linux`].
    pub gro: Switch,
    /// Time for which the offload waits for another segment (`gro_flush_timeout`).
    pub gro_flush_timeout: Duration,
}

/// Initial memory of an auto-tuned receive buffer, in bytes (`tcp_rmem[1]`).
pub(crate) const AUTOTUNE_START: u32 = 131_072;

impl ReceiverConfig {
    /// Returns the window scale that a SYN offers. An auto-tuned buffer offers no more than its size requires (Linux
    /// `tcp_select_initial_window`): its window is rounded up to the unit of the field.
    pub(crate) fn offered_scale(&self) -> Option<u8> {
        let needed = (self.receive_buffer.max(1).ilog2() as u8).saturating_sub(15);
        self.window_scale.map(|shift| if self.tunes_itself() { shift.min(needed) } else { shift })
    }

    /// Returns whether the receive buffer is auto-tuned. One that is smaller than the initial size has a fixed size,
    /// like one that an application has set.
    pub fn tunes_itself(&self) -> bool {
        self.receive_autotune == ReceiveAutotune::Linux && self.receive_buffer >= AUTOTUNE_START
    }
}

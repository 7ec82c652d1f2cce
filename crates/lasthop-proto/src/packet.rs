//! Packets in parsed form. Bytes are parsed and written only at the edge, by drivers of real packets.

mod ecn_counters;
mod frames;
pub mod headers;

use core::num::NonZeroU8;

pub use self::ecn_counters::{ECN_COUNTER_KINDS, EcnCounters};
pub use self::frames::{Image, LinkReport};
pub use self::headers::LinkHeaders;
use crate::seq::Seq;

/// Connection that a packet belongs to. Drivers assign these: the simulator one per flow, the gateway one per 5-tuple.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Flow of a link's control frames, which belong to none.
    pub const NONE: Self = Self(u32::MAX);
}

/// End of a flow that a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Side {
    /// End that opened the flow.
    #[default]
    Initiator,
    /// End that accepted the flow.
    Acceptor,
}

impl Side {
    /// Returns the other end.
    #[inline]
    pub const fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Acceptor,
            Self::Acceptor => Self::Initiator,
        }
    }

    /// Returns 0 for the initiator, 1 for the acceptor: an index for tables with one entry per side.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Treatment of a packet by queues.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Priority {
    /// First come, first served.
    #[default]
    Normal,
    /// Ahead of queued data: local retransmissions (\[a\] §III-A).
    Urgent,
}

/// Damage by the channel to a packet that arrived nevertheless.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Integrity {
    /// As sent.
    #[default]
    Intact,
    /// Corrupted payload with intact headers: useful to a receiver that distinguishes corruption from congestion (ELN).
    PayloadDamaged,
}

/// Reason for which a packet was sent. For measurement only: no mechanism may read it (checked by `tests/cause.rs`).
/// The lab, which sees real packets, infers it from counts along the path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Cause {
    /// Data not sent before.
    #[default]
    New,
    /// New data in answer to a first or second duplicate acknowledgment (RFC 3042).
    LimitedTransmit,
    /// A pure acknowledgment.
    Ack,
    /// SYN, FIN or the acknowledgment that completes a handshake.
    Handshake,
    /// A zero-window probe (RFC 9293 §3.8.6.1).
    Probe,
    /// A reset.
    Reset,
    /// An acknowledgment by the base station for data acknowledged before.
    LocalAck,
    /// An unreliable datagram.
    Datagram,
    /// Resent because the retransmission timer expired, or in the go-back-N that follows.
    Timeout,
    /// Resent at the duplicate-acknowledgment threshold.
    FastRetransmit,
    /// Resent on a partial acknowledgment (NewReno).
    PartialAck,
    /// Resent to fill a hole that SACK blocks show.
    SackHole,
    /// Resent ahead of the timeout, as a tail-loss probe (RFC 8985 §7).
    TailProbe,
    /// Resent to fill a hole that the SMART number shows.
    SmartHole,
    /// Resent on an Explicit Loss Notification.
    Eln,
    /// Resent by the base station: duplicate acknowledgments show the loss.
    LocalDuplicate,
    /// Resent by the base station: the SMART number or SACK blocks show the loss.
    LocalHole,
    /// Resent by the base station on its own timer.
    LocalTimer,
    /// Resent by a link protocol: the other end of the link reports the frame missing.
    LinkNack,
    /// Resent by a link protocol on its own timer.
    LinkTimer,
    /// Sent by a link protocol before any loss: a copy, or a combination of packets.
    LinkRepair,
    /// A control frame of a link protocol.
    LinkControl,
}

impl Cause {
    /// Returns whether the sender of the flow sent this data before.
    pub const fn is_source_retransmission(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::FastRetransmit
                | Self::PartialAck
                | Self::SackHole
                | Self::TailProbe
                | Self::SmartHole
                | Self::Eln
        )
    }

    /// Returns whether a base station, or an end of the lossy link, repeats data that it sent before.
    pub const fn is_local_retransmission(self) -> bool {
        matches!(
            self,
            Self::LocalDuplicate
                | Self::LocalHole
                | Self::LocalTimer
                | Self::LinkNack
                | Self::LinkTimer
                | Self::LinkRepair
        )
    }

    /// Returns a stable lower-case name, used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::LimitedTransmit => "limited-transmit",
            Self::Ack => "ack",
            Self::Handshake => "handshake",
            Self::Probe => "probe",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::FastRetransmit => "fast-retransmit",
            Self::PartialAck => "partial-ack",
            Self::SackHole => "sack-hole",
            Self::TailProbe => "tail-probe",
            Self::SmartHole => "smart-hole",
            Self::Eln => "eln",
            Self::LocalDuplicate => "local-duplicate",
            Self::LocalHole => "local-hole",
            Self::LocalTimer => "local-timer",
            Self::LocalAck => "local-ack",
            Self::Datagram => "datagram",
            Self::LinkNack => "link-nack",
            Self::LinkTimer => "link-timer",
            Self::LinkRepair => "link-repair",
            Self::LinkControl => "link-control",
        }
    }
}

/// ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Ecn {
    /// Not ECN-capable: a congested queue drops the packet.
    #[default]
    NotEct,
    /// ECN-capable, codepoint ECT(1).
    Ect1,
    /// ECN-capable, codepoint ECT(0), set by senders that do not use ECT(1).
    Ect0,
    /// Congestion experienced: a queue marked the packet instead of dropping it.
    Ce,
}

impl Ecn {
    /// Returns the field in the low two bits of `byte` (IPv4's type of service, IPv6's traffic class).
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the two bits on the wire.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a queue may mark the packet instead of dropping it, including a packet already marked.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// TCP flags (RFC 9293 §3.1), in wire order: the eight of the flags byte, and above them AE. The three reserved bits
/// are not kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo: a mark arrived; on a SYN, half of the offer of ECN (RFC 3168 §6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced, the answer to an echo; on a SYN, the other half of the offer (RFC 3168 §6.1).
    pub const CWR: Self = Self(0x80);
    /// Accurate ECN (RFC 9768); formerly NS.
    pub const AE: Self = Self(0x100);
    /// All flags that are kept.
    pub const ALL: Self = Self(0x1ff);

    /// Returns the union of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether any flag of `other` is set.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the flags byte of the header: all flags but [`Flags::AE`].
    pub const fn low_byte(self) -> u8 {
        self.0 as u8
    }
}

/// RFC 7323 timestamps: the sender's clock and the echo of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timestamps {
    /// TSval.
    pub val: u32,
    /// TSecr.
    pub ecr: u32,
}

/// A range of received bytes, `left..right`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlock {
    /// First byte of the range.
    pub left: Seq,
    /// The byte after the range.
    pub right: Seq,
}

/// Up to four SACK blocks (RFC 2018 §3), most recent first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlocks {
    len: u8,
    blocks: [SackBlock; 4],
}

impl SackBlocks {
    /// No block.
    pub const NONE: Self = Self { len: 0, blocks: [SackBlock { left: Seq(0), right: Seq(0) }; 4] };

    /// Appends a block, or drops it if there are four already.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = block;
            self.len += 1;
        }
    }

    /// Returns the number of blocks.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Keeps the first `count` blocks.
    pub fn truncate(&mut self, count: usize) {
        self.len = self.len.min(count.min(4) as u8);
    }

    /// Replaces the first block, if there is one.
    pub fn replace_first(&mut self, block: SackBlock) {
        if let Some(first) = self.blocks[..usize::from(self.len)].first_mut() {
            *first = block;
        }
    }

    /// Returns the blocks, most recent first.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Returns whether there are no blocks.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Options of acknowledgment congestion control. No segment has both: one is for SYNs, the other for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckCongestionOption {
    /// The sender of the SYN complies with received ratios, and may send ratios (RFC 5690 §4.1).
    Permitted,
    /// Number of segments per acknowledgment (RFC 5690 §4.2).
    Ratio(NonZeroU8),
}

/// TCP options in parsed form.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Maximum segment size, on a SYN.
    pub mss: Option<u16>,
    /// Window scale shift, on a SYN (RFC 7323 §2).
    pub window_scale: Option<u8>,
    /// SACK permitted, on a SYN (RFC 2018 §2).
    pub sack_permitted: bool,
    /// Explicit Loss Notification: the next expected segment was lost to corruption (\[a\] §III-B).
    pub eln: bool,
    /// SMART: first sequence number of the segment that caused this acknowledgment (\[a\] §III-B, after Keshav and
    /// Morgan).
    pub smart: Option<Seq>,
    /// Acknowledgment congestion control (RFC 5690).
    pub ack_congestion: Option<AckCongestionOption>,
    /// Byte counters of accurate ECN (RFC 9768 §3.2.3).
    pub ecn_counters: Option<EcnCounters>,
    /// Timestamps (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018 §3).
    pub sack: SackBlocks,
}

/// Maximum length of TCP options, in bytes (RFC 9293 §3.1).
const MOST_OPTIONS: u16 = 40;

impl Options {
    /// Returns the length of the options in a TCP header, in bytes, padded to a multiple of four. SMART, ELN and the
    /// two of acknowledgment congestion control count as experimental options (RFC 6994): 8 bytes, 4, and 4 or 8.
    pub fn wire_len(&self) -> u16 {
        let mut len = 0;
        len += if self.mss.is_some() { 4 } else { 0 };
        len += if self.window_scale.is_some() { 4 } else { 0 };
        len += if self.sack_permitted { 4 } else { 0 };
        len += if self.timestamps.is_some() { 12 } else { 0 };
        len += if self.sack.is_empty() { 0 } else { 4 + 8 * u16::from(self.sack.len) };
        len += if self.smart.is_some() { 8 } else { 0 };
        len += if self.eln { 4 } else { 0 };
        len += match self.ack_congestion {
            None => 0,
            Some(AckCongestionOption::Permitted) => 4,
            Some(AckCongestionOption::Ratio(_)) => 8,
        };
        len += self.ecn_counters.map_or(0, |counters| counters.padded_len(!self.sack.is_empty()));
        len
    }

    /// Returns the number of bytes that are left in a TCP header.
    pub fn space(&self) -> u16 {
        MOST_OPTIONS.saturating_sub(self.wire_len())
    }

    /// Drops the last SACK blocks that do not fit into a TCP header with the other options.
    pub fn fit_sack(&mut self) {
        let others = Self { sack: SackBlocks::NONE, ..*self }.wire_len();
        let room = MOST_OPTIONS.saturating_sub(others + 4) / 8;
        self.sack.len = self.sack.len.min(room as u8);
    }
}

/// TCP segment header.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// First sequence number.
    pub seq: Seq,
    /// Next expected sequence number; meaningful if [`Flags::ACK`] is set.
    pub ack: Seq,
    /// Window field as on the wire, before scaling.
    pub window: u16,
    /// Flags.
    pub flags: Flags,
    /// Options.
    pub options: Options,
}

/// Form of a QUIC packet's header: the first bit of a datagram, which every version sends in the clear (RFC 8999 §5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum HeaderForm {
    /// Long header: connection establishment.
    Long,
    /// Short header: an established connection.
    #[default]
    Short,
}

impl HeaderForm {
    /// Returns the form of the first packet in a datagram with this payload. An empty datagram counts as short.
    pub fn of(payload: &[u8]) -> Self {
        match payload {
            &[first, ..] if first & 0x80 != 0 => Self::Long,
            _ => Self::Short,
        }
    }
}

/// Contents of a packet besides its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// An unreliable datagram with its number in the flow.
    Datagram {
        /// Number, from 0.
        number: u32,
    },
    /// A datagram of a call with its number in the flow, marked as such by its DSCP (expedited forwarding, RFC 3246).
    Media {
        /// Number, from 0.
        number: u32,
    },
    /// A UDP datagram of a QUIC connection (RFC 9000). An observer on the path can recognize it as one, but not read
    /// it.
    Quic {
        /// Number of the datagram among those of its sender, from 0.
        number: u32,
        /// Bytes of stream data in the datagram; for measurement only.
        data: u32,
        /// Form of the header of the first packet in the datagram.
        form: HeaderForm,
    },
    /// Nothing: a control frame of a link protocol.
    Control,
    /// A combination of packets that a link protocol made.
    Coded(Image),
    /// Report of received packets by an end of a two-ended link.
    Report(LinkReport),
}

impl Default for Body {
    fn default() -> Self {
        Self::Datagram { number: 0 }
    }
}

/// A driver's representation of a payload, with the operations that mechanisms need; by default there is none.
pub trait Payload: Clone + Default {
    /// Returns whether two packets of one direction of a flow contain the same bytes wherever their sequence numbers
    /// overlap. Returns false if that cannot be determined.
    fn agrees(a: &Packet<Self>, b: &Packet<Self>) -> bool;

    /// Returns a digest of a packet's TCP options that [`Options`] does not contain: packets with different digests
    /// differ in these options. Returns zero for a packet without such options.
    fn unread_options(_packet: &Packet<Self>) -> u64 {
        0
    }
}

/// The simulator's packets have no bytes that could differ.
impl Payload for () {
    fn agrees(_: &Packet, _: &Packet) -> bool {
        true
    }
}

/// A packet: parsed headers, the length of its payload, and the payload in the driver's representation (nothing in the
/// simulator, a buffer handle in the gateway).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packet<P = ()> {
    /// Connection of the packet.
    pub flow: FlowId,
    /// End of the flow that sent it.
    pub from: Side,
    /// Treatment of the packet by queues.
    pub priority: Priority,
    /// Damage to the packet by the channel.
    pub integrity: Integrity,
    /// ECN codepoint: ECN-capable or not, and marked or not.
    pub ecn: Ecn,
    /// Reason why the packet was sent; for measurement only.
    pub cause: Cause,
    /// Number of the super-segment that the packet is a part of, from 1 to 255 in turn; 0 if it is a part of none. A
    /// host with segmentation offload sends super-segments, and elements end them.
    pub super_segment: u8,
    /// Bytes of network and transport header that the packet takes on the wire.
    pub header_len: u16,
    /// Bytes of payload.
    pub len: u32,
    /// Headers.
    pub body: Body,
    /// Headers of link protocols, between the two ends of their link.
    pub link: LinkHeaders,
    /// The driver's representation of the payload.
    pub payload: P,
}

impl<P> Packet<P> {
    /// Returns the same packet with another payload.
    pub fn with_payload<Q>(&self, payload: Q) -> Packet<Q> {
        let Self { flow, from, priority, integrity, ecn, cause, super_segment, header_len, len, body, link, .. } =
            *self;
        Packet { flow, from, priority, integrity, ecn, cause, super_segment, header_len, len, body, link, payload }
    }

    /// Returns the packet's length on the wire, in bytes: headers and payload.
    #[inline]
    pub const fn wire_len(&self) -> u32 {
        self.len.saturating_add(self.header_len as u32)
    }

    /// Returns whether the packet carries application data. For measurement and error models; mechanisms must not use
    /// it for QUIC.
    #[inline]
    pub const fn has_data(&self) -> bool {
        match &self.body {
            Body::Quic { data, .. } => *data > 0,
            Body::Tcp(_)
            | Body::Datagram { .. }
            | Body::Media { .. }
            | Body::Control
            | Body::Coded(_)
            | Body::Report(_) => self.len > 0,
        }
    }

    /// Returns the TCP header, if the packet is a TCP segment.
    #[inline]
    pub const fn tcp(&self) -> Option<&Segment> {
        match &self.body {
            Body::Tcp(segment) => Some(segment),
            Body::Datagram { .. }
            | Body::Media { .. }
            | Body::Quic { .. }
            | Body::Control
            | Body::Coded(_)
            | Body::Report(_) => None,
        }
    }

    /// Returns the sequence space that a TCP segment occupies: payload, plus one each for SYN and FIN.
    #[inline]
    pub const fn seq_len(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => {
                self.len.saturating_add(segment.flags.has(Flags::SYN) as u32 + segment.flags.has(Flags::FIN) as u32)
            }
            Body::Datagram { .. }
            | Body::Media { .. }
            | Body::Quic { .. }
            | Body::Control
            | Body::Coded(_)
            | Body::Report(_) => 0,
        }
    }
}

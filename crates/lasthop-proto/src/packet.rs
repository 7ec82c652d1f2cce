//! Packets in parsed form. Bytes are parsed and written only at the edge, by the live driver.

use core::num::NonZeroU8;

pub use crate::link::headers::LinkHeaders;
use crate::link::hybrid::Image;
use crate::seq::Seq;

/// Which connection a packet belongs to. Drivers hand these out: the simulator one per flow, the gateway one per
/// 5-tuple.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Of a link's control frames, which belong to no flow.
    pub const NONE: Self = Self(u32::MAX);
}

/// The end of a flow that a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Side {
    /// The end that opened the flow.
    #[default]
    Initiator,
    /// The end that accepted it.
    Acceptor,
}

impl Side {
    /// The other end.
    #[inline]
    pub const fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Acceptor,
            Self::Acceptor => Self::Initiator,
        }
    }

    /// 0 for the initiator, 1 for the acceptor: for tables with one entry per side.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// How a queue treats a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Priority {
    /// First come, first served.
    #[default]
    Normal,
    /// Ahead of queued data: local retransmissions (\[a\] §III-A).
    Urgent,
}

/// What the channel did to a packet that arrived all the same.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Integrity {
    /// As sent.
    #[default]
    Intact,
    /// Corrupted, but the headers survived: of use to a receiver that tells corruption from congestion (ELN).
    PayloadDamaged,
}

/// Why a packet was sent. Measurement reads it; no mechanism may (`tests/cause.rs` looks). The lab, which sees real packets, makes it up
/// from what it has counted on the way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Cause {
    /// Data never sent before.
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
    /// An acknowledgment that the base station sends for data acknowledged before.
    LocalAck,
    /// An unreliable datagram.
    Datagram,
    /// Resent because the retransmission timer expired, or while going back over what was sent before it did.
    Timeout,
    /// Resent on the duplicate-acknowledgment threshold.
    FastRetransmit,
    /// Resent on a partial acknowledgment (NewReno).
    PartialAck,
    /// Resent to fill a hole that SACK blocks show.
    SackHole,
    /// Resent ahead of the timeout, to see whether the tail was lost (RFC 8985 §7).
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
    /// Resent by a link protocol: the other end of the link says that the frame is missing.
    LinkNack,
    /// Resent by a link protocol on its own timer.
    LinkTimer,
    /// Sent by a link protocol ahead of any loss: a copy, or a combination of packets.
    LinkRepair,
    /// A control frame of a link protocol.
    LinkControl,
}

impl Cause {
    /// Whether the sender of the flow sent this data before.
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

    /// Whether a base station, or an end of the lossy link, repeats data here that it sent before.
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

    /// A stable lower-case name, used in traces.
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

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Ecn {
    /// The ends do not take marks for this packet: a congested queue drops it.
    #[default]
    NotEct,
    /// ECN-capable, codepoint ECT(1).
    Ect1,
    /// ECN-capable, codepoint ECT(0): what senders without a use for ECT(1) set.
    Ect0,
    /// Congestion experienced: a queue marked it instead of dropping it.
    Ce,
}

impl Ecn {
    /// The field that the low two bits of `byte` hold (IPv4's type of service, IPv6's traffic class).
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits on the wire.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark the packet instead of dropping it; one that is marked already may pass again.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// TCP flags (RFC 9293 §3.1), in wire order: the eight of the flags byte, and above them AE. The three bits that are still
/// reserved are not kept.
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
    /// Accurate ECN (RFC 9768); NS before that.
    pub const AE: Self = Self(0x100);
    /// All that are kept.
    pub const ALL: Self = Self(0x1ff);

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether any of `other` is set.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags byte of the header: all but [`Flags::AE`].
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

/// A run of received bytes, `left..right`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlock {
    /// First byte of the run.
    pub left: Seq,
    /// The byte after the run.
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

    /// Adds a block after those present; drops it when four are there already.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = block;
            self.len += 1;
        }
    }

    /// Puts another block in the place of the first, if there is one.
    pub fn replace_first(&mut self, block: SackBlock) {
        if let Some(first) = self.blocks[..usize::from(self.len)].first_mut() {
            *first = block;
        }
    }

    /// The blocks, most recent first.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The options of acknowledgment congestion control. No segment has both: one stands on a SYN, the other on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckCongestionOption {
    /// Its sender keeps to the ratios that it is told, and may tell some (RFC 5690 §4.1).
    Permitted,
    /// One acknowledgment for so many segments (RFC 5690 §4.2).
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
    /// Timestamps (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018 §3).
    pub sack: SackBlocks,
}

/// Bytes that a TCP header has for options (RFC 9293 §3.1).
const MOST_OPTIONS: u16 = 40;

impl Options {
    /// Bytes that the options take in a TCP header, padded to a multiple of four. SMART, ELN and the two of acknowledgment
    /// congestion control count as experimental options (RFC 6994): 8 bytes, 4, and 4 or 8.
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
        len
    }

    /// Drops the last SACK blocks, as far as a TCP header has no room for them beside the other options.
    pub fn fit_sack(&mut self) {
        let others = Self { sack: SackBlocks::NONE, ..*self }.wire_len();
        let room = MOST_OPTIONS.saturating_sub(others + 4) / 8;
        self.sack.len = self.sack.len.min(room as u8);
    }
}

/// A TCP segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// First sequence number.
    pub seq: Seq,
    /// Next expected sequence number; meaningful when [`Flags::ACK`] is set.
    pub ack: Seq,
    /// The window field as on the wire, before scaling.
    pub window: u16,
    /// Flags.
    pub flags: Flags,
    /// Options.
    pub options: Options,
}

/// What a packet carries besides its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// An unreliable datagram with its number in the flow.
    Datagram {
        /// Counts from 0.
        number: u32,
    },
    /// A datagram of a call with its number in the flow. Its DSCP says so (expedited forwarding, RFC 3246).
    Media {
        /// Counts from 0.
        number: u32,
    },
    /// A UDP datagram of a QUIC connection (RFC 9000). Who is on the way sees that it is one, and nothing of what is in it.
    Quic {
        /// Number of the datagram among those of its sender, from 0.
        number: u32,
        /// Bytes of streams in it; for measurement only.
        data: u32,
    },
    /// Nothing: a control frame of a link protocol.
    Control,
    /// A combination of packets that a link protocol made.
    Coded(Image),
    /// What the end of a two-ended link says that it received.
    Report(LinkReport),
}

/// What a frame of feedback says ([`crate::link::hybrid`]): numbers in their low 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkReport {
    /// The largest packet number that arrived.
    pub largest: u32,
    /// For how many microseconds it has been here.
    pub delay: u32,
    /// Which of the 128 packets before it arrived, the nearest first: low bits of the first word.
    pub received: [u32; 4],
    /// The first symbol that is missing.
    pub floor: u32,
    /// Which of the 128 symbols after that are here, the nearest first.
    pub beyond: [u32; 4],
    /// Bytes that arrived.
    pub delivered: u32,
    /// Coded frames that were of use.
    pub useful: u32,
    /// Packets that came marked.
    pub marked: u32,
}

impl Default for Body {
    fn default() -> Self {
        Self::Datagram { number: 0 }
    }
}

/// The driver's form of a payload, as far as mechanisms look at it; the default is none.
pub trait Payload: Clone + Default {
    /// Whether two packets of one direction of a flow hold the same bytes wherever their sequence numbers meet. Not where
    /// nobody can tell.
    fn agrees(a: &Packet<Self>, b: &Packet<Self>) -> bool;

    /// Digest of the TCP options of a packet that [`Options`] does not hold, so that two packets whose digests differ say
    /// different things in them; zero for a packet without such options.
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

/// A packet: parsed headers, the length of its payload, and the payload in whatever form the driver keeps it (nothing in
/// the simulator, a buffer handle in the gateway).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packet<P = ()> {
    /// The connection.
    pub flow: FlowId,
    /// The end it comes from.
    pub from: Side,
    /// How queues treat it.
    pub priority: Priority,
    /// What the channel did to it.
    pub integrity: Integrity,
    /// Whether queues may mark it, and whether one did.
    pub ecn: Ecn,
    /// Why it was sent; for measurement only.
    pub cause: Cause,
    /// Bytes of network and transport header that it takes on the wire.
    pub header_len: u16,
    /// Bytes of payload.
    pub len: u32,
    /// Headers.
    pub body: Body,
    /// The headers of link protocols, between the two ends of their link.
    pub link: LinkHeaders,
    /// The driver's form of the payload.
    pub payload: P,
}

impl<P> Packet<P> {
    /// The same packet with another payload.
    pub fn with_payload<Q>(&self, payload: Q) -> Packet<Q> {
        let Self { flow, from, priority, integrity, ecn, cause, header_len, len, body, link, .. } = *self;
        Packet { flow, from, priority, integrity, ecn, cause, header_len, len, body, link, payload }
    }

    /// Bytes on the wire: headers and payload.
    #[inline]
    pub const fn wire_len(&self) -> u32 {
        self.len.saturating_add(self.header_len as u32)
    }

    /// Whether it carries what an application sent. Measurement and error models ask so; no mechanism may of QUIC.
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

    /// The TCP header, if it is a TCP segment.
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

    /// Sequence space that a TCP segment occupies: payload, plus one each for SYN and FIN.
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

//! Frames exchanged by the two ends, and their contents.

use core::fmt::Debug;

use super::code::Coded;
use super::numbers::{PacketNumber, PathId, Symbol, Window};
use crate::packet::{Segment, Side};
use crate::time::Duration;

/// Treatment of a packet on the hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Class {
    /// Repaired in several rounds; delivered in order within its flow.
    #[default]
    Ordered,
    /// Repaired within a deadline; passed on as it arrives.
    RealTime,
    /// Repaired within a deadline, without copies ahead of a loss; passed on as it arrives. For acknowledgments, for
    /// which later ones compensate.
    AtOnce,
}

impl Class {
    /// Returns the class that frames encode as this byte, `class as u8`.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Ordered),
            1 => Some(Self::RealTime),
            2 => Some(Self::AtOnce),
            _ => None,
        }
    }
}

/// Type of a packet, according to its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// A byte stream or another protocol that suffers from reordering: TCP, QUIC, ESP, VPNs.
    Stream,
    /// A pure acknowledgment.
    Acknowledgment,
    /// A part of a call, marked by its DSCP (expedited forwarding, RFC 3246).
    Call,
    /// Any other datagram: games, DNS, echo requests, and unmarked calls.
    Datagram,
    /// A packet sent without repair, for comparison: never retransmitted, not covered by any code, passed on as it
    /// arrives.
    Bare,
}

/// A TCP segment in a packet.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpSight<C> {
    /// Key of the segment's connection.
    pub connection: C,
    /// End of the connection that sent the segment. Either end may be called the initiator, but always the same one.
    pub side: Side,
    /// Header of the segment.
    pub segment: Segment,
    /// Bytes of data.
    pub len: u32,
}

/// A driver's packet.
pub trait Item: Clone {
    /// A linear combination of such packets.
    type Coded: Coded;

    /// Key of a TCP connection, equal in both directions.
    type Connection: Ord + Clone + Debug;

    /// Returns a key that identifies the packet's flow and direction.
    fn flow(&self) -> u32;

    /// Returns the packet's length on the wire without the hop's own header, in bytes.
    fn bytes(&self) -> u32;

    /// Returns the packet's type.
    fn traffic(&self) -> Traffic;

    /// Marks congestion (RFC 3168 §5) if the packet is ECN-capable, and returns whether it is marked now.
    fn mark(&mut self) -> bool;

    /// Returns whether the packet is marked.
    fn is_marked(&self) -> bool;

    /// Returns the TCP segment in the packet; `None` if there is none, or only a part of one.
    fn tcp(&self) -> Option<TcpSight<Self::Connection>>;

    /// Writes another window into the TCP segment in the packet. Has no effect on other packets.
    fn set_window(&mut self, window: u16);

    /// Returns the packet as a vector for the code, together with its frame's label.
    fn encode(&self, label: Label) -> Self::Coded;

    /// Returns the packet that a code restored; `None` if it is invalid.
    fn decode(coded: &Self::Coded) -> Option<(Self, Label)>;
}

/// Label of a packet in a data frame, besides the number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Label {
    /// Treatment of the packet.
    pub class: Class,
    /// Distance to the previous symbol of the packet's flow; 0 if the packet waits for none.
    pub chain: u8,
}

/// Report of arrivals at an end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Feedback {
    /// Path on which the reported packets arrived. The report may be sent on another one.
    pub path: PathId,
    /// Largest packet number that arrived.
    pub largest: PacketNumber,
    /// Time since the arrival of packet `largest`.
    pub delay: Duration,
    /// Distance of the packets that `received` describes from those before `largest`, if there are several paths.
    pub back: u16,
    /// Bit i: packet `largest - 1 - back - i` arrived.
    pub received: u128,
    /// Lowest missing symbol. All symbols below it are present, or were given up.
    pub floor: Symbol,
    /// Bit i: symbol `floor + 1 + i` is present.
    pub beyond: u128,
    /// Bytes of all frames that arrived since the start, without the hop's headers. Wraps.
    pub delivered: u32,
    /// Number of frames since the start that delivered a symbol by redundancy: copies ahead of a loss, and coded
    /// frames. Wraps.
    pub useful: u32,
    /// Number of packets since the start that arrived marked with congestion experienced (RFC 3168). Wraps.
    pub marked: u32,
    /// Time at which packet `largest` arrived, on the clock of the end that reports it, in microseconds, if there are
    /// several paths. Wraps.
    pub arrived: u32,
}

/// Contents of a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Frame<I: Item> {
    /// A packet.
    Data(Symbol, Label, I),
    /// A combination of the symbols in the window, with the coefficients that the key determines.
    Repair(Window, u8, I::Coded),
    /// A report of arrivals.
    Feedback(Feedback),
    /// Notice that no symbol below this one will be sent any more.
    Floor(Symbol),
    /// A request for feedback.
    Probe,
    /// A packet without a number, which no repair can refer to.
    Bare(I),
}

impl<I: Item> Frame<I> {
    /// Returns whether the other end has to acknowledge the frame.
    pub const fn elicits(&self) -> bool {
        !matches!(self, Self::Feedback(_))
    }
}

/// Reason for which a frame was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// First transmission of a packet.
    First,
    /// Retransmission of a packet declared lost.
    Resend,
    /// Probe for whether the last packets arrived.
    Probe,
    /// Redundancy ahead of a loss.
    Redundancy,
    /// Neither packet nor repair.
    Control,
}

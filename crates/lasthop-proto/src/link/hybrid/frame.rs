//! What the two ends say to each other, and what they carry.

use core::fmt::Debug;

use super::code::Coded;
use super::numbers::{PacketNumber, Symbol, Window};
use crate::packet::{Segment, Side};
use crate::time::Duration;

/// How a packet is treated on the hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Class {
    /// Repaired in several rounds; in order among those of its flow.
    #[default]
    Ordered,
    /// Repaired within a deadline; handed on when it arrives.
    RealTime,
    /// Repaired within a deadline, never sent twice ahead of a loss; handed on when it arrives. For acknowledgments, which
    /// later ones make up for.
    AtOnce,
}

impl Class {
    /// The class that frames write as this byte, `class as u8`.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Ordered),
            1 => Some(Self::RealTime),
            2 => Some(Self::AtOnce),
            _ => None,
        }
    }
}

/// What a packet is, as far as its headers tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// A byte stream or another protocol that suffers from disorder: TCP, QUIC, ESP, VPNs.
    Stream,
    /// Nothing but an acknowledgment.
    Acknowledgment,
    /// A part of a call, as its DSCP says (expedited forwarding, RFC 3246).
    Call,
    /// Anything else: games, names, echoes, and calls that nobody marked.
    Datagram,
    /// A packet that is to go unrepaired, for comparison: never sent again, in no code, handed on when it arrives.
    Bare,
}

/// A TCP segment in a packet.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpSight<C> {
    /// Tells its connection from others.
    pub connection: C,
    /// Which of the connection's ends sent it. Either may be called the initiator, but always the same one.
    pub side: Side,
    /// Its header.
    pub segment: Segment,
    /// Bytes of data.
    pub len: u32,
}

/// What a driver carries over the hop.
pub trait Item: Clone {
    /// A linear combination of such packets.
    type Coded: Coded;

    /// What tells a TCP connection from others, the same in both directions.
    type Connection: Ord + Clone + Debug;

    /// Tells its flow and direction from others.
    fn flow(&self) -> u32;

    /// Bytes on the wire without the hop's own header.
    fn bytes(&self) -> u32;

    /// What it is.
    fn traffic(&self) -> Traffic;

    /// Marks congestion (RFC 3168 §5), if its ends take marks; says whether it is marked now.
    fn mark(&mut self) -> bool;

    /// Whether it is marked.
    fn is_marked(&self) -> bool;

    /// The TCP segment in it; `None` where it is none, or only a part of one.
    fn tcp(&self) -> Option<TcpSight<Self::Connection>>;

    /// Writes another window into the TCP segment in it. What is none stays as it is.
    fn set_window(&mut self, window: u16);

    /// The packet as the code sees it, together with what its frame says.
    fn encode(&self, label: Label) -> Self::Coded;

    /// The packet that a code restored; `None` where that is not one.
    fn decode(coded: &Self::Coded) -> Option<(Self, Label)>;
}

/// What a data frame says of its packet besides the number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Label {
    /// How it is treated.
    pub class: Class,
    /// Distance to the symbol of its flow before it; 0 when there is none to wait for.
    pub chain: u8,
}

/// What arrived at the end that says so.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Feedback {
    /// The largest packet number that arrived.
    pub largest: PacketNumber,
    /// For how long it has been here.
    pub delay: Duration,
    /// Bit i: the packet `largest - 1 - i` arrived.
    pub received: u128,
    /// Every symbol below is here, or was given up.
    pub floor: Symbol,
    /// Bit i: the symbol `floor + 1 + i` is here.
    pub beyond: u128,
    /// Bytes of all frames that arrived since the start, without the hop's headers. Wraps.
    pub delivered: u32,
    /// Frames since the start that brought a symbol by redundancy: copies ahead of a loss, and coded ones. Wraps.
    pub useful: u32,
    /// Packets since the start that came marked as having met congestion (RFC 3168). Wraps.
    pub marked: u32,
}

/// What is in a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Frame<I: Item> {
    /// A packet.
    Data(Symbol, Label, I),
    /// A combination of the symbols in the window, with the coefficients that the key gives.
    Repair(Window, u8, I::Coded),
    /// What arrived.
    Feedback(Feedback),
    /// No symbol below comes any more.
    Floor(Symbol),
    /// Asks for feedback.
    Probe,
    /// A packet without a number of its own, so that no repair can name it.
    Bare(I),
}

impl<I: Item> Frame<I> {
    /// Whether the other end is to say that it arrived.
    pub const fn elicits(&self) -> bool {
        !matches!(self, Self::Feedback(_))
    }
}

/// Why a frame was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A packet for the first time.
    First,
    /// A packet that is known to be lost.
    Resend,
    /// To find out whether the last packets arrived.
    Probe,
    /// Ahead of a loss.
    Redundancy,
    /// Neither packet nor repair.
    Control,
}

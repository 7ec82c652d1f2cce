//! A packet in the engine, with the state known before a rule treats it.

use lasthop_proto::node::Port;
use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::pep::tracking::Take;
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksum, View};

use super::flow::Guarded;

/// A packet in the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing<'a> {
    pub now: Instant,
    /// Port at which the packet arrived.
    pub port: Port,
    pub packet: &'a [u8],
    pub view: &'a View,
    /// State of the packet's checksum field. A complete checksum has been verified.
    pub checksum: Checksum,
    pub id: FlowId,
    pub from: Side,
    /// The receiver's expected reaction to the packet.
    pub take: Take,
    /// True if the packet must pass unchanged.
    pub guarded: Guarded,
    /// Payload bytes of each segment in the packet.
    pub size: u32,
    /// True if every piece repeats the packet's CWR flag, because the flag is part of a counter.
    pub repeats_cwr: bool,
}

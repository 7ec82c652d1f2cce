//! A packet on its way through, with all that is known of it before a rule treats it.

use lasthop_proto::node::Port;
use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::pep::tracking::Take;
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksum, View};

use super::flow::Guarded;

/// A packet on its way through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing<'a> {
    pub now: Instant,
    /// Where it came in.
    pub port: Port,
    pub packet: &'a [u8],
    pub view: &'a View,
    /// What its checksum field holds; a complete one is right.
    pub checksum: Checksum,
    pub id: FlowId,
    pub from: Side,
    /// What the other end makes of it.
    pub take: Take,
    /// Whether it must pass as it is.
    pub guarded: Guarded,
    /// Payload bytes of the segments in it.
    pub size: u32,
    /// Whether each of these segments has the CWR flag that it has, as part of a counter.
    pub repeats_cwr: bool,
}

//! Decisions of an engine.

use lasthop_proto::node::Port;

/// Decision on a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Forward the packet unchanged.
    Accept,
    /// Drop the packet.
    Drop,
    /// Forward this packet in place of the one that arrived.
    Replace(Vec<u8>),
}

/// A packet that the gateway sends in addition, starting with its IP header. Checksums are computed; it fits the MTU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injection {
    /// Direction. [`Port::WIRELESS`]: a local retransmission over the lossy hop. [`Port::WIRED`]: an acknowledgment.
    pub towards: Port,
    /// The packet.
    pub packet: Vec<u8>,
}

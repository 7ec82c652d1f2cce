//! Decisions of an engine.

use lasthop_proto::node::Port;

/// Decision on a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Forward it as it is.
    Accept,
    /// Drop it.
    Drop,
    /// Forward this packet instead.
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

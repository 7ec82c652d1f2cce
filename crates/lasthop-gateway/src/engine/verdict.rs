//! What an engine decides.

use lasthop_proto::node::Port;

/// What the kernel is to do with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Forward it as it is.
    Accept,
    /// Drop it.
    Drop,
    /// Forward this instead.
    Replace(Vec<u8>),
}

/// A packet that the gateway sends by itself, beginning with its IP header, checksums computed; at most an MTU long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injection {
    /// [`Port::WIRELESS`]: a local retransmission, over the lossy hop. [`Port::WIRED`]: an acknowledgment to the sender.
    pub towards: Port,
    /// The packet.
    pub packet: Vec<u8>,
}

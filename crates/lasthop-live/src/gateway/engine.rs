//! What becomes of each packet that the gateway sees. No I/O and no clock: drivers feed it packets and the time, and carry
//! out what it says; a recorded sequence fed to it gives the same decisions.

use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;

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

/// The treatment of all connections through one gateway.
#[derive(Debug, Default)]
pub struct Engine {}

impl Engine {
    /// Takes a packet that came in at `port` ([`Port::WIRED`]: on its way to the lossy hop), beginning with its IP header,
    /// possibly a super-segment as receive offload builds them, its checksum possibly not computed yet. What the gateway is
    /// to send besides goes to the end of `out`.
    pub fn handle_packet(&mut self, now: Instant, port: Port, packet: &[u8], out: &mut Vec<Injection>) -> Verdict {
        let _ = (now, port, packet, out);
        Verdict::Accept
    }

    /// Acts on whatever deadline has come. Harmless when called early.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Injection>) {
        let _ = (now, out);
    }

    /// When to call [`Engine::handle_timeout`] next.
    pub fn poll_deadline(&self) -> Option<Instant> {
        None
    }
}

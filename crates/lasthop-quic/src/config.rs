//! What a QUIC connection does, as plain data, and the same as quinn takes it: the simulator and the lab configure their ends here.

use std::sync::Arc;

use lasthop_proto::time::Duration;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

/// Smallest datagram that every QUIC path must carry, without IP and UDP headers (RFC 9000 §14).
pub const SMALLEST_UDP_PAYLOAD: u16 = 1200;

/// Largest payload of a UDP datagram over IPv4.
pub const LARGEST_UDP_PAYLOAD: u16 = 65_507;

/// A QUIC connection: what its ends do, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicConfig {
    /// What the application does.
    pub task: Task,
    /// Congestion control of both ends.
    pub congestion: CongestionControl,
    /// Bytes of a full datagram without IP and UDP headers; the path is taken to carry it, and not searched for more.
    pub udp_payload: u16,
    /// Bytes that may be on their way on one stream without an answer of the receiver.
    pub stream_window: u32,
    /// Silence after which the connection is given up (RFC 9000 §10.1).
    pub idle_timeout: Duration,
}

/// What the application does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// The initiator sends so many bytes on one stream.
    Bulk {
        /// Payload bytes.
        bytes: u64,
    },
    /// The initiator asks, the acceptor answers.
    Exchange(Exchange),
}

/// Requests and responses, each pair on a stream of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Bytes of each request.
    pub request: u64,
    /// Bytes of each response.
    pub response: u64,
    /// How many there are.
    pub requests: u32,
    /// How many are under way at once; another begins when one is over.
    pub parallel: u32,
}

/// quinn's congestion controls. Its BBR is not among them: it draws random numbers from the operating system and takes no seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionControl {
    /// CUBIC (RFC 8312).
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
}

impl CongestionControl {
    /// As quinn takes it.
    pub fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
        }
    }
}

impl QuicConfig {
    /// The connection as quinn takes it; all that is not named here is quinn's default.
    pub fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let streams = match self.task {
            Task::Bulk { .. } => 1,
            Task::Exchange(exchange) => exchange.parallel,
        };
        let idle = VarInt::from_u64(self.idle_timeout.as_nanos() / 1_000_000).unwrap_or(VarInt::MAX);
        transport
            .congestion_controller_factory(self.congestion.factory())
            // A path of one known size: nothing to search for, and nothing to fall back to when losses look like a black hole.
            .initial_mtu(self.udp_payload)
            .min_mtu(self.udp_payload)
            .mtu_discovery_config(None)
            .stream_receive_window(VarInt::from_u32(self.stream_window))
            // As quinn's default does: room for eight streams' windows.
            .send_window(8 * u64::from(self.stream_window))
            .max_concurrent_bidi_streams(VarInt::from_u32(streams))
            .max_concurrent_uni_streams(VarInt::from_u32(streams))
            .max_idle_timeout(Some(IdleTimeout::from(idle)));
        transport
    }

    /// Application bytes that one end gets from the other: responses, or the bulk.
    pub const fn bytes(&self) -> u64 {
        match self.task {
            Task::Bulk { bytes } => bytes,
            Task::Exchange(exchange) => exchange.response.saturating_mul(exchange.requests as u64),
        }
    }
}

//! Configuration of a QUIC connection as plain data, and its conversion for quinn. The simulator and the lab configure
//! their ends here.

use std::sync::Arc;

use lasthop_proto::time::Duration;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

/// Minimum datagram size that every QUIC path must carry, without IP and UDP headers (RFC 9000 §14).
pub const SMALLEST_UDP_PAYLOAD: u16 = 1200;

/// Maximum payload of a UDP datagram over IPv4.
pub const LARGEST_UDP_PAYLOAD: u16 = 65_507;

/// Configuration of a QUIC connection: its application, and parameters of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicConfig {
    /// Task of the application.
    pub task: Task,
    /// Congestion control of both ends.
    pub congestion: CongestionControl,
    /// Size of a full datagram without IP and UDP headers, in bytes. The path is assumed to carry it, and not probed
    /// for more.
    pub udp_payload: u16,
    /// Maximum number of bytes in flight on one stream without a window update by the receiver.
    pub stream_window: u32,
    /// Silence after which the connection is given up (RFC 9000 §10.1).
    pub idle_timeout: Duration,
}

/// Task of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// The initiator sends data on one stream.
    Bulk {
        /// Payload bytes.
        bytes: u64,
    },
    /// The initiator sends requests, the acceptor responses.
    Exchange(Exchange),
}

/// Requests and responses, each pair on a separate stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Bytes of each request.
    pub request: u64,
    /// Bytes of each response.
    pub response: u64,
    /// Number of requests.
    pub requests: u32,
    /// Number of concurrent requests; another begins when one is complete.
    pub parallel: u32,
}

/// quinn's congestion controls. Its BBR is not included: it draws random numbers from the operating system and takes no
/// seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionControl {
    /// CUBIC (RFC 8312).
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
}

impl CongestionControl {
    /// Returns the congestion control in quinn's form.
    pub fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
        }
    }
}

impl QuicConfig {
    /// Returns the connection in quinn's form; all parameters not named here have quinn's defaults.
    pub fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let streams = match self.task {
            Task::Bulk { .. } => 1,
            Task::Exchange(exchange) => exchange.parallel,
        };
        let idle = VarInt::from_u64(self.idle_timeout.as_nanos() / 1_000_000).unwrap_or(VarInt::MAX);
        transport
            .congestion_controller_factory(self.congestion.factory())
            // A path of one known size: nothing to probe for, and no fallback when losses look like a black hole.
            .initial_mtu(self.udp_payload)
            .min_mtu(self.udp_payload)
            .mtu_discovery_config(None)
            .stream_receive_window(VarInt::from_u32(self.stream_window))
            // As in quinn's default: space for eight streams' windows.
            .send_window(8 * u64::from(self.stream_window))
            .max_concurrent_bidi_streams(VarInt::from_u32(streams))
            .max_concurrent_uni_streams(VarInt::from_u32(streams))
            .max_idle_timeout(Some(IdleTimeout::from(idle)));
        transport
    }

    /// Returns the number of application bytes that one end receives from the other: responses, or the bulk.
    pub const fn bytes(&self) -> u64 {
        match self.task {
            Task::Bulk { bytes } => bytes,
            Task::Exchange(exchange) => exchange.response.saturating_mul(exchange.requests as u64),
        }
    }
}

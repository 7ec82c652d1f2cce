//! QUIC endpoints (RFC 9000): the state machine of [quinn](https://github.com/quinn-rs/quinn) behind the contract that
//! all nodes share ([`Node`](lasthop_proto::node::Node)).
//!
//! The code is the same as in programs: streams, loss recovery, congestion control, pacing, acknowledgments and flow
//! control are quinn's. Three things differ, so that the same seed yields the same bytes: time is the driver's, random
//! numbers derive from a seed, and nothing is encrypted ([`session`]). Sizes are those of encrypted packets.
#![forbid(unsafe_code)]

mod carried;
mod clock;
mod config;
mod end;
pub mod session;
mod work;

pub use carried::{Carried, Handshake, SentSoFar};
pub use config::{CongestionControl, Exchange, LARGEST_UDP_PAYLOAD, QuicConfig, SMALLEST_UDP_PAYLOAD, Task};
pub use end::{QuicEnd, Setup, UDP_HEADERS};

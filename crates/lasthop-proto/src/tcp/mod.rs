//! TCP endpoints: a [`Connection`] is one end, as a [`Node`](crate::node::Node).
//!
//! [`config`] contains every detail as a key. One of two senders decides what leaves: `classic` has a loss recovery and a
//! window in bytes, [`modern`] has RACK-TLP and a [`congestion`] control.

mod ack;
mod classic;
pub mod config;
pub mod congestion;
mod connection;
mod gro;
pub mod info;
pub mod min_rtt;
pub mod modern;
mod receiver;
pub mod rtt;
mod send_buffer;
mod sender;
mod state;
mod stream;

pub use self::connection::{Connection, Keepalive, Setup, State};
pub use self::info::{AccurateInfo, FlightInfo, OptionsInfo, ReceiverInfo, TcpInfo};
pub use self::rtt::TickPhase;
